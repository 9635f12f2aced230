"""librmsnorm for PyTorch: the functions of rmsnorm.h, called through ctypes with DLPack views of the
tensors, on the current stream of their device.

    import rmsnorm
    rmsnorm.load("build/cuda/library/librmsnorm.so")
    y = rmsnorm.rms_norm(x, weight, 1e-6)

The last dimension is normed. Tensors of 2 and 3 dimensions are passed as they are, others as
(rows, hidden). Outputs are new tensors, or those of `out`, which may be the inputs. Nothing is
recorded for autograd.
"""

import ctypes

import torch
from torch.utils.dlpack import to_dlpack

_library = None

_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]

_TENSOR = ctypes.c_void_p
_STREAM = ctypes.c_void_p
_FUNCTIONS = {
    "rmsnorm_forward": [_TENSOR] * 3 + [ctypes.c_float] * 2 + [_STREAM],
    "rmsnorm_forward_pair": [_TENSOR] * 6 + [ctypes.c_float] * 2 + [_STREAM],
    "rmsnorm_residual_add": [_TENSOR] * 4 + [ctypes.c_float] * 2 + [_STREAM],
}


class Error(ValueError):
    """What the library refused; `status` is its rmsnorm_status."""

    def __init__(self, status, sentence):
        super().__init__(sentence)
        self.status = status


def load(path):
    """Loads the library from a path: librmsnorm.so. To be called once, before all else."""
    global _library
    library = ctypes.CDLL(path)
    library.rmsnorm_last_error.restype = ctypes.c_char_p
    for name, arguments in _FUNCTIONS.items():
        getattr(library, name).argtypes = arguments
    _library = library


def version():
    """The library's version, as in (1, 1, 0)."""
    number = _library.rmsnorm_version()
    return number // 10000, number // 100 % 100, number % 100


def _call(function, device, tensors, numbers):
    # A capsule owns its view: all of them have to live until the call is over. The view's DLTensor is
    # at its beginning.
    capsules = [None if tensor is None else to_dlpack(tensor.detach()) for tensor in tensors]
    views = [None if c is None else _capsule_pointer(c, b"dltensor") for c in capsules]
    stream = torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else None
    status = function(*views, *numbers, stream)
    if status != 0:
        raise Error(status, _library.rmsnorm_last_error().decode())


def _rows(tensor):
    """The tensor as the library takes it."""
    return tensor if tensor.dim() in (2, 3) else tensor.view(-1, tensor.shape[-1])


def rms_norm(x, weight, eps, out=None, weight_bias=0.0):
    """RMSNorm of x (..., hidden), times weight + weight_bias; without a weight (None), ones."""
    if out is None:
        out = torch.empty_like(x)
    _call(
        _library.rmsnorm_forward, x.device, (_rows(x), weight, _rows(out)), (eps, weight_bias))
    return out


def rms_norm_pair(q, q_weight, k, k_weight, eps, out=None, weight_bias=0.0):
    """RMSNorm of q and of k, in one launch; `out` is a pair of tensors."""
    q_out, k_out = (torch.empty_like(q), torch.empty_like(k)) if out is None else out
    tensors = (_rows(q), q_weight, _rows(q_out), _rows(k), k_weight, _rows(k_out))
    _call(_library.rmsnorm_forward_pair, q.device, tensors, (eps, weight_bias))
    return q_out, k_out


def residual_add(x, residual, weight, eps, out=None, weight_bias=0.0):
    """RMSNorm of x + residual, which replaces the residual; `out` may be x."""
    if out is None:
        out = torch.empty_like(x)
    tensors = (_rows(x), _rows(residual), weight, _rows(out))
    _call(_library.rmsnorm_residual_add, x.device, tensors, (eps, weight_bias))
    return out
