"""Measures librmsnorm beside other libraries' RMSNorm, on the same tensors, in one process."""
