"""The roof of a case: as many bytes moved by a kernel that computes nothing."""

import ctypes
import math

import torch

from .results import gbps


def streams_of(tensors, i):
    """(tensor, is it read, is it written) for what a launch on set i has to move, each once."""
    streams = [(x, True, False) for x in tensors.x[i]]
    streams += [(y, False, True) for y in tensors.y[i]]
    streams += [(residual, True, True) for residual in tensors.residual[i:i + 1]]
    streams += [(other, True, False) for other in tensors.dy[i:i + 1] + tensors.z[i:i + 1]]
    return streams + [(dz, False, True) for dz in tensors.dz[i:i + 1]]


def _bytes(streams, direction):
    return sum(
        stream[0].numel() * stream[0].element_size() for stream in streams if stream[direction])


def name_of(streams):
    """Bytes read to bytes written: "2:1"."""
    read, written = _bytes(streams, 1), _bytes(streams, 2)
    both = math.gcd(read, written)
    return f"{read // both}:{written // both}"


class Roof:
    """Launches of a case's roof, in different ways; the fastest is the roof."""

    def __init__(self, library):
        self._move = ctypes.CDLL(str(library)).rmsnorm_move

    def launches(self, tensors):
        """By name, functions of a set's number."""
        ways = {
            f"roof{' fine' * is_fine}{' keeps' * keeps}":
                lambda i, is_fine=is_fine, keeps=keeps: self._launch(
                    streams_of(tensors, i), is_fine, keeps)
            for is_fine in ((0, 1) if tensors.case.scaling else (0,)) for keeps in (0, 1)}
        if not tensors.case.scaling and len(streams_of(tensors, 0)) == 2:  # cudaMemcpyAsync
            ways["copy_"] = lambda i: tensors.y[i][0].copy_(tensors.x[i][0])
        return ways

    def _launch(self, streams, is_fine, keeps):
        count = len(streams)
        pointers = (ctypes.c_void_p * count)(*(stream[0].data_ptr() for stream in streams))
        sizes = (ctypes.c_int64 * count)(
            *(stream[0].numel() * stream[0].element_size() for stream in streams))
        read, written = ((ctypes.c_int * count)(*(stream[k] for stream in streams)) for k in (1, 2))
        overlaps = torch.cuda.get_device_capability()[0] >= 9
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        error = self._move(
            count, pointers, sizes, read, written, int(overlaps), is_fine, keeps, stream)
        if error != 0:
            raise RuntimeError(f"the roof's launch gave the CUDA error {error}")


def roof_gbps(streams, timings):
    """The fastest way's bandwidth; timings of the ways alone."""
    moved = _bytes(streams, 1) + _bytes(streams, 2)
    return max(gbps(moved, timing.median_us) for timing in timings)
