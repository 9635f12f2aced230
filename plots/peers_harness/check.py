"""Is an implementation right? Every element of its results against fp64."""

import torch

EPS = 1e-5

# The relative tolerances of torch.testing.assert_close.
TOLERANCE = {"bf16": 1.6e-2, "fp16": 1e-3, "fp32": 1.3e-6}

_ELEMENTS_AT_ONCE = 1 << 26


def bound_of(case):
    """The largest error that is accepted."""
    return TOLERANCE[case.dtype]


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


def largest_error(tensors, outputs):
    """The largest error of set 0's outputs; NaN if one of them is NaN. Call it with the inputs as
    they were before the operation.

    outputs: (y,) in forward and decode, (y_of_q, y_of_k) in forward_3d, (y, residual) in
    residual_add, (dx, dweight) in backward
    """
    regime = tensors.case.regime
    x, weight = tensors.x[0], tensors.weight[0]
    if regime == "residual_add":
        y, residual = outputs
        errors = _check_forward(x[0], tensors.residual[0], weight[0], y, residual)
    elif regime == "backward":
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
