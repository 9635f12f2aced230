"""A kernel that does nothing, launched as library/kernels/launch.hpp launches the norm's: what CUDA
alone takes. Needs no PyTorch.
"""

import ctypes

PARAMETER_BYTES = 280  # as many as the forward kernel has: those of its operation and of its plan
THREADS = 128

PTX = f"""
.version 7.0
.target sm_75
.address_size 64
.visible .entry nothing(.param .align 8 .b8 parameters[{PARAMETER_BYTES}]) {{ ret; }}
"""


class Attribute(ctypes.Structure):
    """cudaLaunchAttribute, of the kind that the library sets: cudaLaunchAttributeID has its 6."""

    _fields_ = [
        ("id", ctypes.c_int), ("padding", ctypes.c_int), ("is_allowed", ctypes.c_int),
        ("rest", ctypes.c_char * 60)]


PROGRAMMATIC_STREAM_SERIALIZATION = 6


class Config(ctypes.Structure):
    """cudaLaunchConfig_t."""

    _fields_ = [
        ("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_size_t), ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(Attribute)), ("attribute_count", ctypes.c_uint)]


def _check(error, call):
    if error != 0:
        raise RuntimeError(f"{call}() gave the CUDA error {error}")


def load(cudart):
    """The kernel, in the current device's context."""
    library, kernel = ctypes.c_void_p(), ctypes.c_void_p()
    none = None, None, 0  # of options: their names, values and number
    _check(
        cudart.cudaLibraryLoadData(ctypes.byref(library), PTX.encode(), *none, *none),
        "cudaLibraryLoadData")
    _check(
        cudart.cudaLibraryGetKernel(ctypes.byref(kernel), library, b"nothing"),
        "cudaLibraryGetKernel")
    return kernel


def launches(loop, cudart, kernel, stream, overlaps, times):
    """A function that launches the kernel so many times, by way of the function `loop` in C.

    With `overlaps`, a launch may overlap the end of the kernel before it, as the library's do.
    """
    attribute = Attribute(id=PROGRAMMATIC_STREAM_SERIALIZATION, is_allowed=1)
    config = Config((1, 1, 1), (THREADS, 1, 1), 0, stream)
    if overlaps:
        config.attributes, config.attribute_count = ctypes.pointer(attribute), 1
    space = ctypes.create_string_buffer(PARAMETER_BYTES)
    parameters = (ctypes.c_void_p * 1)(ctypes.addressof(space))
    launch = ctypes.cast(cudart.cudaLaunchKernelExC, ctypes.c_void_p)

    def batch(space=space):  # which lives as long as this
        _check(
            loop(launch, ctypes.byref(config), kernel, parameters, times), "cudaLaunchKernelExC")
    return batch
