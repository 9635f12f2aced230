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

A call makes a DLPack view of each tensor, asks for the current stream and calls the library. It
copies nothing, and makes no tensors but the outputs that it was not given. An extension
(_fast.cpp), if it lies beside the library, does all that in C++. Without it, or in a PyTorch before
2.10, ctypes does, with views in capsules, which takes longer than a launch.
"""

import ctypes
import importlib.machinery
import importlib.util
import os

import torch
from torch.utils.dlpack import to_dlpack

_VERSION = 1, 6  # major and minor, of the header that this file was written for
_CUDA_ERROR = 9  # RMSNORM_CUDA_ERROR: it and those after it are no refusals
_INSTALLED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "librmsnorm.so")
_library = None
_functions = {}  # of the library: they take tensors and numbers, and return a status

# As torch.cuda.current_stream(), without making an object; a PyTorch without CUDA has none.
_raw_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None)

_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]

# The table of a framework's functions, which the extension calls: a version, a pointer to an older
# table, and the functions. The fourth writes a tensor's DLTensor to an address.
_VIEW_WRITER_AT = 8 + 8 + 3 * 8


def _exchange_table():
    """The address of PyTorch's table; None in a PyTorch before 2.10."""
    capsule = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
    if capsule is None:
        return None
    table = _capsule_pointer(capsule, b"dlpack_exchange_api")
    if ctypes.c_uint32.from_address(table).value != 1:  # another major version
        return None
    if ctypes.c_void_p.from_address(table + _VIEW_WRITER_AT).value is None:
        return None
    return table


_table = _exchange_table()

# How many tensors a function takes, and the numbers after them. A stream comes last, in all but one.
_FLOATS = [ctypes.c_float] * 2
_FUNCTIONS = {
    "rmsnorm_forward": (3, _FLOATS),
    "rmsnorm_forward_pair": (6, _FLOATS),
    "rmsnorm_residual_add": (4, _FLOATS),
    "rmsnorm_forward_fp8": (7, [ctypes.c_int] * 2 + _FLOATS),
    "rmsnorm_forward_rstd": (4, _FLOATS),
    "rmsnorm_backward_workspace_bytes": (1, [ctypes.c_void_p]),
    "rmsnorm_backward": (6, [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_float]),
    "rmsnorm_forward_gated": (4, [ctypes.c_int] * 2 + _FLOATS),
    "rmsnorm_backward_gated_workspace_bytes": (1, [ctypes.c_void_p]),
    "rmsnorm_backward_gated": (7, [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int] + _FLOATS),
    "rmsnorm_forward_rotated": (13, [ctypes.c_int] * 2 + _FLOATS),
    "rmsnorm_all_reduce_residual_add": (4, [ctypes.c_void_p, ctypes.c_int] + _FLOATS),
}
_WITHOUT_STREAM = {"rmsnorm_backward_workspace_bytes", "rmsnorm_backward_gated_workspace_bytes"}

# DLPack's codes for types of 8 bits. PyTorch before 2.10 does not hand these over, but the same
# bytes as uint8: the code is written into the view, which has it at byte 20.
_FP8_CODES = {torch.float8_e4m3fn: 10, torch.float8_e5m2: 12}
_CODE_AT = 20
GIVEN, ROW, GROUP, BLOCK = 0, 1, 2, 3  # the values of rmsnorm_scaling
LAST, FIRST = 0, 1  # the values of rmsnorm_gate
HALVES, INTERLEAVED = 0, 1  # the values of rmsnorm_rotation
BY_SIZE, ONE_SHOT, TWO_SHOT = 0, 1, 2  # the values of rmsnorm_protocol
_BAD_STRIDES = 5  # of rmsnorm_status


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
    global _functions, _library
    library = ctypes.CDLL(path)
    major, minor, patch = _parts(library.rmsnorm_version())
    if major != _VERSION[0] or minor < _VERSION[1]:
        raise RuntimeError(
            f"{path} is librmsnorm {major}.{minor}.{patch}: this package is for {_VERSION[0]}.x, "
            f"from {_VERSION[0]}.{_VERSION[1]} on")
    library.rmsnorm_last_error.restype = ctypes.c_char_p
    fast = None if _table is None else _extension(os.path.dirname(os.path.abspath(path)))
    functions = {}
    for name, (tensors, numbers) in _FUNCTIONS.items():
        function = getattr(library, name)
        if fast is None:
            functions[name] = _with_ctypes(function, tensors, numbers, name not in _WITHOUT_STREAM)
        else:
            address = ctypes.cast(function, ctypes.c_void_p).value
            functions[name] = fast.bind(name, address, _table, torch.Tensor)
    _functions, _library = functions, library


def _extension(folder):
    """_fast.cpp's module, or None if the folder has none for this Python."""
    spec = importlib.machinery.PathFinder.find_spec("_fast", [folder])
    if spec is None:
        return None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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
    """The library's version, as in (1, 6, 0)."""
    return _parts(_loaded().rmsnorm_version())


def _with_ctypes(function, count, numbers, has_stream):
    """What the extension makes of a function whose first arguments are `count` tensors."""
    function.argtypes = [ctypes.c_void_p] * count + numbers + [ctypes.c_void_p] * has_stream

    def called(*arguments):
        for tensor in arguments[:count]:
            if tensor is not None and not isinstance(tensor, torch.Tensor):
                raise TypeError(f"{tensor!r} is a {type(tensor).__name__}: it needs to be a tensor")
        x, rest = arguments[0], arguments[count:]
        if has_stream:
            rest = (*rest, _raw_stream(x.get_device()) if x.is_cuda else None)
        # The capsules live until the call is over.
        capsules = [(None, None) if one is None else _capsule(one) for one in arguments[:count]]
        return function(*(view for _, view in capsules), *rest)

    return called


def _capsule(tensor):
    """A capsule that owns a view, and the view, which begins with the DLTensor."""
    code = _FP8_CODES.get(tensor.dtype)
    capsule = to_dlpack(tensor if code is None else tensor.view(torch.uint8))
    view = _capsule_pointer(capsule, b"dltensor")
    if code is not None:
        ctypes.c_uint8.from_address(view + _CODE_AT).value = code
    return capsule, view


def _call(name, *arguments):
    if _library is None:
        _loaded()
    _check(_functions[name](*arguments))


def _check(status):
    if status != 0:
        kind = Error if status < _CUDA_ERROR else Failure
        raise kind(status, _library.rmsnorm_last_error().decode())


def _rows(tensor):
    """The tensor as the library takes it."""
    if tensor.dim() in (0, 2, 3, 4):  # 0 dimensions are for the library to refuse
        return tensor
    return tensor.view(tensor.shape[:-1].numel(), tensor.shape[-1])


def rms_norm(x, weight, eps, out=None, weight_bias=0.0):
    """RMSNorm of x (..., hidden), times weight + weight_bias; the weight may be None."""
    if out is None:
        out = torch.empty_like(x)
    _call("rmsnorm_forward", _rows(x), weight, _rows(out), eps, weight_bias)
    return out


def rms_norm_pair(q, q_weight, k, k_weight, eps, out=None, weight_bias=0.0):
    """RMSNorm of q and of k, in one launch; `out` is a pair of tensors."""
    q_out, k_out = (torch.empty_like(q), torch.empty_like(k)) if out is None else out
    _call(
        "rmsnorm_forward_pair", _rows(q), q_weight, _rows(q_out), _rows(k), k_weight, _rows(k_out),
        eps, weight_bias)
    return q_out, k_out


def residual_add(x, residual, weight, eps, out=None, weight_bias=0.0):
    """RMSNorm of x + residual, which replaces the residual, of any type; `out` may be x."""
    if out is None:
        out = torch.empty_like(x)
    _call(
        "rmsnorm_residual_add", _rows(x), _rows(residual), weight, _rows(out), eps, weight_bias)
    return out


def rms_norm_fp8(x, weight, eps, y, scale, scaling, residual=None, limit=None, norm=None,
                 rounds_twice=False, weight_bias=0.0):
    """RMSNorm of x, or of x + residual, which replaces the residual, in y, of 8 bits. The scale is
    read with GIVEN. With ROW it is (...) and written, with GROUP (..., groups), in row order or in
    column order, with BLOCK uint8, (..., blocks) or of 1 dimension, in tiles. `norm`, of x's type,
    may be x."""
    rows = _rows(x)
    are_tiled = scaling == BLOCK and scale.dim() == 1
    if scaling != GIVEN and not are_tiled and x.dim() not in (0, 2, 3, 4):
        scale = scale.view(rows.shape[0]) if scaling == ROW else scale.view(rows.shape[0], -1)
    if scaling == GIVEN and scale.dim() == 0:
        scale = scale.view(1)
    if limit is not None and limit.dim() == 0:
        limit = limit.view(1)
    _call(
        "rmsnorm_forward_fp8", rows, None if residual is None else _rows(residual), weight, _rows(y),
        scale, limit, None if norm is None else _rows(norm), scaling, rounds_twice, eps, weight_bias)


def rms_norm_rstd(x, weight, eps, out=None, weight_bias=0.0):
    """RMSNorm of x, and the rstd of its rows, which backward() needs; `out` is such a pair."""
    if out is None:
        out = torch.empty_like(x), torch.empty(x.shape[:-1], dtype=torch.float32, device=x.device)
    y, rstd = out
    _call("rmsnorm_forward_rstd", _rows(x), weight, _rows(y), rstd.view(-1), eps, weight_bias)
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
    _call(
        "rmsnorm_backward", _rows(dy), _rows(x), weight, rstd.view(-1), _rows(dx), dweight,
        workspace.data_ptr(), workspace.nbytes, weight_bias)
    return dx, dweight


def workspace_bytes(x):
    """The size of a workspace of backward()."""
    number = ctypes.c_size_t()
    _call("rmsnorm_backward_workspace_bytes", _rows(x), ctypes.addressof(number))
    return number.value


def rms_norm_gated(x, z, weight, eps, out=None, gate=LAST, rounds_twice=False, weight_bias=0.0):
    """RMSNorm of x times the weight and silu(z) or, with FIRST, of x * silu(z) times the weight;
    `out` may be x."""
    if out is None:
        out = torch.empty_like(x)
    _call(
        "rmsnorm_forward_gated", _rows(x), _rows(z), weight, _rows(out), gate, rounds_twice, eps,
        weight_bias)
    return out


def backward_gated(dy, x, z, weight, eps, out=None, gate=LAST, weight_bias=0.0):
    """The gradients dx, dz and dweight, as backward() has them; `out` is three such tensors."""
    if out is None:
        dweight = None if weight is None else torch.empty_like(weight)
        out = torch.empty_like(x), torch.empty_like(z), dweight
    dx, dz, dweight = out
    number = ctypes.c_size_t()
    _call("rmsnorm_backward_gated_workspace_bytes", _rows(x), ctypes.addressof(number))
    workspace = torch.empty(number.value, dtype=torch.uint8, device=x.device)
    _call(
        "rmsnorm_backward_gated", _rows(dy), _rows(x), _rows(z), weight, _rows(dx), _rows(dz),
        dweight, workspace.data_ptr(), workspace.nbytes, gate, eps, weight_bias)
    return out


def _heads(tensor):
    """The tensor (..., heads, head_dim) as (tokens, heads, head_dim).  \\throws Error"""
    if tensor is None or tensor.dim() <= 3:  # fewer are for the library to refuse
        return tensor
    try:
        return tensor.view(tensor.shape[:-2].numel(), *tensor.shape[-2:])
    except RuntimeError:
        raise Error(
            _BAD_STRIDES, f"a tensor of the shape {tuple(tensor.shape)} has the strides "
            f"{tensor.stride()}: its tokens need to lie at one distance") from None


def rms_norm_rotated(
        q, q_weight, k, k_weight, cos, sin, positions, eps, out=None, v=None, k_cache=None,
        v_cache=None, slots=None, rotation=HALVES, rounds_twice=False, weight_bias=0.0):
    """RMSNorm and a rotation of each head of q and k (..., heads, head_dim), in one launch; `out`
    is a pair of tensors, which may be q and k. positions and slots are (...). With caches (pages,
    page_size, heads, head_dim), k, as it is then, and v are also stored in their slots, and k's
    tensor of `out` may be None."""
    if out is None:
        out = torch.empty_like(q), torch.empty_like(k)
    positions, slots = (
        one if one is None or one.dim() == 1 else one.reshape(-1) for one in (positions, slots))
    _call(
        "rmsnorm_forward_rotated", _heads(q), q_weight, _heads(out[0]), _heads(k), k_weight,
        _heads(out[1]), cos, sin, positions, _heads(v), k_cache, v_cache, slots, rotation,
        rounds_twice, eps, weight_bias)
    return out


def all_reduce_residual_add(
        x, residual, weight, eps, ranks, out=None, protocol=BY_SIZE, weight_bias=0.0):
    """As residual_add(), of the sum of x over all ranks; `ranks` is the address of an rmsnorm_ranks."""
    if out is None:
        out = torch.empty_like(x)
    x, residual, y = (
        one if one.dim() in (0, 2) else one.view(one.shape[:-1].numel(), one.shape[-1])
        for one in (x, residual, out))
    _call(
        "rmsnorm_all_reduce_residual_add", x, residual, weight, y, ranks, protocol, eps, weight_bias)
    return out


def call_ranks(name, *arguments):
    """Calls rmsnorm_ranks_NAME(), with numbers and what ctypes makes of others."""
    function = getattr(_loaded(), f"rmsnorm_ranks_{name}")
    if name == "destroy":
        function.restype = None
    _check(function(*arguments) or 0)
