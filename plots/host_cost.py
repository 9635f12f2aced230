#!/usr/bin/env python3
"""Measures what an eager call of the norm costs the CPU, and writes a CSV as the lessons do.

Needs PyTorch with CUDA and an NVIDIA GPU. The GPU is never waited for: a batch of calls is fewer
than a stream can queue, and it works between batches, which are not timed.
"""

import ctypes
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from peers_harness import empty_kernel, results, turns
from peers_harness.program import DONE, FAILED, ROOT, parser_for, revision_for, run, say

ROWS, HIDDEN, EPS = 4, 256, 1e-6
CALLS = 200  # of a batch
SECONDS = 1  # for each call, at least
TORCH, NEW, OUT, IN_C = (
    "F.rms_norm(x)", "rmsnorm.rms_norm(x)", "rmsnorm.rms_norm(x out=y)", "rmsnorm_forward() in C")
EMPTY, EMPTY_ALONE = "empty kernel in C", "empty kernel in C without overlap"

LOOP = """
typedef int (*forward)(const void*, const void*, const void*, float, float, void*);
int call_forward(forward f, const void* x, const void* w, const void* y, void* stream, int times) {
  int status = 0;
  while (times-- > 0) status |= f(x, w, y, 1e-6f, 0, stream);
  return status;
}
typedef int (*launch)(const void*, const void*, void**);
int call_launch(launch f, const void* config, const void* kernel, void** parameters, int times) {
  int status = 0;
  while (times-- > 0) status |= f(config, kernel, parameters);
  return status;
}
"""


class Batches:
    """What turns.py times: batches of CALLS calls."""

    launches = CALLS

    def __init__(self, batch, settle):
        self._batch, self._settle = batch, settle

    def time(self, count):
        """Times of `count` batches in microseconds, of the CPU alone."""
        times = []
        for _ in range(count):
            begin = time.perf_counter_ns()
            self._batch()
            times.append((time.perf_counter_ns() - begin) / 1e3)
            self._settle()
        return lambda: times


def repeated(call):
    def batch():
        for _ in range(CALLS):
            call()
    return batch


def loops_in_c(folder):
    """LOOP's functions, compiled; None without a compiler."""
    source, library = Path(folder, "loop.c"), Path(folder, "loop.so")
    source.write_text(LOOP)
    try:
        subprocess.run(
            ["cc", "-O2", "-shared", "-fPIC", "-o", library, source], check=True,
            capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return ctypes.CDLL(str(library))


def empty_kernels(loops, cudart, stream, names):
    """Batches of an empty kernel's launches, by these names; {} where CUDA cannot.

    `cudart` is the file of CUDA's runtime, which PyTorch has loaded.
    """
    try:
        runtime = ctypes.CDLL(cudart)
        kernel = empty_kernel.load(runtime)
        batches = {
            name: empty_kernel.launches(
                loops.call_launch, runtime, kernel, stream, name == EMPTY, CALLS)
            for name in names}
        for batch in batches.values():
            batch()
    except (OSError, AttributeError, RuntimeError) as reason:  # no such file, an older CUDA, others
        say(f"{EMPTY:26} left out: {reason}")
        return {}
    return batches


def batches_of(options, folder):
    """The calls by name, each a Batches; and whether they give the same norm."""
    import torch
    import torch.nn.functional as F

    sys.path.insert(0, str(ROOT / "library/python"))
    import rmsnorm
    from rmsnorm import binding

    rmsnorm.load(str(options.library))
    x = torch.randn(ROWS, HIDDEN, device="cuda", dtype=torch.bfloat16)
    weight = torch.randn(HIDDEN, device="cuda", dtype=torch.bfloat16)
    y = torch.empty_like(x)
    calls = {
        TORCH: repeated(lambda: F.rms_norm(x, (HIDDEN,), weight, EPS)),
        NEW: repeated(lambda: rmsnorm.rms_norm(x, weight, EPS)),
        OUT: repeated(lambda: rmsnorm.rms_norm(x, weight, EPS, out=y)),
    }
    loops = loops_in_c(folder)
    if loops is None:
        say(f"{IN_C:26} left out: there is no C compiler, cc")
    else:
        capsules = [binding._capsule(tensor) for tensor in (x, weight, y)]
        views = [ctypes.c_void_p(view) for _, view in capsules]
        forward = ctypes.cast(ctypes.CDLL(str(options.library)).rmsnorm_forward, ctypes.c_void_p)
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)

        def in_c(capsules=capsules):  # which live as long as this
            if loops.call_forward(forward, *views, stream, CALLS) != 0:
                raise RuntimeError("rmsnorm_forward() failed")
        calls[IN_C] = in_c
        has_overlap = torch.cuda.get_device_capability()[0] >= 9
        calls |= empty_kernels(
            loops, f"libcudart.so.{torch.version.cuda.split('.')[0]}", stream,
            [EMPTY, EMPTY_ALONE] if has_overlap else [EMPTY_ALONE])
    expected = F.rms_norm(x.float(), (HIDDEN,), weight.float(), EPS)
    rmsnorm.rms_norm(x, weight, EPS, out=y)
    is_right = torch.allclose(y.float(), expected, rtol=2**-7, atol=2**-9)
    settle = torch.cuda.synchronize
    return {name: Batches(batch, settle) for name, batch in calls.items()}, is_right


def table(timings):
    """The results as lines of text."""
    width = max(map(len, timings))
    return [
        f"{name:{width}} {timing.median_us:6.2f} us  ± {timing.spread_pct:.0f} %"
        f"  {timing.median_us / timings[TORCH].median_us:5.2f} of {TORCH}"
        for name, timing in timings.items()]


def rows_of(timings, versions, common):
    return [
        results.Row(
            "rms_norm", name, "host", "bf16", ROWS, HIDDEN, cache="warm",
            median_us=timing.median_us, spread_pct=timing.spread_pct, samples=timing.samples,
            bytes=0 if name in (EMPTY, EMPTY_ALONE) else 2 * 2 * ROWS * HIDDEN, verdict="pass",
            version=versions[name], **common)
        for name, timing in timings.items()]


def measure(options):
    import torch
    from peers_harness import machine

    if not options.library.is_file():
        say(f"there is no {options.library}: build it, or name it with --library")
        return FAILED
    common = machine.describe()
    own = revision_for(options)
    with tempfile.TemporaryDirectory() as folder:
        batches, is_right = batches_of(options, folder)
        if not is_right:
            say("the norms differ: nothing was timed")
            return FAILED
        timings = turns.time_in_turns(batches, SECONDS)
    print("\n".join(table(timings)))
    others = {
        TORCH: torch.__version__, EMPTY: torch.version.cuda, EMPTY_ALONE: torch.version.cuda}
    versions = {name: others.get(name, own) for name in timings}
    if options.csv:
        results.write_csv(options.csv, rows_of(timings, versions, common))
    return DONE


if __name__ == "__main__":
    sys.exit(run("host_cost.py", measure, parser_for(__doc__).parse_args()))
