"""One case: every contender is checked, those that are right are timed in turns."""

import sys

import torch

from .check import bound_of, largest_error
from .clock import Recording, record_for_timing, time_in_turns
from .contenders import Missing
from .results import Row, gbps
from .tensors import Tensors


def say(text):
    """Progress and reasons go to stderr."""
    print(text, file=sys.stderr, flush=True)


def _in_words(error):
    """An exception in one line."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def _copies(case, sets):
    """The launches of the copies of as many bytes as the case must move."""
    size = case.bytes_moved // 2 // 16 * 16
    stride = -(-size // 256) * 256
    block = torch.zeros(2, sets, stride, dtype=torch.uint8, device="cuda")
    source, target = ([block[side, i, :size] for i in range(sets)] for side in (0, 1))
    copies = {"copy_": lambda i: target[i].copy_(source[i])}
    try:
        from .copy_kernel import copy_with_kernel
    except ImportError:
        say("  the copy kernel is left out: Triton is not installed")
    else:
        copies["copy kernel"] = lambda i: copy_with_kernel(source[i], target[i])
    return copies


def _warm_up(launch, sets, stream):
    with torch.cuda.stream(stream):
        for i in range(3):
            launch(i % sets)
    stream.synchronize()


def _check(launch, tensors, stream):
    """The largest error of a recorded launch on set 0: what will be timed is what is checked."""
    recording = Recording(launch, 1, 1, stream)
    tensors.restore()
    for output in recording.outputs[0]:
        if not tensors.is_input(output):
            output.fill_(float("nan"))
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        recording.graph.replay()
    torch.cuda.synchronize()
    outputs = [
        output.clone() if tensors.is_input(output) else output for output in recording.outputs[0]]
    tensors.restore()
    with torch.no_grad():
        return largest_error(tensors, outputs)


def _time(launches, sets, stream, min_seconds):
    recordings = {}
    for name, launch in launches.items():
        recordings[name] = record_for_timing(launch, sets, stream)
    return time_in_turns(recordings, stream, min_seconds)


def run_case(case, contenders, common, min_seconds):
    """The rows of a case. `common` are the fields that all rows share."""
    l2_bytes = torch.cuda.get_device_properties(0).L2_cache_size
    stream = torch.cuda.Stream()
    tensors = Tensors(case, "cuda", l2_bytes)
    sets = tensors.sets
    torch.cuda.synchronize()

    rows, launches = {}, {}
    for contender in contenders:
        row = Row(
            lesson=contender.name, regime=case.regime, dtype=case.dtype, rows=case.rows,
            hidden=case.hidden, bytes_per_row_predicted=case.bytes_per_row,
            error_bound=bound_of(case), commit=contender.version, **common)
        try:
            with torch.cuda.stream(stream), torch.set_grad_enabled(case.regime == "backward"):
                launch = contender.launch_for(tensors)
            with torch.set_grad_enabled(case.regime == "backward"):
                _warm_up(launch, sets, stream)
                row.max_error = _check(launch, tensors, stream)
        except Missing as reason:
            say(f"  {contender.name:14} {reason}")
            continue
        except torch.cuda.OutOfMemoryError as error:
            row.verdict = "refused"
            say(f"  {contender.name:14} refused: {_in_words(error)}")
        except Exception as error:  # whatever a library throws at a shape that it cannot do
            torch.cuda.synchronize()  # throws again if the GPU is lost
            row.verdict = "refused"
            say(f"  {contender.name:14} refused: {_in_words(error)}")
        else:
            if row.max_error <= row.error_bound:  # NaN is not
                row.verdict = "pass"
                launches[contender.name] = launch
            else:
                row.verdict = "fail"
                say(f"  {contender.name:14} FAIL: error {row.max_error:.3g} > {row.error_bound:.3g}")
        rows[contender.name] = row

    copies = _copies(case, sets)
    for launch in copies.values():
        _warm_up(launch, sets, stream)
    with torch.set_grad_enabled(case.regime == "backward"):
        timings = _time({**copies, **launches}, sets, stream, min_seconds)

    copy_us = min(timings[name].median_us for name in copies)
    for row in rows.values():
        timing = timings.get(row.lesson)
        if timing is None:
            continue
        row.cache = "cold"
        row.median_us, row.spread_pct = timing.median_us, timing.spread_pct
        row.samples = timing.samples
        row.gbps = gbps(case.bytes_moved, timing.median_us)
        row.copy_gbps = gbps(case.bytes_moved, copy_us)
        say(f"  {row.lesson:14} {row.median_us:10.2f} us +- {row.spread_pct:4.1f} %"
            f" {row.gbps:7.0f} GB/s {100 * row.gbps / row.copy_gbps:5.1f} % of copy")
    for name in copies:
        say(f"  {name:14} {timings[name].median_us:10.2f} us +- {timings[name].spread_pct:4.1f} %"
            f" {gbps(case.bytes_moved, timings[name].median_us):7.0f} GB/s")
    return list(rows.values())
