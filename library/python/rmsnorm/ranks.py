"""Sums over ranks, each of which is a process with a GPU.

    ranks = rmsnorm.Ranks(group)  # of torch.distributed; on all ranks of the group
    y = rmsnorm.all_reduce_residual_add(x, residual, weight, 1e-6, ranks)
"""

import ctypes
import itertools
import socket

import torch
import torch.distributed as dist
from torch._C import _increment_version

from . import binding
from .operators import _define, _look_at

_HEADER_BYTES = 16384  # RMSNORM_RANKS_HEADER_BYTES
_MOST_RANKS, _MOST_COLUMNS = 8, 16384
_known = {}  # Ranks by their names, which are what operators take
_numbers = itertools.count()


class Ranks:
    """One rank of a group of processes that add up what they have. All of them make it, and make and
    use their groups in the same order. Sums of one group come one after the other, on any streams;
    in CUDA graphs, the caller has to see to that.

    group: of torch.distributed; None: all processes.
    bytes: of the largest x for librmsnorm's own kernel, rows in whole 16 bytes. What is larger, all
        that more than 8 ranks have, and all that goes to other machines, torch.distributed adds up,
        by NCCL where that is the group's backend.
    limit: for how many seconds a kernel waits for another rank.
    buffers: a tensor of uint8 of each rank, as this process reaches it, all of one size, in place of
        PyTorch's symmetric memory. It takes twice `bytes`, and 16384.

    A rank that does not come ends a sum in NaN: the next call, and status(), raise a Failure that
    names it. Memory that cannot be reached is an Error, on all ranks. Only close() frees a group."""

    def __init__(self, group=None, *, bytes=8 << 20, limit=10.0, buffers=None):
        self.group = dist.group.WORLD if group is None else group
        self.rank, self.ranks = dist.get_rank(self.group), dist.get_world_size(self.group)
        if self.rank < 0:
            raise ValueError("this process is not in the group: only those that are make Ranks of it")
        if not limit > 0:
            raise ValueError(f"limit is {limit}: it needs to be more than 0 seconds")
        self.name = f"{self.ranks} ranks, number {next(_numbers)}"
        self.address, self.room, self._stream = ctypes.c_void_p(), 0, None
        if buffers is not None and len(buffers) != self.ranks:
            raise ValueError(f"buffers are {len(buffers)}: each of the {self.ranks} ranks needs one")
        sizes = {_HEADER_BYTES + 2 * bytes} if buffers is None else {one.nbytes for one in buffers}
        hosts, all_sizes = zip(*self._gather((socket.gethostname(), sorted(sizes))))
        sizes = sorted(set().union(*all_sizes))
        if len(sizes) > 1:
            raise ValueError(f"the ranks' buffers have {sizes} bytes: they need to be of one size")
        self._buffer, pointers = buffers, None
        if buffers is not None:
            pointers = [one.data_ptr() for one in buffers]
        elif len(set(hosts)) == 1 and self.ranks <= _MOST_RANKS:
            pointers = self._symmetric(sizes[0])
        if pointers is not None:
            self._create(pointers, sizes[0], limit)
        _known[self.name] = self

    def _gather(self, mine):
        """What each rank has."""
        all_have = [None] * self.ranks
        dist.all_gather_object(all_have, mine, self.group)
        return all_have

    def _create(self, pointers, size, limit):
        """Raises on all ranks what one of them was refused."""
        error = None
        try:
            binding.call_ranks(
                "create", (ctypes.c_void_p * self.ranks)(*pointers), ctypes.c_size_t(size), self.rank,
                self.ranks, ctypes.c_uint(max(1, round(min(limit, 4e6) * 1000))),
                ctypes.byref(self.address))
        except (binding.Error, binding.Failure) as refused:
            error = refused
        errors = self._gather(error and (type(error).__name__, error.status, str(error)))
        found = next((one for one in errors if one), None)
        if found:
            self.close()
            raise getattr(binding, found[0])(*found[1:])
        self.room = (size - _HEADER_BYTES) // 32 * 16

    def _symmetric(self, size):
        """Where the ranks' buffers lie."""
        if self.ranks == 1:
            self._buffer = torch.empty(size, dtype=torch.uint8, device="cuda")
            return [self._buffer.data_ptr()]
        from torch.distributed import _symmetric_memory
        device = torch.device("cuda", torch.cuda.current_device())
        self._buffer = _symmetric_memory.empty(size, dtype=torch.uint8, device=device)
        self._handle = _symmetric_memory.rendezvous(self._buffer, self.group.group_name)
        pointers = self._handle.buffer_ptrs
        behind = self._buffer.data_ptr() - pointers[self.rank]
        return [pointer + behind for pointer in pointers]

    def takes(self, x):
        """Whether librmsnorm's own kernel adds up x. It depends on the shape and the type alone, so
        that all ranks say the same."""
        columns = x.shape[-1]
        row = (columns * x.element_size() + 15) // 16 * 16
        has_room = columns <= _MOST_COLUMNS and x.shape[:-1].numel() * row <= self.room
        return has_room and bool(self.address)

    def status(self):
        """Raises a Failure if a rank was waited for in vain. It does not wait itself."""
        if self.address:
            binding.call_ranks("status", self.address)

    def reset(self):
        """Makes the group usable again after a Failure. All ranks call it: it waits for them."""
        torch.cuda.synchronize()
        dist.barrier(self.group)
        if self.address:
            binding.call_ranks("reset", self.address)
        dist.barrier(self.group)

    def close(self):
        """Frees it, when no sum is running on any rank. CUDA graphs with its sums end with it."""
        _known.pop(self.name, None)
        if self.address:
            binding.call_ranks("destroy", self.address)
        self.address, self.room, self._buffer = ctypes.c_void_p(), 0, None

    def _follow(self, device):
        """Lets the current stream wait for the sum before, if that was on another one."""
        with torch.cuda.device(device):
            if torch.cuda.is_current_stream_capturing():
                return
        stream = torch.cuda.current_stream(device)
        if self._stream is not None and self._stream != stream:
            stream.wait_stream(self._stream)
        self._stream = stream


def _run(x, residual, weight, eps, weight_bias, name, batch_invariant):
    if name not in _known:
        raise ValueError("the ranks have been closed")
    ranks, y = _known[name], x.new_empty(x.shape)
    if ranks.takes(x):
        if x.is_cuda:
            ranks._follow(x.device)
        binding.all_reduce_residual_add(
            x, residual, weight, eps, ranks.address.value, y, weight_bias=weight_bias)
    elif batch_invariant:
        raise ValueError(
            f"x has the shape {tuple(x.shape)}, for which the ranks' buffers have no room: another "
            "sum than that of the ranks in their order would depend on the batch")
    else:
        y.copy_(x)
        dist.all_reduce(y, group=ranks.group)
        binding.residual_add(y, residual, weight, eps, y, weight_bias)
    _increment_version((residual,))
    return y


_all_reduce_residual_add = _define(
    "all_reduce_residual_add(Tensor x, Tensor(a!) residual, Tensor? weight, float eps, "
    "float weight_bias, str ranks, bool batch_invariant) -> Tensor",
    _run, lambda x, *_: x.new_empty(x.shape))


def all_reduce_residual_add(
        x, residual, weight, eps, ranks, *, batch_invariant=False, weight_bias=0.0):
    """x (..., hidden) added up over all ranks, in fp32 and in their order, and rounded to its type;
    the residual, of the type of x, becomes that and itself; returns the RMSNorm of this sum, as
    fused_add_rms_norm_() computes it. All ranks call it with tensors of one shape and type, and have
    the same bits afterwards. Nothing may want a gradient.

    weight: (hidden) or None, of the type of x or of float32.
    ranks: Ranks, as this process has made them.
    batch_invariant: never leaves a sum to NCCL, whose order and roundings are its own, and may
        depend on the number of rows: what has no room in the buffers is a ValueError."""
    wants_gradient, is_seen = _look_at(x, residual, weight)
    if wants_gradient:
        raise RuntimeError(
            "all_reduce_residual_add records no gradient, which a tensor requires: use "
            "torch.no_grad()")
    run = _all_reduce_residual_add if is_seen else _run
    return run(x, residual, weight, eps, weight_bias, ranks.name, batch_invariant)
