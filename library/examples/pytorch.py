#!/usr/bin/env python3
"""librmsnorm in PyTorch: norms tensors of the GPU on PyTorch's current stream, and compares the
results with torch.nn.functional.rms_norm, and the gradients with those of autograd in fp64.

    library/examples/pytorch.py [LIBRARY]    (default: build/cuda/library/librmsnorm.so)

Ends with 0 and one line, or with 1 and what is wrong.
"""

import pathlib
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]
EPS = 1e-6


def compare(torch, rmsnorm, dtype):
    """Several tensors of a type, one after the other; how many there were."""
    rms_norm = torch.nn.functional.rms_norm
    same = torch.testing.assert_close
    device = torch.device("cuda")
    count = 0

    # Rows of any length, with a weight and without.
    for rows, hidden in ((64, 4096), (513, 769), (7, 12289), (3, 70001), (5, 1), (0, 128)):
        x = torch.randn(rows, hidden, device=device, dtype=dtype)
        weight = torch.randn(hidden, device=device, dtype=dtype)
        same(rmsnorm.rms_norm(x, weight, EPS), rms_norm(x, (hidden,), weight, EPS))
        same(rmsnorm.rms_norm(x, None, EPS), rms_norm(x, (hidden,), None, EPS))
        count += 2

    # Queries and keys as an attention layer has them: parts of one tensor; normed in place, in one
    # launch.
    qkv = torch.randn(99, 6, 128, device=device, dtype=dtype)
    q, k, v = qkv.split((4, 1, 1), dim=1)
    weights = [torch.randn(128, device=device, dtype=dtype) for _ in range(2)]
    expected = [rms_norm(part, (128,), weight, EPS) for part, weight in zip((q, k), weights)]
    untouched = v.clone()
    rmsnorm.rms_norm_pair(q, weights[0], k, weights[1], EPS, out=(q, k))
    same(q, expected[0])
    same(k, expected[1])
    same(v, untouched, rtol=0, atol=0)
    count += 1

    # A residual: the fp32 sum is normed, and stored rounded.
    for rows, hidden in ((64, 4096), (7, 8192), (513, 769)):
        x, residual = (torch.randn(rows, hidden, device=device, dtype=dtype) for _ in range(2))
        weight = torch.randn(hidden, device=device, dtype=dtype)
        total = x.float() + residual.float()
        y = rmsnorm.residual_add(x, residual, weight, EPS)
        same(y, rms_norm(total, (hidden,), weight.float(), EPS).to(dtype))
        same(residual, total.to(dtype), rtol=0, atol=0)
        count += 1

    # On a stream of its own, whose work comes after that of the tensors' stream.
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    x = torch.randn(1000, 4096, device=device, dtype=dtype)
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        y = rmsnorm.rms_norm(x, None, EPS)
    stream.synchronize()
    same(y, rms_norm(x, (4096,), None, EPS))
    count += 1

    # In a CUDA graph.
    y = torch.empty_like(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        rmsnorm.rms_norm(x, None, EPS, out=y)
    x.copy_(torch.randn_like(x))
    graph.replay()
    same(y, rms_norm(x, (4096,), None, EPS))
    count += 1

    # Both passes of training.
    for rows, hidden in ((64, 4096), (100, 769), (7, 20000), (129, 128)):
        x, dy = (torch.randn(rows, hidden, device=device, dtype=dtype) for _ in range(2))
        weight = torch.randn(hidden, device=device, dtype=dtype)
        inputs = [tensor.double().requires_grad_() for tensor in (x, weight)]
        expected = rms_norm(inputs[0], (hidden,), inputs[1], EPS)
        gradients = torch.autograd.grad(expected, inputs, dy.double())
        y, rstd = rmsnorm.rms_norm_rstd(x, weight, EPS)
        same(y, expected.detach().to(dtype))
        for got, gradient in zip(rmsnorm.backward(dy, x, weight, rstd), gradients):
            same(got, gradient.to(dtype))
        count += 3
    return count


def main():
    path = sys.argv[1] if len(sys.argv) > 1 else str(TOP / "build/cuda/library/librmsnorm.so")
    if not pathlib.Path(path).exists():
        return f"there is no library {path}: cmake --build --preset cuda --target rmsnorm builds it"
    try:
        import torch
    except ImportError:
        return "PyTorch is not installed: pip install torch"
    if not torch.cuda.is_available():
        return "PyTorch sees no GPU"

    sys.path.insert(0, str(TOP / "library/python"))
    import rmsnorm

    try:
        rmsnorm.load(path)
    except (OSError, RuntimeError) as reason:
        return f"{path} cannot be loaded: {reason}"
    torch.manual_seed(1)
    count = 0
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        count += compare(torch, rmsnorm, dtype)
    version = ".".join(map(str, rmsnorm.version()))
    print(f"librmsnorm {version}: {count} results agree with PyTorch {torch.__version__}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
