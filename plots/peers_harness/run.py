"""One case: every implementation is checked, and those that are right are timed in turns."""

import torch

from .calm import Calm
from .check import bound_of, largest_error
from .clock import Recording, record_for_timing
from .implementations import Missing
from .program import say
from .results import Row, gbps
from .roof import name_of, roof_gbps, streams_of
from .tensors import Tensors
from .turns import time_in_turns


def _in_words(error):
    """An exception in one line."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def _warm_up(launch, sets, stream):
    with torch.cuda.stream(stream):
        for i in range(3):
            launch(i % sets)
    stream.synchronize()


def _spoil(output):
    """Makes NaN of all elements."""
    if output.element_size() == 1:
        output.view(torch.uint8).fill_(0x7F)
    else:
        output.fill_(float("nan"))


def _error_of(launch, tensors, stream, roundings):
    """The largest error of a recorded launch: what will be timed is what is checked."""
    recording = Recording(launch, 1, 1, stream)
    outputs = recording.outputs[0]
    tensors.restore()
    for output in outputs:
        if not tensors.is_input(output):
            _spoil(output)
    torch.cuda.synchronize()
    recording.replay()
    torch.cuda.synchronize()
    outputs = [output.clone() if tensors.is_input(output) else output for output in outputs]
    tensors.restore()
    with torch.no_grad():
        return largest_error(tensors, outputs, roundings)


def _prepare(implementation, tensors, stream, row):
    """Fills in the row's verdict and error; returns the launch if it is right. \\throws Missing"""
    try:
        with torch.cuda.stream(stream):
            launch = implementation.launch_for(tensors)
        _warm_up(launch, tensors.sets, stream)
        row.max_error = _error_of(launch, tensors, stream, implementation.roundings)
    except Missing:
        raise
    except Exception as error:  # whatever a library throws at a shape that it cannot do
        torch.cuda.synchronize()  # throws again if the GPU is lost
        row.verdict = "unsupported"
        say(f"  {row.implementation:14} unsupported: {_in_words(error)}")
        return None
    if row.max_error <= row.error_bound:  # a NaN is not
        row.verdict = "pass"
        return launch
    row.verdict = "fail"
    say(
        f"  {row.implementation:14} FAIL: an error of {row.max_error:.3g},"
        f" allowed {row.error_bound:.3g}")
    return None


def run_case(case, implementations, roof, common, min_seconds, calm=None):
    """The rows of a case; `common` are the fields that all rows share. None if it is too large."""
    try:
        return _run_case(case, implementations, roof, common, min_seconds, calm or Calm())
    except torch.cuda.OutOfMemoryError:
        say("  left out: the GPU's memory is too small for two sets of tensors and their results")
    torch.cuda.empty_cache()  # by now nothing of the case is in use
    return []


def _run_case(case, implementations, roof, common, min_seconds, calm):
    torch.compiler.reset()  # many shapes of one function would count as too many recompilations
    with torch.set_grad_enabled(case.is_backward):
        l2_bytes = torch.cuda.get_device_properties(0).L2_cache_size
        stream = torch.cuda.Stream()
        tensors = Tensors(case, "cuda", l2_bytes)
        torch.cuda.synchronize()
        rows, launches = [], {}
        for implementation in implementations:
            row = Row(
                operation=case.operation, implementation=implementation.name, regime=case.regime,
                dtype=case.dtype, rows=case.rows, hidden=case.hidden, bytes=case.bytes_moved,
                bytes_per_row_predicted=case.bytes_per_row, error_bound=bound_of(case),
                version=implementation.version, **common)
            try:
                launch = _prepare(implementation, tensors, stream, row)
            except Missing as reason:
                say(f"  {row.implementation:14} {reason}")
                continue
            rows.append(row)
            if launch is not None:
                launches[row.implementation] = launch
        ways = roof.launches(tensors)
        for way in ways.values():
            _warm_up(way, tensors.sets, stream)
        recordings = {
            name: record_for_timing(launch, tensors.sets, stream)
            for name, launch in {**ways, **launches}.items()}
        timings, disturbed = calm.timed(
            lambda look: time_in_turns(recordings, min_seconds, look))

    streams = streams_of(tensors, 0)
    roof_rate = roof_gbps(streams, [timings[name] for name in ways])
    for row in rows:
        if row.implementation in timings:
            timing = timings[row.implementation]
            row.cache = "cold"
            row.median_us, row.spread_pct = timing.median_us, timing.spread_pct
            row.samples, row.disturbed = timing.samples, disturbed
            row.gbps = gbps(case.bytes_moved, timing.median_us)
            row.roof, row.roof_gbps = name_of(streams), roof_rate
    for name, timing in timings.items():
        rate = gbps(case.bytes_moved, timing.median_us)
        say(f"  {name:14} {timing.median_us:10.2f} us +- {timing.spread_pct:4.1f} %"
            f" {rate:7.0f} GB/s {100 * rate / roof_rate:6.1f} % of roof"
            + (f"  at the {disturbed} cap" if disturbed else ""))
    return rows
