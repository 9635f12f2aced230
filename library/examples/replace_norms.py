#!/usr/bin/env python3
"""A model that has been loaded gets librmsnorm's norms in place of its own: only the class changes,
and the parameters stay where they are.

    library/examples/replace_norms.py [LIBRARY]

LIBRARY is a librmsnorm.so; without it, that of the installed package is loaded.
"""

import sys

import torch

import rmsnorm


def replace_norms(model):
    """Those of torch.nn; how many there were. For a model with a class of its own, that is the class
    to look for: it needs the attributes `weight` and `eps`, and `normalized_shape`."""
    norms = [module for module in model.modules() if type(module) is torch.nn.RMSNorm]
    for module in norms:
        module.__class__ = rmsnorm.RMSNorm
    return len(norms)


def main():
    if len(sys.argv) > 1:
        rmsnorm.load(sys.argv[1])
    torch.manual_seed(1)
    nn = torch.nn
    layers = [layer for _ in range(4) for layer in (nn.RMSNorm(512), nn.Linear(512, 512), nn.SiLU())]
    model = nn.Sequential(*layers, nn.RMSNorm(512)).to("cuda", torch.bfloat16)
    x = torch.randn(64, 512, device="cuda", dtype=torch.bfloat16)
    with torch.no_grad():
        before = model(x)
        count = replace_norms(model)
        torch.testing.assert_close(model(x), before, rtol=0.05, atol=0.05)
    print(f"{count} norms replaced; the model's result is the same but for roundings")


if __name__ == "__main__":
    main()
