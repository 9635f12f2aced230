"""The functions of rmsnorm.h for PyTorch's tensors, called through ctypes with DLPack views of
them, on the current stream of their device. operators.py makes PyTorch's operators of them.

    from rmsnorm import binding
    y = binding.rms_norm(x, weight, 1e-6)

The last dimension is normed. Tensors of 2, 3 and 4 dimensions are passed as they are, others as
(rows, hidden), which has to be a view of them. A weight is (hidden) or, for 3 and 4 dimensions,
(heads, head_dim): one for each index of the last dimension but one. Outputs are new tensors, or
those of `out`, which may be the inputs. A weight of None stands for ones, and then weight_bias has
to be 0. Nothing is recorded for autograd.

What the library refuses is an Error, and what CUDA cannot do a Failure, both with the library's
sentence. All else raises what PyTorch raises.

A call writes a DLPack view of each tensor into memory of its own, asks for the current stream and
calls the library. It copies nothing, and allocates nothing but the outputs that it was not
given.
"""

import ctypes
import os

import torch
from torch.utils.dlpack import to_dlpack

_MAJOR_VERSION = 1  # of the header that this file was written for
_CUDA_ERROR = 9  # RMSNORM_CUDA_ERROR: it and those after it are no refusals
_INSTALLED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "librmsnorm.so")
_library = None

# As torch.cuda.current_stream(), without making an object; a PyTorch without CUDA has none.
_raw_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None)

_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


def _view_writer():
    """PyTorch's function that writes a tensor's DLTensor to an address, which is the fastest way to
    have one; None in a PyTorch before 2.10. It is in DLPack's table of such functions: a version,
    a pointer to an older table, and the functions, of which it is the fourth."""
    capsule = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
    if capsule is None:
        return None
    table = _capsule_pointer(capsule, b"dlpack_exchange_api")
    if ctypes.c_uint32.from_address(table).value != 1:  # another major version
        return None
    address = ctypes.c_void_p.from_address(table + 8 + 8 + 3 * 8).value
    if address is None:
        return None
    return ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)(address)


class _Places:
    """Where the views of a call are written: a place for each of up to six tensors."""

    def __init__(self):
        size = 48  # of a DLTensor
        self._memory = ctypes.create_string_buffer(6 * size)
        begin = ctypes.addressof(self._memory)
        self.addresses = tuple(range(begin, begin + 6 * size, size))


_write_view = _view_writer()
_free_places = []  # of calls that are over; a list's pop and append are atomic

_TENSOR = ctypes.c_void_p
_STREAM = ctypes.c_void_p
_FUNCTIONS = {
    "rmsnorm_forward": [_TENSOR] * 3 + [ctypes.c_float] * 2 + [_STREAM],
    "rmsnorm_forward_pair": [_TENSOR] * 6 + [ctypes.c_float] * 2 + [_STREAM],
    "rmsnorm_residual_add": [_TENSOR] * 4 + [ctypes.c_float] * 2 + [_STREAM],
    "rmsnorm_forward_rstd": [_TENSOR] * 4 + [ctypes.c_float] * 2 + [_STREAM],
    "rmsnorm_backward_workspace_bytes": [_TENSOR, ctypes.POINTER(ctypes.c_size_t)],
    "rmsnorm_backward": [_TENSOR] * 6
    + [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_float, _STREAM],
}


class Error(ValueError):
    """What the library refused; `status` is its rmsnorm_status."""

    def __init__(self, status, sentence):
        super().__init__(sentence)
        self.status = status


class Failure(RuntimeError):
    """What CUDA or the computer's memory could not do; `status` is its rmsnorm_status."""

    def __init__(self, status, sentence):
        super().__init__(sentence)
        self.status = status


def load(path):
    """Loads the library from a path. To be called before all else where no librmsnorm.so has been
    installed beside this file, or another is wanted."""
    global _library
    library = ctypes.CDLL(path)
    major, minor, patch = _parts(library.rmsnorm_version())
    if major != _MAJOR_VERSION:
        raise RuntimeError(
            f"{path} is librmsnorm {major}.{minor}.{patch}: this package is for {_MAJOR_VERSION}.x")
    library.rmsnorm_last_error.restype = ctypes.c_char_p
    for name, arguments in _FUNCTIONS.items():
        getattr(library, name).argtypes = arguments
    _library = library


def _parts(version):
    return version // 10000, version // 100 % 100, version % 100


def _loaded():
    if _library is None:
        if not os.path.exists(_INSTALLED):
            raise RuntimeError(
                "rmsnorm.load() has to be called first, with the path of librmsnorm.so: pip has "
                "installed none")
        load(_INSTALLED)
    return _library


def version():
    """The library's version, as in (1, 2, 0)."""
    return _parts(_loaded().rmsnorm_version())


def _call_with_capsules(function, tensors, others):
    # A capsule owns its view, which begins with the DLTensor: all live until the call is over.
    capsules = [None if tensor is None else to_dlpack(tensor) for tensor in tensors]
    views = [None if c is None else _capsule_pointer(c, b"dltensor") for c in capsules]
    return function(*views, *others)


def _call_with_views(function, tensors, others):
    # Its own memory for each call: another may begin before this one ends, in another thread, or in
    # what Python runs meanwhile. A view points to its tensor's sizes: the tensors live as long.
    places = _free_places.pop() if _free_places else _Places()
    try:
        views = []
        for tensor, place in zip(tensors, places.addresses):
            if tensor is None:
                place = None
            elif isinstance(tensor, torch.Tensor):  # anything else would crash
                _write_view(tensor, place)
            else:
                raise TypeError(f"{tensor!r} is a {type(tensor).__name__}: it needs to be a tensor")
            views.append(place)
        return function(*views, *others)
    finally:
        _free_places.append(places)


def _call(name, tensors, others):
    function = getattr(_loaded(), name)
    call = _call_with_capsules if _write_view is None else _call_with_views
    status = call(function, tensors, others)
    if status != 0:
        kind = Error if status < _CUDA_ERROR else Failure
        raise kind(status, _library.rmsnorm_last_error().decode())


def _enqueue(name, x, tensors, numbers):
    _call(name, tensors, (*numbers, _raw_stream(x.get_device()) if x.is_cuda else None))


def _rows(tensor):
    """The tensor as the library takes it."""
    if tensor.dim() in (0, 2, 3, 4):  # 0 dimensions are for the library to refuse
        return tensor
    return tensor.view(tensor.shape[:-1].numel(), tensor.shape[-1])


def rms_norm(x, weight, eps, out=None, weight_bias=0.0):
    """RMSNorm of x (..., hidden), times weight + weight_bias; the weight may be None."""
    if out is None:
        out = torch.empty_like(x)
    _enqueue(
        "rmsnorm_forward", x, (_rows(x), weight, _rows(out)), (eps, weight_bias))
    return out


def rms_norm_pair(q, q_weight, k, k_weight, eps, out=None, weight_bias=0.0):
    """RMSNorm of q and of k, in one launch; `out` is a pair of tensors."""
    q_out, k_out = (torch.empty_like(q), torch.empty_like(k)) if out is None else out
    tensors = (_rows(q), q_weight, _rows(q_out), _rows(k), k_weight, _rows(k_out))
    _enqueue("rmsnorm_forward_pair", q, tensors, (eps, weight_bias))
    return q_out, k_out


def residual_add(x, residual, weight, eps, out=None, weight_bias=0.0):
    """RMSNorm of x + residual, which replaces the residual, of any type; `out` may be x."""
    if out is None:
        out = torch.empty_like(x)
    tensors = (_rows(x), _rows(residual), weight, _rows(out))
    _enqueue("rmsnorm_residual_add", x, tensors, (eps, weight_bias))
    return out


def rms_norm_rstd(x, weight, eps, out=None, weight_bias=0.0):
    """RMSNorm of x, and the rstd of its rows, which backward() needs; `out` is such a pair."""
    if out is None:
        out = torch.empty_like(x), torch.empty(x.shape[:-1], dtype=torch.float32, device=x.device)
    y, rstd = out
    tensors = (_rows(x), weight, _rows(y), rstd.view(-1))
    _enqueue("rmsnorm_forward_rstd", x, tensors, (eps, weight_bias))
    return y, rstd


def backward(dy, x, weight, rstd, out=None, weight_bias=0.0, workspace=None):
    """The gradients dx and dweight, which has the shape and type of the weight; without one, it is
    None. `out` is such a pair, and workspace a tensor of workspace_bytes(x) bytes. dy may be
    expanded, its last dimension, too."""
    if out is None:
        out = torch.empty_like(x), None if weight is None else torch.empty_like(weight)
    if workspace is None:
        workspace = torch.empty(workspace_bytes(x), dtype=torch.uint8, device=x.device)
    dx, dweight = out
    tensors = (_rows(dy), _rows(x), weight, rstd.view(-1), _rows(dx), dweight)
    numbers = (workspace.data_ptr(), workspace.nbytes, weight_bias)
    _enqueue("rmsnorm_backward", x, tensors, numbers)
    return dx, dweight


def workspace_bytes(x):
    """The size of a workspace of backward()."""
    number = ctypes.c_size_t()
    _call("rmsnorm_backward_workspace_bytes", (_rows(x),), (ctypes.byref(number),))
    return number.value
