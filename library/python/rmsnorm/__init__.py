"""RMSNorm on NVIDIA GPUs: librmsnorm in PyTorch.

    y = rmsnorm.rms_norm(x, weight, 1e-6)
    norm = rmsnorm.RMSNorm(4096, eps=1e-6)  # in the place of torch.nn.RMSNorm

operators.py has what autograd and torch.compile know of. The functions of binding.py call the
library and nothing else; those below have no operator.
"""

try:
    import torch
except ImportError:
    raise ImportError("rmsnorm needs PyTorch: pip install torch") from None
if torch.__version__ < "2.6":  # before, torch.compile took torch.func.grad for zeros
    raise ImportError(f"rmsnorm needs PyTorch 2.6 or newer: this is {torch.__version__}")

from .binding import (  # noqa: E402
    Error, Failure, backward, load, residual_add, rms_norm_pair, rms_norm_rstd, version,
    workspace_bytes)
from .operators import (  # noqa: E402
    RMSNorm, fused_add_rms_norm, fused_add_rms_norm_, fused_add_rms_norm_fp8_, rms_norm,
    rms_norm_fp8, rms_norm_gated, rms_norm_rotated, rms_norm_rotated_)
from .ranks import Ranks, all_reduce_residual_add  # noqa: E402

__all__ = [
    "Error", "Failure", "RMSNorm", "Ranks", "all_reduce_residual_add", "backward",
    "fused_add_rms_norm", "fused_add_rms_norm_", "fused_add_rms_norm_fp8_", "load",
    "residual_add", "rms_norm", "rms_norm_fp8", "rms_norm_gated", "rms_norm_pair",
    "rms_norm_rotated", "rms_norm_rotated_", "rms_norm_rstd", "version", "workspace_bytes"]
