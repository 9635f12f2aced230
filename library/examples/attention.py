#!/usr/bin/env python3
"""An attention layer's queries and keys, normed and turned in place in one launch, before they are
compared; the same launch stores keys and values in a paged cache.

    library/examples/attention.py [LIBRARY]

LIBRARY is a librmsnorm.so; without it, that of the installed package is loaded.
"""

import sys

import torch
import torch.nn.functional as F

import rmsnorm

EPS = 1e-6
TOKENS, Q_HEADS, K_HEADS, HEAD_DIM, PAGE = 96, 8, 2, 128, 16


def tables(device):
    """Cosines and sines of each position's angles, (positions, HEAD_DIM / 2)."""
    steps = torch.arange(0, HEAD_DIM, 2, device=device) / HEAD_DIM
    angles = torch.arange(TOKENS, device=device)[:, None] * 10000.0**-steps
    return angles.cos(), angles.sin()


def attention(q, k, v):
    """Of one text, (tokens, heads, HEAD_DIM); each head of k is for some of q."""
    return F.scaled_dot_product_attention(
        *(part.transpose(0, 1) for part in (q, k, v)), is_causal=True, enable_gqa=True)


def turned(x, weight, cos, sin):
    """The norm of each head, turned, by PyTorch's operations in fp32."""
    first, second = F.rms_norm(x.float(), (HEAD_DIM,), weight.float(), EPS).chunk(2, -1)
    cos, sin = cos[:, None], sin[:, None]
    halves = (first * cos - second * sin, second * cos + first * sin)
    return torch.cat(halves, -1).to(x.dtype)


def main():
    if len(sys.argv) > 1:
        rmsnorm.load(sys.argv[1])
    torch.manual_seed(1)
    options = {"device": "cuda", "dtype": torch.bfloat16}
    qkv = torch.randn(TOKENS, Q_HEADS + 2 * K_HEADS, HEAD_DIM, **options)
    q, k, v = qkv.split((Q_HEADS, K_HEADS, K_HEADS), 1)
    q_weight, k_weight = torch.rand(2, HEAD_DIM, **options) + 0.5
    cos, sin = tables(qkv.device)
    expected = attention(turned(q, q_weight, cos, sin), turned(k, k_weight, cos, sin), v)

    # The first pages of the cache are another text's.
    k_cache, v_cache = torch.zeros(2, 8, PAGE, K_HEADS, HEAD_DIM, **options)
    slots = torch.arange(TOKENS, device=qkv.device) + 2 * PAGE
    positions = torch.arange(TOKENS, device=qkv.device)
    rmsnorm.rms_norm_rotated_(
        q, q_weight, k, k_weight, cos, sin, positions, EPS, v=v, k_cache=k_cache, v_cache=v_cache,
        slots=slots)
    torch.testing.assert_close(attention(q, k, v), expected, rtol=0.05, atol=0.05)
    assert torch.equal(k_cache.flatten(0, 1)[slots], k) and not k_cache[:2].any()
    assert torch.equal(v_cache.flatten(0, 1)[slots], v) and not v_cache[:2].any()
    print(f"{TOKENS} tokens: the layer's result is PyTorch's but for roundings, and the caches have "
          "its keys and values")


if __name__ == "__main__":
    main()
