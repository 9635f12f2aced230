"""librmsnorm's functions as operators of PyTorch, torch.ops.rmsnorm, and what is made of them.

autograd, torch.compile and torch.export know these operators: what they write, the shape and type
of it, and the gradient. A call that nothing of these has to see goes to binding.py directly, since
PyTorch's dispatcher would take longer than all else that the call does on the CPU.

Under autocast nothing changes: y has the type of x, and the arithmetic is fp32's for every type.
"""

import math

import torch
from torch._C import (
    _are_functorch_transforms_active, _increment_version, _is_tracing, _len_torch_dispatch_stack,
    _len_torch_function_stack)
from torch.autograd import forward_ad, profiler
from torch.compiler import is_compiling

from . import binding

_operators = torch.library.Library("rmsnorm", "DEF")


def _define(schema, run, fake):
    """Makes an operator; returns it. `run` is for real tensors, `fake` makes outputs like its."""
    name = schema.partition("(")[0]
    _operators.define(
        schema, tags=(torch.Tag.pt2_compliant_tag, torch.Tag.needs_fixed_stride_order))
    for device in ("CUDA", "CPU"):  # the library's refusal of the CPU is a sentence
        _operators.impl(name, run, device)
    torch.library.register_fake(f"rmsnorm::{name}", fake, lib=_operators)
    return getattr(torch.ops.rmsnorm, name).default


# Without a gradient.


def _run_rms_norm(x, weight, eps, weight_bias):
    return binding.rms_norm(x, weight, eps, None, weight_bias)


def _run_rms_norm_out(x, weight, y, eps, weight_bias):
    binding.rms_norm(x, weight, eps, y, weight_bias)
    _increment_version((y,))


def _run_fused_add_rms_norm_(x, residual, weight, eps, weight_bias):
    binding.residual_add(x, residual, weight, eps, x, weight_bias)
    _increment_version((x, residual))


_rms_norm = _define(
    "rms_norm(Tensor x, Tensor? weight, float eps, float weight_bias) -> Tensor",
    _run_rms_norm, lambda x, *_: torch.empty_like(x))
_rms_norm_out = _define(
    "rms_norm_out(Tensor x, Tensor? weight, Tensor(a!) y, float eps, float weight_bias) -> ()",
    _run_rms_norm_out, lambda *_: None)
_fused_add_rms_norm_ = _define(
    "fused_add_rms_norm_(Tensor(a!) x, Tensor(b!) residual, Tensor? weight, float eps, "
    "float weight_bias) -> ()",
    _run_fused_add_rms_norm_, lambda *_: None)


# In 8 bits, without a gradient. They return y, the scales that the library has chosen and the norm
# in x's type; of the latter two, a tensor of nothing stands for what is not there.


def _fp8_outputs(x, scaling, layout, are_powers, dtype, wants_norm):
    of_scales = torch.uint8 if are_powers else torch.float32
    leading, columns = x.shape[:-1], 32 if scaling == binding.BLOCK else 128
    groups = (x.shape[-1] + columns - 1) // columns
    if scaling == binding.GIVEN:
        chosen = x.new_empty(0, dtype=of_scales)
    elif scaling == binding.ROW:
        chosen = x.new_empty(leading, dtype=of_scales)
    elif layout == "tiles":
        rows = math.prod(leading)
        tiles = (rows + 127) // 128 * ((groups + 3) // 4)
        chosen = x.new_empty(tiles * 512, dtype=of_scales)
    else:
        stride, strides = 1 if layout == "columns" else groups, []
        for size in reversed(leading):
            strides.append(stride)
            stride = stride * size
        last = (stride + 3) // 4 * 4 if layout == "columns" else 1
        chosen = x.new_empty_strided(
            (*leading, groups), (*reversed(strides), last), dtype=of_scales)
    norm = torch.empty_like(x) if wants_norm else x.new_empty(0)
    return torch.empty_like(x, dtype=dtype), chosen, norm


def _run_rms_norm_fp8(x, weight, scale, limit, eps, weight_bias, dtype, scaling, layout,
                      are_powers, rounds_twice, wants_norm, residual=None):
    outputs = y, chosen, norm = _fp8_outputs(x, scaling, layout, are_powers, dtype, wants_norm)
    scales = chosen if scale is None else scale
    if scaling == binding.BLOCK and layout == "rows" and x.dim() == 1:
        scales = scales[None]  # of one dimension, they would be in tiles
    binding.rms_norm_fp8(
        x, weight, eps, y, scales, scaling, residual, limit,
        norm if wants_norm else None, rounds_twice, weight_bias)
    return outputs


def _fake_rms_norm_fp8(x, weight, scale, limit, eps, weight_bias, dtype, scaling, layout,
                       are_powers, rounds_twice, wants_norm):
    return _fp8_outputs(x, scaling, layout, are_powers, dtype, wants_norm)


def _run_fused_add_rms_norm_fp8_(x, residual, weight, *others):
    outputs = _run_rms_norm_fp8(x, weight, *others, residual)
    _increment_version((residual,))
    return outputs


_FP8_SCHEMA = (
    "Tensor? weight, Tensor? scale, Tensor? limit, float eps, float weight_bias, ScalarType dtype, "
    "int scaling, str layout, bool are_powers, bool rounds_twice, bool wants_norm) "
    "-> (Tensor, Tensor, Tensor)")
_rms_norm_fp8 = _define(
    "rms_norm_fp8(Tensor x, " + _FP8_SCHEMA, _run_rms_norm_fp8, _fake_rms_norm_fp8)
_fused_add_rms_norm_fp8_ = _define(
    "fused_add_rms_norm_fp8_(Tensor x, Tensor(a!) residual, " + _FP8_SCHEMA,
    _run_fused_add_rms_norm_fp8_, lambda x, residual, *others: _fake_rms_norm_fp8(x, *others))


# With one: the forward pass also returns rstd (...), which the backward pass needs.


def _run_rms_norm_rstd(x, weight, eps, weight_bias):
    return binding.rms_norm_rstd(x, weight, eps, None, weight_bias)


def _fake_rms_norm_rstd(x, *_):
    return torch.empty_like(x), x.new_empty(x.shape[:-1], dtype=torch.float32)


def _run_rms_norm_backward(dy, x, weight, rstd, weight_bias, wants_dweight):
    # The layout of dy is whatever the operation after the norm has made: 0 is that of an expanded
    # one, as sum() makes it.
    if dy.dim() > 4 or dy.shape[-1] > 1 and dy.stride(-1) not in (0, 1):
        dy = dy.contiguous()
    out = torch.empty_like(x), torch.empty_like(weight) if wants_dweight else None
    dx, dweight = binding.backward(dy, x, weight, rstd, out, weight_bias)
    return dx, dweight if wants_dweight else x.new_empty(0)


def _fake_rms_norm_backward(dy, x, weight, rstd, weight_bias, wants_dweight):
    return torch.empty_like(x), torch.empty_like(weight) if wants_dweight else x.new_empty(0)


_rms_norm_rstd = _define(
    "rms_norm_rstd(Tensor x, Tensor? weight, float eps, float weight_bias) -> (Tensor, Tensor)",
    _run_rms_norm_rstd, _fake_rms_norm_rstd)
_rms_norm_backward = _define(
    "rms_norm_backward(Tensor dy, Tensor x, Tensor? weight, Tensor rstd, float weight_bias, "
    "bool wants_dweight) -> (Tensor, Tensor)",
    _run_rms_norm_backward, _fake_rms_norm_backward)


def _save(ctx, inputs, output):
    x, weight, _, ctx.weight_bias = inputs
    _, rstd = output
    ctx.save_for_backward(x, weight, rstd)
    ctx.mark_non_differentiable(rstd)
    ctx.set_materialize_grads(False)


def _gradients(ctx, dy, _):
    if dy is None:
        return None, None, None, None
    x, weight, rstd = ctx.saved_tensors
    wants_dweight = ctx.needs_input_grad[1]
    dx, dweight = _rms_norm_backward(dy, x, weight, rstd, ctx.weight_bias, wants_dweight)
    return dx, dweight if wants_dweight else None, None, None


def _refuse_second_derivative(ctx, *_):
    raise RuntimeError(
        "rmsnorm has no second derivative: use torch.nn.functional.rms_norm where one is wanted")


torch.library.register_autograd(
    "rmsnorm::rms_norm_rstd", _gradients, setup_context=_save, lib=_operators)
torch.library.register_autograd(
    "rmsnorm::rms_norm_backward", _refuse_second_derivative, lib=_operators)


# With a gate. The backward pass needs the inputs alone.

_MOST_GATED = 8192  # columns of a norm there


def _run_rms_norm_gated(x, z, weight, eps, weight_bias, gates_first, rounds_twice):
    return binding.rms_norm_gated(x, z, weight, eps, None, gates_first, rounds_twice, weight_bias)


def _run_rms_norm_gated_backward(dy, x, z, weight, eps, weight_bias, gates_first, wants_dweight):
    if dy.dim() > 4 or dy.shape[-1] > 1 and dy.stride(-1) != 1:
        dy = dy.contiguous()
    outputs = _fake_rms_norm_gated_backward(
        dy, x, z, weight, eps, weight_bias, gates_first, wants_dweight)
    out = (*outputs[:2], outputs[2] if wants_dweight else None)
    binding.backward_gated(dy, x, z, weight, eps, out, gates_first, weight_bias)
    return outputs


def _fake_rms_norm_gated_backward(dy, x, z, weight, eps, weight_bias, gates_first, wants_dweight):
    dweight = torch.empty_like(weight) if wants_dweight else x.new_empty(0)
    return torch.empty_like(x), torch.empty_like(z), dweight


_rms_norm_gated = _define(
    "rms_norm_gated(Tensor x, Tensor z, Tensor? weight, float eps, float weight_bias, "
    "bool gates_first, bool rounds_twice) -> Tensor",
    _run_rms_norm_gated, lambda x, *_: torch.empty_like(x))
_rms_norm_gated_backward = _define(
    "rms_norm_gated_backward(Tensor dy, Tensor x, Tensor z, Tensor? weight, float eps, "
    "float weight_bias, bool gates_first, bool wants_dweight) -> (Tensor, Tensor, Tensor)",
    _run_rms_norm_gated_backward, _fake_rms_norm_gated_backward)


def _save_gated(ctx, inputs, output):
    x, z, weight, *ctx.options, _ = inputs
    ctx.save_for_backward(x, z, weight)


def _gated_gradients(ctx, dy):
    wants_dweight = ctx.needs_input_grad[2]
    dx, dz, dweight = _rms_norm_gated_backward(
        dy, *ctx.saved_tensors, *ctx.options, wants_dweight)
    return dx, dz, dweight if wants_dweight else None, None, None, None, None


torch.library.register_autograd(
    "rmsnorm::rms_norm_gated", _gated_gradients, setup_context=_save_gated, lib=_operators)
torch.library.register_autograd(
    "rmsnorm::rms_norm_gated_backward", _refuse_second_derivative, lib=_operators)


# With a rotation, without a gradient: in place, or as new tensors. Caches are written either way.


def _run_rms_norm_rotated(q, q_weight, k, k_weight, cos, sin, positions, v, k_cache, v_cache, slots,
                          eps, weight_bias, interleaved, rounds_twice, out=None):
    out = binding.rms_norm_rotated(
        q, q_weight, k, k_weight, cos, sin, positions, eps, out, v, k_cache, v_cache, slots,
        binding.INTERLEAVED if interleaved else binding.HALVES, rounds_twice, weight_bias)
    _increment_version([one for one in (k_cache, v_cache) if one is not None])
    return out


def _run_rms_norm_rotated_(q, q_weight, k, *others):
    _run_rms_norm_rotated(q, q_weight, k, *others, (q, k))
    _increment_version((q, k))


_ROTATED_SCHEMA = (
    "Tensor? k_weight, Tensor cos, Tensor sin, Tensor? positions, Tensor? v, Tensor(a!)? k_cache, "
    "Tensor(b!)? v_cache, Tensor? slots, float eps, float weight_bias, bool interleaved, "
    "bool rounds_twice) -> ")
_rms_norm_rotated = _define(
    "rms_norm_rotated(Tensor q, Tensor? q_weight, Tensor k, " + _ROTATED_SCHEMA +
    "(Tensor, Tensor)",
    _run_rms_norm_rotated, lambda q, _, k, *__: (torch.empty_like(q), torch.empty_like(k)))
_rms_norm_rotated_ = _define(
    "rms_norm_rotated_(Tensor(c!) q, Tensor? q_weight, Tensor(d!) k, " + _ROTATED_SCHEMA + "()",
    _run_rms_norm_rotated_, lambda *_: None)


class _Recorded(torch.autograd.Function):
    """The same for a call that nothing but autograd has to see: without the dispatcher, which takes
    longer than all else that the call does on the CPU."""

    @staticmethod
    def forward(ctx, x, weight, eps, weight_bias):
        y, rstd = _run_rms_norm_rstd(x, weight, eps, weight_bias)
        ctx.weight_bias = weight_bias
        ctx.save_for_backward(x, weight, rstd)
        ctx.set_materialize_grads(False)
        return y

    @staticmethod
    def backward(ctx, dy):
        if dy is None:
            return None, None, None, None
        x, weight, rstd = ctx.saved_tensors
        wants_dweight = ctx.needs_input_grad[1]
        # The operator refuses what would be recorded here: the second derivative.
        is_seen = torch.is_grad_enabled() or _look_at(dy, x, weight)[1]
        run = _rms_norm_backward if is_seen else _run_rms_norm_backward
        dx, dweight = run(dy, x, weight, rstd, ctx.weight_bias, wants_dweight)
        return dx, dweight if wants_dweight else None, None, None


_PLAIN = {torch.Tensor, torch.nn.Parameter}


def _look_at(*tensors):
    """Whether autograd is to record a call, and whether anything else has to see it: a compiler, the
    profiler, a mode that watches PyTorch, a tensor of a class that computes in its own way, one
    without memory, or one whose memory has to be negated first. What autograd could only record by
    other rules is refused."""
    if _are_functorch_transforms_active() or forward_ad._current_level >= 0:
        raise RuntimeError(
            "rmsnorm knows neither torch.func (vmap, grad, jvp, ...) nor forward-mode gradients: "
            "use torch.nn.functional.rms_norm for them")
    records, wants_gradient = torch.is_grad_enabled(), False
    is_seen = (
        is_compiling() or profiler._is_profiler_enabled or _is_tracing() or
        _len_torch_dispatch_stack() > 0 or _len_torch_function_stack() > 0)
    for tensor in tensors:
        if tensor is None:
            continue
        if records and tensor.requires_grad:
            wants_gradient = True
        if not is_seen:
            is_seen = type(tensor) not in _PLAIN or tensor.is_meta or tensor.is_neg()
    return wants_gradient, is_seen


def rms_norm(x, weight, eps, out=None, weight_bias=0.0):
    """RMSNorm of x (..., hidden), times weight + weight_bias. The weight is (hidden), None or, for
    x (..., heads, hidden), (heads, hidden). `out` may be x, and then nothing may want a
    gradient."""
    wants_gradient, is_seen = _look_at(x, weight, out)
    if wants_gradient:
        if out is not None:
            raise RuntimeError("with out=, rms_norm records no gradient, which a tensor requires")
        if is_seen:
            return _rms_norm_rstd(x, weight, eps, weight_bias)[0]
        return _Recorded.apply(x, weight, eps, weight_bias)
    if out is None:
        return (_rms_norm if is_seen else _run_rms_norm)(x, weight, eps, weight_bias)
    (_rms_norm_out if is_seen else _run_rms_norm_out)(x, weight, out, eps, weight_bias)
    return out


def fused_add_rms_norm_(x, residual, weight, eps, weight_bias=0.0):
    """In place and in one launch: residual, of any type, becomes x + residual, and x the RMSNorm of
    that sum before it is rounded. Returns both; nothing may want a gradient."""
    wants_gradient, is_seen = _look_at(x, residual, weight)
    if wants_gradient:
        raise RuntimeError(
            "fused_add_rms_norm_ records no gradient, which a tensor requires: "
            "fused_add_rms_norm does")
    run = _fused_add_rms_norm_ if is_seen else _run_fused_add_rms_norm_
    run(x, residual, weight, eps, weight_bias)
    return x, residual


def fused_add_rms_norm(x, residual, weight, eps, weight_bias=0.0):
    """The RMSNorm of x + residual, and that sum, as new tensors, of the types of x and of the
    residual. Two launches, since the sum would have to be copied first to be made in place."""
    total = (x + residual).to(residual.dtype)
    normed = total.to(torch.promote_types(x.dtype, total.dtype))  # its result has x's digits
    return rms_norm(normed, weight, eps, weight_bias=weight_bias).to(x.dtype), total


def _check_choices(**choices):
    for name, (value, allowed) in choices.items():
        if value not in allowed:
            words = " or ".join(map(repr, allowed))
            raise ValueError(f"{name} is {value!r}: it needs to be {words}")


_SCALINGS = {"row": binding.ROW, "group": binding.GROUP, "block": binding.BLOCK}


def _fp8(x, residual, weight, eps, scale, limit, dtype, rounding, in_columns, in_tiles, powers, norm,
         weight_bias):
    given = scale if isinstance(scale, torch.Tensor) else None
    if given is None:
        _check_choices(scale=(scale, tuple(_SCALINGS)))
    _check_choices(
        dtype=(dtype, (torch.float8_e4m3fn, torch.float8_e5m2)),
        rounding=(rounding, ("once", "twice")))
    if given is not None and limit is not None:
        raise ValueError("limit is a tensor, and the scale is given: it needs to be None")
    scaling = binding.GIVEN if given is not None else _SCALINGS[scale]
    for name, is_set, needs in [("in_columns", in_columns, "group"), ("in_tiles", in_tiles, "block"),
                                ("powers", powers, "group")]:
        if is_set and scaling != _SCALINGS[needs]:
            raise ValueError(f'{name} is True, which needs scale="{needs}"')
    layout = "columns" if in_columns else "tiles" if in_tiles else "rows"
    are_powers = powers or scaling == binding.BLOCK
    wants_gradient, is_seen = _look_at(x, residual, weight, given, limit)
    if wants_gradient:
        raise RuntimeError(
            "rmsnorm's norms in 8 bits record no gradient, which a tensor requires: use "
            "torch.no_grad(), or rms_norm and a conversion that has one")
    tensors = (x, weight) if residual is None else (x, residual, weight)
    if is_seen:
        run = _rms_norm_fp8 if residual is None else _fused_add_rms_norm_fp8_
    else:
        run = _run_rms_norm_fp8 if residual is None else _run_fused_add_rms_norm_fp8_
    y, chosen, normed = run(
        *tensors, given, limit, eps, weight_bias, dtype, scaling, layout, are_powers,
        rounding == "twice", norm)
    if are_powers and hasattr(torch, "float8_e8m0fnu"):  # PyTorch 2.7
        chosen = chosen.view(torch.float8_e8m0fnu)
    scales = chosen if given is None else given
    return (y, scales, normed) if norm else (y, scales)


def rms_norm_fp8(
        x, weight, eps, scale="row", *, limit=None, dtype=torch.float8_e4m3fn, rounding="once",
        in_columns=False, in_tiles=False, powers=False, norm=False, weight_bias=0.0):
    """RMSNorm of x in 8 bits, and its scales: y * scale is about the norm. Nothing may want a
    gradient.

    scale: a tensor of one fp32 number, or "row", "group" or "block": then the library chooses one
        for each row, (...), each 128 columns, (..., groups), or each 32, (..., blocks), by the
        largest norm. Those of blocks are powers of two, as of MXFP8: float8_e8m0fnu or, before
        PyTorch 2.7, the same in uint8.
    limit: a tensor of one fp32 number, the most that counts as the largest.
    dtype: torch.float8_e4m3fn or torch.float8_e5m2.
    rounding: "once", from fp32, or "twice", to the type of x first, as two kernels do.
    in_columns: scales of groups lie side by side for all rows, and columns of them at a multiple of
        4 numbers: grouped products of Hopper take them so.
    in_tiles: scales of blocks are of one dimension, in the tiles of 128 rows and 4 blocks that
        cuBLAS takes, zeros where there is no row or block.
    powers: scales of groups are powers of two, too.
    norm: returns (y, scale, norm), with the norm in x's type, instead of (y, scale)."""
    return _fp8(
        x, None, weight, eps, scale, limit, dtype, rounding, in_columns, in_tiles, powers, norm,
        weight_bias)


def fused_add_rms_norm_fp8_(
        x, residual, weight, eps, scale="row", *, limit=None, dtype=torch.float8_e4m3fn,
        rounding="once", in_columns=False, in_tiles=False, powers=False, norm=False,
        weight_bias=0.0):
    """The same of x + residual, in one launch: the residual, of the type of x, becomes that sum."""
    return _fp8(
        x, residual, weight, eps, scale, limit, dtype, rounding, in_columns, in_tiles, powers, norm,
        weight_bias)


def rms_norm_gated(
        x, z, weight, eps, *, gate="last", rounding="once", groups=1, weight_bias=0.0):
    """RMSNorm of x (..., hidden), times weight + weight_bias, with a gate of z, which is as x.

    weight: as in rms_norm(), of the type of x or of float32.
    gate: "last", the norm times silu(z), or "first", the norm of x * silu(z). For gradients, rows
        or groups have 8192 columns at most.
    rounding: "once", or "twice": what is multiplied by the weight is rounded to the type of x, and
        so is that product, if the weight is of that type. The gate is fp32's either way.
    groups: a norm over each of so many parts of a row; the weight is (hidden)."""
    _check_choices(gate=(gate, ("last", "first")), rounding=(rounding, ("once", "twice")))
    if x.shape != z.shape:
        raise ValueError(f"z has the shape {tuple(z.shape)}: it needs that of x, {tuple(x.shape)}")
    if groups < 1 or x.shape[-1] % groups != 0:
        raise ValueError(f"groups is {groups}: x has {x.shape[-1]} columns, which need a divisor")
    wants_gradient, is_seen = _look_at(x, z, weight)
    if wants_gradient and x.shape[-1] // groups > _MOST_GATED:
        raise ValueError(
            f"x has {x.shape[-1] // groups} columns in a norm: for the gradients of a gated norm, "
            f"it needs {_MOST_GATED} at most")
    run = _rms_norm_gated if wants_gradient or is_seen else _run_rms_norm_gated
    options = eps, weight_bias, gate == "first", rounding == "twice"
    if groups == 1:
        return run(x, z, weight, *options)
    if weight is not None and weight.numel() != x.shape[-1]:
        raise ValueError(f"weight has {weight.numel()} elements: it needs {x.shape[-1]}")
    parts = x.shape[:-1].numel(), groups, x.shape[-1] // groups
    weight = None if weight is None else weight.reshape(parts[1:])
    return run(x.reshape(parts), z.reshape(parts), weight, *options).reshape(x.shape)


def _rotated(in_place, q, q_weight, k, k_weight, cos, sin, positions, eps, v, k_cache, v_cache,
             slots, cache_layout, rotation, rounding, weight_bias):
    _check_choices(
        cache_layout=(cache_layout, ("NHD", "HND")), rotation=(rotation, ("halves", "interleaved")),
        rounding=(rounding, ("once", "twice")))
    tensors = q, q_weight, k, k_weight, cos, sin, positions, v, k_cache, v_cache, slots
    wants_gradient, is_seen = _look_at(*tensors)
    if wants_gradient:
        raise RuntimeError(
            "rmsnorm's norms with a rotation record no gradient, which a tensor requires: use "
            "torch.no_grad(), or rms_norm and a rotation that has one")
    if cache_layout == "HND":
        tensors = *tensors[:8], *(
            None if one is None else one.transpose(1, 2) for one in (k_cache, v_cache)), slots
    options = eps, weight_bias, rotation == "interleaved", rounding == "twice"
    if not in_place:
        return (_rms_norm_rotated if is_seen else _run_rms_norm_rotated)(*tensors, *options)
    (_rms_norm_rotated_ if is_seen else _run_rms_norm_rotated_)(*tensors, *options)
    return q, k


def rms_norm_rotated(
        q, q_weight, k, k_weight, cos, sin, positions, eps, *, v=None, k_cache=None, v_cache=None,
        slots=None, cache_layout="NHD", rotation="halves", rounding="once", weight_bias=0.0):
    """RMSNorm of each head of q and k (..., heads, head_dim), times its weight + weight_bias, and
    turned by the angles of its token's position, in one launch: two new tensors. Nothing may want a
    gradient.

    q_weight, k_weight: (head_dim), (heads, head_dim) or None, of the type of q or of float32.
    cos, sin: (positions, rotary_dim / 2), of the type of q or of float32. Other columns of a head
        than the first rotary_dim are normed and not turned.
    positions: (...), int32 or int64: rows of cos and sin. None: each token's number, counted through
        all texts.
    v, k_cache, v_cache, slots: k as it is returned, and v as it is, are also stored in caches
        (pages, page_size, heads, head_dim), in the token's slot, int32 or int64. A token with a
        negative slot is not stored. Without v and v_cache, k alone is.
    cache_layout: "NHD", or "HND": caches are (pages, heads, page_size, head_dim).
    rotation: "halves", where columns c and c + rotary_dim / 2 are turned together, or "interleaved",
        2 * c and 2 * c + 1.
    rounding: "once", or "twice": to the type of q before the rotation, too.

    positions that are not in the tables, and slots that are not in the caches or that two tokens
    have, are not noticed: other memory is read or overwritten then, or a slot has parts of both."""
    return _rotated(
        False, q, q_weight, k, k_weight, cos, sin, positions, eps, v, k_cache, v_cache, slots,
        cache_layout, rotation, rounding, weight_bias)


def rms_norm_rotated_(
        q, q_weight, k, k_weight, cos, sin, positions, eps, *, v=None, k_cache=None, v_cache=None,
        slots=None, cache_layout="NHD", rotation="halves", rounding="once", weight_bias=0.0):
    """The same in place. Returns q and k."""
    return _rotated(
        True, q, q_weight, k, k_weight, cos, sin, positions, eps, v, k_cache, v_cache, slots,
        cache_layout, rotation, rounding, weight_bias)


class RMSNorm(torch.nn.RMSNorm):
    """torch.nn.RMSNorm, computed by librmsnorm: the same arguments and the same state. Without eps,
    it is float32's smallest step from 1 for every type, as PyTorch has it by now. weight_bias is
    added to the weight: 1 for models that store weight - 1."""

    weight_bias = 0.0
    _default_eps = torch.finfo(torch.float32).eps

    def __init__(
            self, normalized_shape, eps=None, elementwise_affine=True, device=None, dtype=None, *,
            weight_bias=0.0):
        if weight_bias != 0 and not elementwise_affine:
            raise ValueError(f"weight_bias is {weight_bias}, without a weight: it needs to be 0")
        self.weight_bias = float(weight_bias)
        super().__init__(normalized_shape, eps, elementwise_affine, device, dtype)

    def reset_parameters(self):
        if self.elementwise_affine:
            torch.nn.init.constant_(self.weight, 1 - self.weight_bias)

    def forward(self, x):
        sizes = self.normalized_shape
        normed = len(sizes)
        fits = x.shape[-1] == sizes[0] if normed == 1 and x.dim() > 0 else x.shape[-normed:] == sizes
        if not fits:
            raise ValueError(
                f"x has the shape {tuple(x.shape)}: its last sizes need to be {sizes}")
        eps = self._default_eps if self.eps is None else self.eps
        weight = self._parameters.get("weight")  # self.weight takes as long as all else here
        if weight is None:
            weight = self.weight  # there is none, or something else makes it
        if normed == 1:
            return rms_norm(x, weight, eps, None, self.weight_bias)
        if weight is not None:
            weight = weight.flatten()
        rows = x.flatten(-normed)  # a view, if the normed sizes lie side by side
        return rms_norm(rows, weight, eps, None, self.weight_bias).view(x.shape)

    def extra_repr(self):
        bias = f", weight_bias={self.weight_bias}" if self.weight_bias else ""
        return super().extra_repr() + bias
