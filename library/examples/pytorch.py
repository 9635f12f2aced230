#!/usr/bin/env python3
"""librmsnorm in PyTorch: norms tensors of the GPU and compares the results with those of
torch.nn.functional.rms_norm and the gradients with those of autograd in fp64. Then a small language
model changes its norms for librmsnorm's, is trained, and writes what it would write with its own.

    library/examples/pytorch.py [LIBRARY]

LIBRARY is a librmsnorm.so, for this checkout's Python files; without it, the installed package is
used. Ends with 0 and what was found, or with 1 and what is wrong.
"""

import copy
import pathlib
import sys
import time

PYTHON = pathlib.Path(__file__).resolve().parents[1] / "python"
EPS = 1e-6
TOKENS = 61


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
        rmsnorm.fused_add_rms_norm_(x, residual, weight, EPS)
        same(x, rms_norm(total, (hidden,), weight.float(), EPS).to(dtype))
        same(residual, total.to(dtype), rtol=0, atol=0)
        count += 1

    # The same with a residual in fp32, beside any x.
    x, weight = (torch.randn(*shape, device=device, dtype=dtype) for shape in ((64, 4096), (4096,)))
    residual = torch.randn(64, 4096, device=device)
    total = x.float() + residual
    rmsnorm.fused_add_rms_norm_(x, residual, weight, EPS)
    same(x, rms_norm(total, (4096,), weight.float(), EPS).to(dtype))
    same(residual, total, rtol=0, atol=0)
    count += 1

    # Four dimensions as an attention layer has them, with a weight for each head, of any type; and
    # the gradients, of which the sum's is expanded.
    for weight_dtype in (torch.float32, torch.float16, torch.bfloat16):
        x = torch.randn(3, 4, 50, 128, device=device, dtype=dtype).transpose(1, 2)
        weight = torch.randn(4, 128, device=device, dtype=weight_dtype)
        results = []
        for norm, inputs in (
                (lambda x, weight: rmsnorm.rms_norm(x, weight, EPS), (x, weight)),
                (lambda x, weight: rms_norm(x, (128,), None, EPS) * weight,
                 (x.double(), weight.double()))):
            inputs = [tensor.requires_grad_() for tensor in inputs]
            y = norm(*inputs)
            dx, dweight = torch.autograd.grad(y.sum(), inputs)
            results.append([y.detach().to(dtype), dx.to(dtype), dweight.to(weight_dtype)])
        same(*results)
        count += 3

    # On a stream of its own, whose work comes after that of the tensors' stream.
    stream = torch.cuda.Stream()
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

    # Training.
    for shape in ((64, 4096), (10, 10, 769), (7, 20000), (129, 128)):
        x, dy = (torch.randn(shape, device=device, dtype=dtype) for _ in range(2))
        weight = torch.randn(shape[-1], device=device, dtype=dtype)
        results = []
        for norm, inputs in (
                (lambda x, weight: rmsnorm.rms_norm(x, weight, EPS), (x, weight)),
                (lambda x, weight: rms_norm(x, weight.shape, weight, EPS),
                 (x.double(), weight.double()))):
            inputs = [tensor.requires_grad_() for tensor in inputs]
            y = norm(*inputs)
            gradients = torch.autograd.grad(y, inputs, dy.to(y.dtype))
            results.append([result.detach().to(dtype) for result in (y, *gradients)])
        same(*results)
        count += 3
    return count


def compare_gated(torch, rmsnorm, dtype):
    """Norms with a gate, forwards and backwards; how many results there were."""
    silu = torch.nn.functional.silu
    device = torch.device("cuda")
    count = 0

    def theirs(x, z, weight, gate, groups):
        normed = x * silu(z) if gate == "first" else x
        normed = normed.unflatten(-1, (groups, -1))
        normed = torch.nn.functional.rms_norm(normed, normed.shape[-1:], None, EPS).flatten(-2)
        return normed * weight * (1 if gate == "first" else silu(z))

    for shape, groups in (((16, 32, 128), 1), ((7, 8192), 8), ((129, 769), 1)):
        for gate in ("last", "first"):
            # z as models have it: a part of a wider tensor.
            both = torch.randn(*shape[:-1], 2 * shape[-1], device=device, dtype=dtype)
            x, dy = (torch.randn(shape, device=device, dtype=dtype) for _ in range(2))
            weight = torch.randn(shape[-1], device=device, dtype=dtype)
            results = []
            for norm, to in (
                    (lambda x, z, w: rmsnorm.rms_norm_gated(
                        x, z, w, EPS, gate=gate, groups=groups), dtype),
                    (lambda x, z, w: theirs(x, z, w, gate, groups), torch.float64)):
                z = both.to(to)[..., shape[-1]:].detach()
                inputs = [t.detach().requires_grad_() for t in (x.to(to), z, weight.to(to))]
                y = norm(*inputs)
                gradients = torch.autograd.grad(y, inputs, dy.to(to))
                results.append([result.detach().to(dtype) for result in (y, *gradients)])
            torch.testing.assert_close(*results)
            count += 4
    return count


def compare_rotated(torch, rmsnorm, dtype):
    """Norms with a rotation, in place and stored in caches; how many results there were."""
    device = torch.device("cuda")
    count = 0

    def theirs(x, weight, cos, sin, rotation):
        n = torch.nn.functional.rms_norm(x.double(), x.shape[-1:], weight.double(), EPS)
        n, rest = n.tensor_split([2 * cos.shape[-1]], -1)
        a, b = n.chunk(2, -1) if rotation == "halves" else (n[..., ::2], n[..., 1::2])
        both = a * cos - b * sin, b * cos + a * sin
        n = torch.cat(both, -1) if rotation == "halves" else torch.stack(both, -1).flatten(-2)
        return torch.cat((n, rest), -1).to(dtype)

    for tokens, head_dim, rotary_dim in (
            (3, 128, 128), (1000, 128, 64), (77, 256, 256), (9, 80, 20)):
        for rotation in ("halves", "interleaved"):
            heads = 32, 8, 8
            packed = torch.randn(tokens, sum(heads), head_dim, device=device, dtype=dtype)
            q, k, v = packed.split(heads, 1)
            q_weight, k_weight = torch.randn(2, head_dim, device=device, dtype=dtype)
            angles = torch.rand(4096, rotary_dim // 2, device=device) * 1000
            cos, sin = angles.cos(), angles.sin()
            positions = torch.randint(4096, (tokens,), device=device)
            of_token = [table[positions][:, None].double() for table in (cos, sin)]
            expected = [theirs(x, weight, *of_token, rotation)
                        for x, weight in ((q, q_weight), (k, k_weight))]
            pages = tokens // 16 + 2
            caches = torch.zeros(2, pages, 8, 16, head_dim, device=device, dtype=dtype)
            slots = torch.randperm(16 * pages, device=device)[:tokens]
            got = rmsnorm.rms_norm_rotated_(
                q, q_weight, k, k_weight, cos, sin, positions, EPS, v=v, k_cache=caches[0],
                v_cache=caches[1], slots=slots, cache_layout="HND", rotation=rotation)
            torch.testing.assert_close(list(got), expected)
            stored = caches.transpose(2, 3).reshape(2, -1, 8, head_dim)
            assert torch.equal(stored[:, slots], torch.stack((k, v)))
            stored[:, slots] = 0
            assert not stored.any()
            count += 4
    return count


def model_of(torch):
    """A small language model of torch.nn's parts."""
    nn = torch.nn

    class Add(nn.Sequential):
        """x + the rest of it."""

        def forward(self, x):
            return x + super().forward(x)

    class Attention(nn.Module):
        def __init__(self, hidden, heads):
            super().__init__()
            self.heads = heads
            self.qkv = nn.Linear(hidden, 3 * hidden)
            self.out = nn.Linear(hidden, hidden)

        def forward(self, x):
            q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
            y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.out(y.transpose(1, 2).flatten(2))

    def block(hidden):
        return nn.Sequential(
            Add(nn.RMSNorm(hidden, eps=EPS), Attention(hidden, 4)),
            Add(nn.RMSNorm(hidden, eps=EPS), nn.Linear(hidden, 4 * hidden), nn.GELU(),
                nn.Linear(4 * hidden, hidden)))

    hidden = 256
    return nn.Sequential(
        nn.Embedding(TOKENS, hidden), block(hidden), block(hidden), nn.RMSNorm(hidden, eps=EPS),
        nn.Linear(hidden, TOKENS))


def exchange_norms(torch, model, norm):
    for module in model.modules():
        if isinstance(module, torch.nn.RMSNorm):
            module.__class__ = norm


def sentences(torch, device):
    """Of each token, the next one follows."""
    first = torch.arange(TOKENS, device=device)
    tokens = [first]
    for _ in range(32):
        tokens.append((tokens[-1] * 7 + 3) % TOKENS)
    return torch.stack(tokens, dim=1)


def train(torch, model, tokens, steps):
    """The loss at the end, and the milliseconds of a step."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(steps):
        if step == steps // 2:  # what is compiled and allocated has been by now
            loss.item()
            begin = time.perf_counter()
        logits = model(tokens[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item(), (time.perf_counter() - begin) * 1e3 / (steps - steps // 2)


def decode(torch, model, tokens, count):
    """The tokens that follow a beginning, the likeliest each time, and the milliseconds of one."""
    with torch.no_grad():
        for _ in range(2):  # the second time is measured: what a length needs once has been done
            written = tokens
            begin = time.perf_counter()
            for _ in range(count):
                written = torch.cat((written, model(written)[:, -1:].argmax(-1)), dim=1)
            written.sum().item()  # waits for the last
    return written, (time.perf_counter() - begin) * 1e3 / count


def compare_models(torch, rmsnorm, device):
    """Trains a model with its own norms, and a copy of it with others; what to say of it."""
    theirs = model_of(torch).to(device)
    ours = copy.deepcopy(theirs)
    exchange_norms(torch, ours, rmsnorm.RMSNorm)
    tokens = sentences(torch, device)
    losses, times = zip(*(
        train(torch, model, tokens, 100)
        for model in (theirs, ours, torch.compile(copy.deepcopy(ours), fullgraph=True))))
    assert max(losses) < 0.1, f"a model has learned nothing: the losses are {losses}"

    ours_wrote, our_time = decode(torch, ours, tokens[:, :4], 20)
    exchange_norms(torch, ours, torch.nn.RMSNorm)
    theirs_wrote, their_time = decode(torch, ours, tokens[:, :4], 20)
    assert torch.equal(ours_wrote, theirs_wrote), \
        "the model writes other tokens than with PyTorch's norms"
    return (f"a model was trained and wrote the same with both norms; a step took {times[0]:.2f} ms "
            f"with PyTorch's, {times[1]:.2f} with librmsnorm's, {times[2]:.2f} compiled; a token "
            f"took {their_time:.2f} ms with PyTorch's, {our_time:.2f} with librmsnorm's")


def main():
    try:
        import torch
    except ImportError:
        return "PyTorch is not installed: pip install torch"
    if not torch.cuda.is_available():
        return "PyTorch sees no GPU"
    if len(sys.argv) > 1:
        sys.path.insert(0, str(PYTHON))
    try:
        import rmsnorm
    except ModuleNotFoundError:
        return "rmsnorm is not installed: pip install ./library"
    try:
        if len(sys.argv) > 1:
            rmsnorm.load(sys.argv[1])
        version = ".".join(map(str, rmsnorm.version()))
    except (OSError, RuntimeError) as reason:
        return f"librmsnorm cannot be loaded: {reason}"

    torch.manual_seed(1)
    count = 0
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        for compare_some in (compare, compare_gated, compare_rotated):
            count += compare_some(torch, rmsnorm, dtype)
    print(f"librmsnorm {version}: {count} results agree with PyTorch {torch.__version__}")
    print(compare_models(torch, rmsnorm, torch.device("cuda")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
