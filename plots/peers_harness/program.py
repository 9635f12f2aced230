"""What peers.py and host_cost.py do alike: options, and what they need. Needs no PyTorch."""

import argparse
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DONE, FAILED, NO_GPU = 0, 1, 3  # 2 is argparse's, for bad usage


def say(text):
    """Progress and reasons go to stderr."""
    print(text, file=sys.stderr, flush=True)


def output_of(*command):
    """What a program prints; "" if it is not there or fails."""
    try:
        finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return finished.stdout.strip()


def revision_for(options):
    """That of --revision, or that of this checkout, as cmake/commit.cmake finds it."""
    return options.revision or output_of(
        "git", "-c", "safe.directory=*", "describe", "--always", "--exclude=*", "--abbrev=12",
        "--dirty") or "unknown"


def parser_for(doc):
    """A parser with the options that both have."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write the results to FILE")
    parser.add_argument(
        "--library", type=Path, metavar="FILE", default=ROOT / "build/cuda/library/librmsnorm.so",
        help="librmsnorm, beside which _fast.abi3.so may be (default: %(default)s)")
    parser.add_argument(
        "--revision", metavar="TEXT",
        help="the revision that librmsnorm was built from, if it is not this checkout's")
    return parser


def run(name, measure, options):
    """The exit code of measure(options), or NO_GPU."""
    try:
        import torch
    except ImportError:
        say(f"{name} needs PyTorch with CUDA: this Python has no module torch")
        return NO_GPU
    if not torch.cuda.is_available():
        say(f"{name} needs an NVIDIA GPU and a PyTorch that can use it: torch finds none")
        return NO_GPU
    return measure(options)
