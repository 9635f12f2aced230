#!/usr/bin/env python3
"""Measures librmsnorm beside other libraries' RMSNorm, and writes a CSV as the lessons do.

Needs PyTorch with CUDA and an NVIDIA GPU. docs/peers.md says what is measured, and how.
"""

import functools
import importlib.util
import sys
import time
from pathlib import Path

from peers_harness import cases, nvml, results, resume
from peers_harness.calm import Calm
from peers_harness.program import DONE, FAILED, ROOT, parser_for, revision_for, run, say

IMPLEMENTATIONS = [  # ours is the last bar of each chart
    "torch", "torch.compile", "torch.compile/max", "liger", "flashinfer", "quack", "cudnn",
    "librmsnorm/two", "librmsnorm"]


def parse():
    parser = parser_for(__doc__)
    parser.add_argument(
        "--shape", action="append", metavar="TEXT", default=[],
        help="only cases whose label has TEXT in it; may be repeated")
    parser.add_argument(
        "--implementation", action="append", choices=IMPLEMENTATIONS, metavar="NAME", default=[],
        help=f"only this one of {', '.join(IMPLEMENTATIONS)}; may be repeated")
    parser.add_argument(
        "--resume", nargs="*", metavar="REVISION",
        help="keep the results that the file of --csv has, and measure only cases of which it has"
             " none of librmsnorm of the same revision, or of one of these")
    parser.add_argument(
        "--roof", type=Path, metavar="FILE", default=ROOT / "build/cuda/plots/librmsnorm_roof.so",
        help="what moves as many bytes as a case has to (default: %(default)s)")
    parser.add_argument("--list", action="store_true", help="print the cases' labels")
    options = parser.parse_args()
    options.cases = [
        case for case in cases.all_cases()
        if not options.shape or any(text in case.label for text in options.shape)]
    if not options.cases:
        parser.error(f"no case has {' or '.join(options.shape)} in its label; --list shows them")
    options.kept = []
    if options.resume is not None:
        if not options.csv:
            parser.error("--resume needs --csv, the file to go on with")
        options.kept = resume.read(options.csv)
        revisions = {revision_for(options), *options.resume}
        options.cases = resume.lacking(options.kept, options.cases, revisions)
    return options


def load_librmsnorm(make, library, revision):
    from peers_harness.implementations import Missing

    if not library.is_file():
        raise Missing(f"there is no {library}: build it, or name it with --library")
    spec = importlib.util.spec_from_file_location("rmsnorm", ROOT / "library/python/rmsnorm/binding.py")
    binding = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(binding)
    binding.load(str(library))
    return make(binding, revision)


def find_implementations(options):
    """Those that are there; of the others, say why not."""
    from peers_harness import implementations

    makers = dict(zip(IMPLEMENTATIONS, [
        implementations.Torch, implementations.TorchCompile, implementations.TorchCompileMax,
        implementations.Liger, implementations.FlashInfer, implementations.Quack,
        implementations.CuDnn,
        *(functools.partial(load_librmsnorm, make, options.library, revision_for(options))
          for make in (implementations.LibrmsnormTwo, implementations.Librmsnorm))]))
    found = []
    for name in options.implementation or IMPLEMENTATIONS:
        try:
            found.append(makers[name]())
            say(f"{name:14} {found[-1].version}")
        except Exception as reason:  # whatever a library throws when it is imported
            say(f"{name:14} left out: {reason}")
    return found


def let_gpu_rest(disturbance, seconds):
    say(f"  the GPU is at the {disturbance} cap: waiting {seconds} s to time the case again")
    time.sleep(seconds)


def measure(options):
    from peers_harness import machine

    common = machine.describe()
    others = {row.device for row in options.kept} - {common["device"]}
    if others:
        say(f"{options.csv} is of another GPU, {others.pop()}: this is {common['device']}")
        return FAILED

    from peers_harness.roof import Roof
    from peers_harness.run import run_case

    if not options.roof.is_file():
        say(f"there is no {options.roof}: build it, or name it with --roof")
        return FAILED
    roof = Roof(options.roof)

    found = find_implementations(options)
    started = time.monotonic()
    calm = Calm(nvml.reading(), let_gpu_rest)
    rows = []
    for case in options.cases if found else []:
        say(f"{case.label}  ({time.monotonic() - started:.0f} s)")
        rows += run_case(case, found, roof, common, min_seconds=0.1, calm=calm)
        if options.csv:
            results.write_csv(options.csv, resume.merged(options.kept, rows))
    say(f"{len(rows)} results in {time.monotonic() - started:.0f} s")
    # Others may be missing, but not the one that this is about, nor one that was asked for.
    wanted = set(options.implementation or ["librmsnorm"])
    if not wanted <= {implementation.name for implementation in found}:
        return FAILED
    return FAILED if any(row.verdict == "fail" for row in rows) else DONE


def main():
    options = parse()
    if options.list:
        print("\n".join(case.label for case in options.cases))
        return DONE
    return run("peers.py", measure, options)


if __name__ == "__main__":
    sys.exit(main())
