"""What the results were measured on."""

import datetime
import subprocess

import torch

from .program import ROOT


def _output_of(*command):
    """What a program prints; "" if it is not there or fails."""
    try:
        finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return finished.stdout.strip()


def revision():
    """The revision of this project, as cmake/commit.cmake finds it."""
    return _output_of(
        "git", "-c", "safe.directory=*", "describe", "--always", "--exclude=*", "--abbrev=12",
        "--dirty") or "unknown"


def describe():
    """The fields of a result that say where and when it was measured."""
    gpu = torch.cuda.get_device_properties(0)
    drivers = _output_of("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
    return {
        # The data sheet's peak of global memory: clock times width, twice a clock.
        "peak_gbps": 2 * gpu.memory_clock_rate * 1e3 * gpu.memory_bus_width / 8 / 1e9,
        "device": gpu.name,
        "driver": drivers.partition("\n")[0],
        "cuda": torch.version.cuda,
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
    }
