"""Is an implementation right? Every element of its results against fp64."""

from dataclasses import dataclass

import torch

from .cases import BLOCK, GROUP

EPS = 1e-5
MOST = 448.0  # the largest number of e4m3
LEAST_SCALE = 1 / (512 * MOST)

# The relative tolerances of torch.testing.assert_close.
TOLERANCE = {"bf16": 1.6e-2, "fp16": 1e-3, "fp32": 1.3e-6}

_ELEMENTS_AT_ONCE = 1 << 26


@dataclass(frozen=True)
class Roundings:
    """What an implementation of a norm in 8 bits rounds to the type of x on its way."""

    of_norm: bool = False
    of_sum: bool = False  # what is normed, where there is a residual


def bound_of(case):
    """The largest error that is accepted. In 8 bits, an error is what is beyond all numbers that
    fp32 arithmetic can make."""
    return 0.0 if case.scaling else TOLERANCE[case.dtype]


def _error(got, expected, floor):
    """The largest error: |got - expected| over the larger of |expected| and floor times the root
    mean square of its row. NaN if any element is NaN."""
    scale = expected.square().mean(-1, keepdim=True).sqrt()
    denominator = torch.maximum(expected.abs(), floor * scale)
    return ((got.double() - expected).abs() / denominator).amax().item()


def _rows_at_once(hidden):
    return max(1, _ELEMENTS_AT_ONCE // hidden)


def _check_forward(x, residual, weight, got_y, got_residual):
    """Errors of y, and of the residual where there is one."""
    hidden = x.shape[-1]
    flat = [t if t is None else t.reshape(-1, hidden) for t in (x, residual, got_y, got_residual)]
    step = _rows_at_once(hidden)
    for begin in range(0, flat[0].shape[0], step):
        x, residual, got_y, got_residual = (
            t if t is None else t[begin : begin + step] for t in flat)
        row = x.double()
        if residual is not None:
            row = row + residual.double()
            yield _error(got_residual, row, floor=1e-3)
        rstd = (row.square().mean(-1, keepdim=True) + EPS).rsqrt()
        yield _error(got_y, row * rstd * weight.double(), floor=1e-3)


def _check_rotated(x, weight, tables, got):
    """Errors of heads that are turned. The terms of a sum can cancel: hence the floor."""
    cos, sin = (table.double()[:, None] for table in tables)
    row = x.double()
    rstd = (row.square().mean(-1, keepdim=True) + EPS).rsqrt()
    first, second = (row * rstd * weight.double()).chunk(2, -1)
    turned = torch.cat((first * cos - second * sin, second * cos + first * sin), -1)
    yield _error(got, turned, floor=1)


def _check_backward(x, weight, dy, got_dx, got_dweight):
    """Errors of dx and dweight. Their terms cancel, so that an element far smaller than the others
    of its row has no more correct digits than those have decimal places: hence the floor of 1."""
    hidden = x.shape[-1]
    dweight = torch.zeros(hidden, dtype=torch.float64, device=x.device)
    step = _rows_at_once(hidden)
    for begin in range(0, x.shape[0], step):
        row = x[begin : begin + step].double()
        gradient = dy[begin : begin + step].double()
        rstd = (row.square().mean(-1, keepdim=True) + EPS).rsqrt()
        normed = row * rstd
        dweight += (gradient * normed).sum(0)
        gradient = gradient * weight.double()
        dx = rstd * (gradient - normed * (gradient * normed).mean(-1, keepdim=True))
        yield _error(got_dx[begin : begin + step], dx, floor=1)
    yield _error(got_dweight, dweight, floor=1)


def _check_gated(x, z, weight, is_first, got_y):
    """Errors of y, behind a gate or of what a gate has let through."""
    step = _rows_at_once(x.shape[-1])
    for begin in range(0, x.shape[0], step):
        row, gate, got = (t[begin : begin + step] for t in (x, z, got_y))
        row, gate = row.double(), torch.nn.functional.silu(gate.double())
        normed = row * gate if is_first else row
        rstd = (normed.square().mean(-1, keepdim=True) + EPS).rsqrt()
        y = normed * rstd * weight.double()
        yield _error(got, y if is_first else y * gate, floor=1e-3)


def _check_gated_backward(x, z, weight, dy, got_dx, got_dz, got_dweight):
    """Errors of the three gradients, by autograd in fp64."""
    dweight = torch.zeros(x.shape[-1], dtype=torch.float64, device=x.device)
    step = _rows_at_once(x.shape[-1])
    for begin in range(0, x.shape[0], step):
        rows = slice(begin, begin + step)
        inputs = [t.double().requires_grad_() for t in (x[rows], z[rows], weight)]
        with torch.enable_grad():
            row, gate, factors = inputs
            rstd = (row.square().mean(-1, keepdim=True) + EPS).rsqrt()
            y = row * rstd * factors * torch.nn.functional.silu(gate)
        dx, dz, part = torch.autograd.grad(y, inputs, dy[rows].double())
        dweight += part
        yield _error(got_dx[rows], dx, floor=1)
        yield _error(got_dz[rows], dz, floor=1)
    yield _error(got_dweight, dweight, floor=1)


_PART = 2.0**-19  # of a norm, that fp32 arithmetic can be off


def _beyond(got, least, most):
    """How far the worst element is beyond the two, in parts of what it should be; 0 if none is. NaN
    if any element is NaN."""
    nearest = torch.minimum(torch.maximum(got, least), most)
    return ((got - nearest).abs() / nearest.abs().clamp(min=2.0**-9)).amax().item()


def power_for(quotient):
    """The least power of two, from 2^-127 on, that is not less: its exponent, as a byte has it."""
    bits = quotient.float().view(torch.int32)
    return torch.where(bits <= 0x400000, 0, ((bits + 0x7fffff) >> 23).clamp(max=254))


def number_of(exponents):
    """Those powers of two, in fp32."""
    return (exponents.to(torch.int32) << 23).clamp(min=0x400000).view(torch.float32)


def _scale_of(quotient, scaling):
    """The scale that a row, a group or a block has for its largest norm over MOST."""
    if scaling == "block":
        return number_of(power_for(quotient))
    return quotient.clamp(min=LEAST_SCALE)


_SLACK = 2.0**-21  # of a quotient: that of a compiler may be off by two of the last bits


def _codes(norm, scale):
    """The numbers in e4m3 that the quotient of a norm can be, the outermost of them."""
    for part in (1 - _SLACK, 1 + _SLACK):
        yield (norm / scale * part).clamp(-MOST, MOST).to(torch.float8_e4m3fn).float()


def _check_fp8(scaling, x, residual, weight, roundings, got_y, scale, got_residual):
    """Errors of the scales that were chosen, of y by those, and of the residual."""
    hidden = x.shape[-1]
    step = _rows_at_once(hidden)
    width = {"group": GROUP, "block": BLOCK}.get(scaling, hidden)
    for begin in range(0, x.shape[0], step):
        rows = slice(begin, begin + step)
        row = x[rows].double()
        if residual is not None:
            row = row + residual[rows].double()
            rounded = row.float().to(x.dtype)
            yield _beyond(got_residual[rows].double(), rounded.double(), rounded.double())
            if roundings.of_sum:
                row = rounded.double()
        rstd = (row.square().mean(-1, keepdim=True) + EPS).rsqrt()
        norm = row * rstd * weight.double()
        least, most = ((norm + sign * _PART * norm.abs()).float() for sign in (-1, 1))
        if roundings.of_norm:
            least, most = least.to(x.dtype).float(), most.to(x.dtype).float()
        least, most, y = (t.float().unflatten(-1, (-1, width)) for t in (least, most, got_y[rows]))
        if scaling == "given":
            used = scale.view(1, 1, 1)
        else:
            used = scale[rows].reshape(-1, hidden // width, 1)
            used = number_of(used) if scaling == "block" else used
            nearest = torch.minimum(least.abs(), most.abs())
            smallest, largest = (
                t.amax(-1, keepdim=True) / MOST
                for t in (nearest, torch.maximum(least.abs(), most.abs())))
            yield _beyond(
                used, _scale_of(smallest * (1 - _SLACK), scaling),
                _scale_of(largest * (1 + _SLACK), scaling))
        lower, upper = (list(_codes(t, used)) for t in (least, most))
        yield _beyond(y, torch.minimum(*lower), torch.maximum(*upper))


def _fp8_errors(tensors, outputs, roundings):
    """Errors of an operation in 8 bits."""
    scaling = tensors.case.scaling
    y, *others = outputs
    scale = tensors.scale[0] if scaling == "given" else others.pop(0)
    residual, got_residual = (tensors.residual[0], others[0]) if others else (None, None)
    yield from _check_fp8(
        scaling, tensors.x[0][0], residual, tensors.weight[0][0], roundings, y, scale, got_residual)


def largest_error(tensors, outputs, roundings=Roundings()):
    """The largest error of set 0's outputs; NaN if one of them is NaN. Call it with the inputs as
    they were before the operation.

    outputs: (y,) in forward and decode, (y_of_q, y_of_k) in forward_3d and rotation, (y, residual) in
    residual_add, (dx, dweight) in backward, (dx, dz, dweight) with a gate; in 8 bits y, the scales
    where they are chosen, and the residual where there is one
    """
    case = tensors.case
    x, weight = tensors.x[0], tensors.weight[0]
    if case.scaling:
        errors = _fp8_errors(tensors, outputs, roundings)
    elif case.is_gated and case.is_backward:
        errors = _check_gated_backward(x[0], tensors.z[0], weight[0], tensors.dy[0], *outputs)
    elif case.is_gated:
        is_first = case.regime == "gated_first"
        errors = _check_gated(x[0], tensors.z[0], weight[0], is_first, outputs[0])
    elif case.is_turned:
        errors = (error for part in zip(x, weight, outputs)
                  for error in _check_rotated(*part[:2], tensors.tables, part[2]))
    elif case.has_residual:
        y, residual = outputs
        errors = _check_forward(x[0], tensors.residual[0], weight[0], y, residual)
    elif case.is_backward:
        errors = _check_backward(x[0], weight[0], tensors.dy[0], *outputs)
    else:
        errors = (
            error for part in zip(x, weight, outputs)
            for error in _check_forward(part[0], None, part[1], part[2], None))
    largest = 0.0
    for error in errors:
        if not error <= largest:  # NaN wins, and stays
            largest = error
        if largest != largest:
            break
    return largest
