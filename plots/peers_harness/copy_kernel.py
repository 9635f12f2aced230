"""A copy with 16-byte loads and stores, written in Triton."""

import torch
import triton
import triton.language as tl

_WORDS = 1024  # of 4 bytes, a block
_WARPS = 8  # 256 threads, each with one vector of 16 bytes


@triton.jit
def _copy(source, target, words, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = i < words
    tl.store(target + i, tl.load(source + i, mask=mask), mask=mask)


def copy_with_kernel(source, target):
    """Copies tensors of bytes, whose number is a multiple of 4."""
    source, target = source.view(torch.int32), target.view(torch.int32)
    blocks = triton.cdiv(source.numel(), _WORDS)
    _copy[(blocks,)](source, target, source.numel(), BLOCK=_WORDS, num_warps=_WARPS)
