"""librmsnorm's functions as operators of PyTorch, torch.ops.rmsnorm, and what is made of them.

autograd, torch.compile and torch.export know these operators: what they write, the shape and type
of it, and the gradient. A call that nothing of these has to see goes to binding.py directly, since
PyTorch's dispatcher would take longer than all else that the call does on the CPU.

Under autocast nothing changes: y has the type of x, and the arithmetic is fp32's for every type.
"""

import torch
from torch.autograd import forward_ad

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
    torch.autograd.graph.increment_version(y)


def _run_fused_add_rms_norm_(x, residual, weight, eps, weight_bias):
    binding.residual_add(x, residual, weight, eps, x, weight_bias)
    torch.autograd.graph.increment_version((x, residual))


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


def _wants_gradient(*tensors):
    """Whether autograd is to record. What it could only do by other rules is refused."""
    if torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0:
        raise RuntimeError(
            "rmsnorm knows neither torch.func (vmap, grad, jvp, ...) nor forward-mode gradients: "
            "use torch.nn.functional.rms_norm for them")
    if torch.is_grad_enabled():
        for tensor in tensors:
            if tensor is not None and tensor.requires_grad:
                return True
    return False


_PLAIN = {torch.Tensor, torch.nn.Parameter}


def _is_seen(*tensors):
    """Whether anything but the library has to see the call: a compiler, the profiler, a mode that
    watches PyTorch, a tensor of a class that computes in its own way, one without memory, or one
    whose memory has to be negated first."""
    if torch.compiler.is_compiling() or torch.autograd.profiler._is_profiler_enabled:
        return True
    for tensor in tensors:
        if tensor is None:
            continue
        if type(tensor) not in _PLAIN or tensor.is_meta or tensor.is_neg():
            return True
    return (torch._C._len_torch_dispatch_stack() > 0 or torch._C._len_torch_function_stack() > 0 or
            torch._C._get_tracing_state() is not None)


def rms_norm(x, weight, eps, out=None, weight_bias=0.0):
    """RMSNorm of x (..., hidden), times weight + weight_bias. The weight is (hidden), None or, for
    x (..., heads, hidden), (heads, hidden). `out` may be x, and then nothing may want a
    gradient."""
    if _wants_gradient(x, weight, out):
        if out is not None:
            raise RuntimeError("with out=, rms_norm records no gradient, which a tensor requires")
        return _rms_norm_rstd(x, weight, eps, weight_bias)[0]
    is_seen = _is_seen(x, weight, out)
    if out is None:
        return (_rms_norm if is_seen else _run_rms_norm)(x, weight, eps, weight_bias)
    (_rms_norm_out if is_seen else _run_rms_norm_out)(x, weight, out, eps, weight_bias)
    return out


def fused_add_rms_norm_(x, residual, weight, eps, weight_bias=0.0):
    """In place and in one launch: residual, of any type, becomes x + residual, and x the RMSNorm of
    that sum before it is rounded. Returns both; nothing may want a gradient."""
    if _wants_gradient(x, residual, weight):
        raise RuntimeError(
            "fused_add_rms_norm_ records no gradient, which a tensor requires: "
            "fused_add_rms_norm does")
    run = _fused_add_rms_norm_ if _is_seen(x, residual, weight) else _run_fused_add_rms_norm_
    run(x, residual, weight, eps, weight_bias)
    return x, residual


def fused_add_rms_norm(x, residual, weight, eps, weight_bias=0.0):
    """The RMSNorm of x + residual, and that sum, as new tensors, of the types of x and of the
    residual. Two launches, since the sum would have to be copied first to be made in place."""
    total = (x + residual).to(residual.dtype)
    normed = total.to(torch.promote_types(x.dtype, total.dtype))  # its result has x's digits
    return rms_norm(normed, weight, eps, weight_bias=weight_bias).to(x.dtype), total


class RMSNorm(torch.nn.RMSNorm):
    """torch.nn.RMSNorm, computed by librmsnorm: the same arguments and the same state. Without eps,
    it is float32's smallest step from 1 for every type, as PyTorch has it by now. weight_bias is
    added to the weight: 1 for models that store weight - 1."""

    weight_bias = 0.0

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
        normed = len(self.normalized_shape)
        if x.shape[-normed:] != self.normalized_shape:
            raise ValueError(
                f"x has the shape {tuple(x.shape)}: its last sizes need to be "
                f"{self.normalized_shape}")
        eps = torch.finfo(torch.float32).eps if self.eps is None else self.eps
        if normed == 1:
            return rms_norm(x, self.weight, eps, weight_bias=self.weight_bias)
        weight = None if self.weight is None else self.weight.flatten()
        rows = x.flatten(-normed)  # a view, if the normed sizes lie side by side
        return rms_norm(rows, weight, eps, weight_bias=self.weight_bias).view(x.shape)

    def extra_repr(self):
        bias = f", weight_bias={self.weight_bias}" if self.weight_bias else ""
        return super().extra_repr() + bias
