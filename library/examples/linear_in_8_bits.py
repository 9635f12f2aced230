#!/usr/bin/env python3
"""A norm and the linear layer behind it, in 8 bits: the norm writes the codes that the product of
matrices reads, with a scale for each row, and nothing is converted in between.

    library/examples/linear_in_8_bits.py [LIBRARY]

LIBRARY is a librmsnorm.so; without it, that of the installed package is loaded. The GPU has to
multiply 8 bits: compute capability 8.9 or newer.
"""

import sys

import torch

import rmsnorm


class NormedLinear(torch.nn.Module):
    """What `norm` and then `linear` compute, without gradients. Both have elements of bfloat16."""

    def __init__(self, norm, linear):
        super().__init__()
        self.eps = norm.eps
        self.register_buffer("norm_weight", norm.weight.detach())
        self.register_buffer("bias", None if linear.bias is None else linear.bias.detach())
        # One scale for each output: the largest weight becomes the largest number of the type.
        weight = linear.weight.detach().float()
        largest = weight.abs().amax(1, keepdim=True).clamp(min=1e-12)
        scale = largest / torch.finfo(torch.float8_e4m3fn).max
        self.register_buffer("weight", (weight / scale).to(torch.float8_e4m3fn))
        self.register_buffer("scale", scale.t().contiguous())  # (1, outputs)

    @torch.no_grad()
    def forward(self, x):
        y, scale = rmsnorm.rms_norm_fp8(x, self.norm_weight, self.eps, "row")
        return torch._scaled_mm(
            y, self.weight.t(), scale_a=scale[:, None], scale_b=self.scale, bias=self.bias,
            out_dtype=torch.bfloat16)


def main():
    if len(sys.argv) > 1:
        rmsnorm.load(sys.argv[1])
    torch.manual_seed(1)
    options = {"device": "cuda", "dtype": torch.bfloat16}
    norm = torch.nn.RMSNorm(4096, eps=1e-6, **options)
    linear = torch.nn.Linear(4096, 1024, **options)
    x = torch.randn(128, 4096, **options)
    with torch.no_grad():
        expected = linear(norm(x)).float()
        difference = NormedLinear(norm, linear)(x).float() - expected
    error = (difference.square().mean() / expected.square().mean()).sqrt().item()
    assert error < 0.05, f"the results differ by {error:.1%}"
    print(f"128 x 4096 times 4096 x 1024: 8 bits differ from 16 by {error:.1%}, root mean square")


if __name__ == "__main__":
    main()
