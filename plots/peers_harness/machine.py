"""What the results were measured on."""

import datetime

import torch

from .program import output_of


def describe():
    """The fields of a result that say where and when it was measured."""
    gpu = torch.cuda.get_device_properties(0)
    drivers = output_of("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
    return {
        # The data sheet's peak of global memory: clock times width, twice a clock.
        "peak_gbps": 2 * gpu.memory_clock_rate * 1e3 * gpu.memory_bus_width / 8 / 1e9,
        "device": gpu.name,
        "driver": drivers.partition("\n")[0],
        "cuda": torch.version.cuda,
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
    }
