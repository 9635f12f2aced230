"""NVML, NVIDIA's library that tells how a GPU does, through ctypes. Needs no PyTorch."""

import ctypes

from .calm import disturbance_of

_REASONS = (  # the newer name first
    "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")


def _find(load):
    """NVML's function and its handle of CUDA's device 0. \\throws OSError, AttributeError

    NVML counts all GPUs of the machine, CUDA those that CUDA_VISIBLE_DEVICES names: what both know
    is the place on the bus.
    """
    nvml, cuda = load("libnvidia-ml.so.1"), load("libcuda.so.1")
    number, place, device = ctypes.c_int(), ctypes.create_string_buffer(32), ctypes.c_void_p()
    for status in (
            nvml.nvmlInit_v2(), cuda.cuInit(0), cuda.cuDeviceGet(ctypes.byref(number), 0),
            cuda.cuDeviceGetPCIBusId(place, len(place), number),
            nvml.nvmlDeviceGetHandleByPciBusId_v2(place, ctypes.byref(device))):
        if status != 0:
            raise OSError(f"NVML or CUDA's driver returned {status}")
    for name in _REASONS:
        if hasattr(nvml, name):
            return getattr(nvml, name), device
    raise AttributeError("NVML knows no reasons")


def reading(load=ctypes.CDLL):
    """A function that returns what holds the clocks of CUDA's device 0 down, as the CSV has it.

    It returns "" where NVML is not there, or does not know. `load` finds a library by its name.
    """
    try:
        get, device = _find(load)
    except (OSError, AttributeError):
        return lambda: ""

    def read():
        reasons = ctypes.c_ulonglong()
        status = get(device, ctypes.byref(reasons))
        return disturbance_of(reasons.value) if status == 0 else ""

    return read
