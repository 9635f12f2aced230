#!/usr/bin/env python3
"""Measures librmsnorm beside other libraries' RMSNorm, and writes a CSV as the lessons do.

docs/peers.md says what is measured and how. Needs PyTorch with CUDA and an NVIDIA GPU.
"""

import argparse
import datetime
import importlib.util
import sys
import time
from pathlib import Path

from peers_harness import cases, results

ROOT = Path(__file__).resolve().parent.parent
CONTENDERS = ["librmsnorm", "torch", "torch.compile", "liger", "flashinfer", "quack"]
DONE, FAILED, BAD_USAGE, NO_GPU = 0, 1, 2, 3


def say(text):
    print(text, file=sys.stderr, flush=True)


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write the results to FILE")
    parser.add_argument(
        "--shape", action="append", metavar="TEXT", default=[],
        help="only cases whose label has TEXT in it (may be repeated; --list shows the labels)")
    parser.add_argument(
        "--contender", action="append", choices=CONTENDERS, default=[],
        help="only this one (may be repeated)")
    parser.add_argument(
        "--library", type=Path, metavar="FILE", default=ROOT / "build/cuda/library/librmsnorm.so",
        help="librmsnorm (default: %(default)s)")
    parser.add_argument(
        "--compile-mode", metavar="MODE", help="torch.compile's mode, such as max-autotune-no-cudagraphs")
    parser.add_argument(
        "--quick", action="store_true", help="a case of each regime, few samples: does it work?")
    parser.add_argument("--list", action="store_true", help="list the cases, measure nothing")
    options = parser.parse_args(arguments)
    every = cases.quick_cases() if options.quick else cases.all_cases()
    options.cases = [
        case for case in every
        if not options.shape or any(text in case.label for text in options.shape)]
    if not options.cases:
        parser.error(f"no case has {' or '.join(options.shape)} in its label (--list shows them)")
    return options


def find_contenders(options):
    """Those that are there; the others are named, with the reason."""
    from peers_harness import contenders as all_of_them
    from peers_harness import machine

    def librmsnorm():
        binding = ROOT / "library/python/rmsnorm.py"
        if not binding.is_file() or not options.library.is_file():
            raise all_of_them.Missing(f"{options.library} is not there")
        spec = importlib.util.spec_from_file_location("rmsnorm", binding)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return all_of_them.Librmsnorm(module, options.library, machine.commit())

    makers = dict(zip(CONTENDERS, [
        librmsnorm, all_of_them.Torch, lambda: all_of_them.TorchCompile(options.compile_mode),
        all_of_them.Liger, all_of_them.FlashInfer, all_of_them.Quack]))
    found = []
    for name in options.contender or CONTENDERS:
        try:
            found.append(makers[name]())
            say(f"{name:14} {found[-1].version}")
        except Exception as reason:  # whatever a library throws when it is imported
            say(f"{name:14} left out: {reason}")
    return found


def measure(options):
    from peers_harness import machine
    from peers_harness.run import run_case

    contenders = find_contenders(options)
    if not contenders:
        say("no contender is there")
        return FAILED
    common = machine.describe()
    common["date"] = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    say(", ".join(str(value) for value in common.values()))
    started = time.monotonic()
    rows = []
    for case in options.cases:
        say(f"{case.label}  ({time.monotonic() - started:.0f} s)")
        rows += run_case(case, contenders, common, min_seconds=0.02 if options.quick else 0.1)
        if options.csv:
            results.write_csv(options.csv, rows)
    say(f"{time.monotonic() - started:.0f} s")
    return FAILED if any(row.verdict == "fail" for row in rows) else DONE


def main(arguments=None):
    options = parse(arguments)
    if options.list:
        for case in options.cases:
            print(case.label)
        return DONE
    try:
        import torch
    except ImportError:
        say("peers.py needs PyTorch with CUDA, and this Python has no torch")
        return NO_GPU
    if not torch.cuda.is_available():
        say("peers.py needs PyTorch with CUDA and an NVIDIA GPU: torch finds none")
        return NO_GPU
    return measure(options)


if __name__ == "__main__":
    sys.exit(main())
