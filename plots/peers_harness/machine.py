"""What the results were measured on."""

import ctypes
import subprocess
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]


def driver_version():
    """The driver's version as nvidia-smi prints it; empty if it cannot be found out."""
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return ""
    text = ctypes.create_string_buffer(96)
    if nvml.nvmlInit_v2() != 0:
        return ""
    found = nvml.nvmlSystemGetDriverVersion(text, ctypes.c_uint(len(text))) == 0
    nvml.nvmlShutdown()
    return text.value.decode() if found else ""


def revision():
    """The revision of this project, as cmake/commit.cmake finds it."""
    try:
        return subprocess.run(
            ["git", "-c", "safe.directory=*", "describe", "--always", "--exclude=*",
             "--abbrev=12", "--dirty"],
            cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def peak_gbps(properties):
    """The data sheet's peak of global memory: clock times width, twice a clock."""
    return 2 * properties.memory_clock_rate * 1e3 * properties.memory_bus_width / 8 / 1e9


def describe():
    """The fields of a result that say where it was measured."""
    properties = torch.cuda.get_device_properties(0)
    return {
        "peak_gbps": peak_gbps(properties),
        "device": properties.name,
        "driver": driver_version(),
        "cuda": torch.version.cuda,
    }
