#!/usr/bin/env python3
"""Measures librmsnorm beside other libraries' RMSNorm, and writes a CSV as the lessons do.

Needs PyTorch with CUDA and an NVIDIA GPU. docs/peers.md says what is measured, and how.
"""

import argparse
import datetime
import functools
import importlib.util
import sys
import time
from pathlib import Path

from peers_harness import cases, results

ROOT = Path(__file__).resolve().parent.parent
IMPLEMENTATIONS = [  # ours is the last bar of each chart
    "torch", "torch.compile", "torch.compile/max", "liger", "flashinfer", "quack", "cudnn",
    "librmsnorm/two", "librmsnorm"]
DONE, FAILED, NO_GPU = 0, 1, 3  # 2 is argparse's, for bad usage


def say(text):
    print(text, file=sys.stderr, flush=True)


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write the results to FILE")
    parser.add_argument(
        "--shape", action="append", metavar="TEXT", default=[],
        help="only cases whose label has TEXT in it; may be repeated")
    parser.add_argument(
        "--implementation", action="append", choices=IMPLEMENTATIONS, metavar="NAME", default=[],
        help=f"only this one of {', '.join(IMPLEMENTATIONS)}; may be repeated")
    parser.add_argument(
        "--library", type=Path, metavar="FILE", default=ROOT / "build/cuda/library/librmsnorm.so",
        help="librmsnorm (default: %(default)s)")
    parser.add_argument(
        "--revision", metavar="TEXT",
        help="the revision that librmsnorm was built from, if it is not this checkout's")
    parser.add_argument(
        "--quick", action="store_true", help="a case of each regime, and few samples")
    parser.add_argument("--list", action="store_true", help="print the cases' labels")
    options = parser.parse_args(arguments)
    options.cases = [
        case for case in (cases.quick_cases() if options.quick else cases.all_cases())
        if not options.shape or any(text in case.label for text in options.shape)]
    if not options.cases:
        parser.error(f"no case has {' or '.join(options.shape)} in its label; --list shows them")
    return options


def load_librmsnorm(make, library, revision):
    from peers_harness import machine
    from peers_harness.implementations import Missing

    if not library.is_file():
        raise Missing(f"there is no {library}: build it, or name it with --library")
    spec = importlib.util.spec_from_file_location("rmsnorm", ROOT / "library/python/rmsnorm/binding.py")
    binding = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(binding)
    binding.load(str(library))
    return make(binding, revision or machine.revision())


def find_implementations(options):
    """Those that are there; of the others, say why not."""
    from peers_harness import implementations

    makers = dict(zip(IMPLEMENTATIONS, [
        implementations.Torch, implementations.TorchCompile, implementations.TorchCompileMax,
        implementations.Liger, implementations.FlashInfer, implementations.Quack,
        implementations.CuDnn,
        *(functools.partial(load_librmsnorm, make, options.library, options.revision)
          for make in (implementations.LibrmsnormTwo, implementations.Librmsnorm))]))
    found = []
    for name in options.implementation or IMPLEMENTATIONS:
        try:
            found.append(makers[name]())
            say(f"{name:14} {found[-1].version}")
        except Exception as reason:  # whatever a library throws when it is imported
            say(f"{name:14} left out: {reason}")
    return found


def measure(options):
    from peers_harness import machine
    from peers_harness.run import run_case

    found = find_implementations(options)
    common = machine.describe()
    common["date"] = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    started = time.monotonic()
    rows = []
    for case in options.cases if found else []:
        say(f"{case.label}  ({time.monotonic() - started:.0f} s)")
        rows += run_case(case, found, common, min_seconds=0.02 if options.quick else 0.1)
        if options.csv:
            results.write_csv(options.csv, rows)
    say(f"{len(rows)} results in {time.monotonic() - started:.0f} s")
    # Others may be missing, but not the one that this is about, nor one that was asked for.
    wanted = set(options.implementation or ["librmsnorm"])
    if not wanted <= {implementation.name for implementation in found}:
        return FAILED
    return FAILED if any(row.verdict == "fail" for row in rows) else DONE


def main(arguments=None):
    options = parse(arguments)
    if options.list:
        print("\n".join(case.label for case in options.cases))
        return DONE
    try:
        import torch
    except ImportError:
        say("peers.py needs PyTorch with CUDA: this Python has no module torch")
        return NO_GPU
    if not torch.cuda.is_available():
        say("peers.py needs an NVIDIA GPU and a PyTorch that can use it: torch finds none")
        return NO_GPU
    return measure(options)


if __name__ == "__main__":
    sys.exit(main())
