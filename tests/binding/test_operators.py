"""library/python/rmsnorm: its operators, with PyTorch's arithmetic in the library's place.

Run by CTest; skipped (exit code 4) where PyTorch is not installed. No GPU is needed: what the
library itself is handed is for test_binding.py.
"""

import contextlib
import functools
import io
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

os.environ["CUDA_VISIBLE_DEVICES"] = ""  # before PyTorch looks for a GPU: none is needed
try:
    import torch
except ImportError:
    print("skipped: PyTorch is not installed")
    sys.exit(4)
from torch._subclasses import FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / "library/python"
sys.path.insert(0, str(PYTHON))
import rmsnorm  # noqa: E402
from mxfp8 import in_tiles  # noqa: E402
from rmsnorm.binding import BLOCK, GIVEN, GROUP, ROW  # noqa: E402

EPS = 1e-6
CALLS = []
TOLERANCE = {torch.bfloat16: {"rtol": 2**-8, "atol": 1e-6}, torch.float32: {"rtol": 1e-5, "atol": 1e-6}}
STRIDES = []  # of each dy
NORM = torch.ops.rmsnorm
trace = functools.partial(torch.compile, backend="aot_eager")  # makes no code


def scaled(normed, weight, weight_bias):
    return normed if weight is None else normed * (weight + weight_bias)


def write(target, value):
    """As the library does it, of which autograd sees nothing."""
    target.data.copy_(value)
    return target


def norm(x, weight, eps, out=None, weight_bias=0.0):
    CALLS.append("rms_norm")
    rstd = (x.square().mean(-1, keepdim=True) + eps).rsqrt()
    y = scaled(x * rstd, weight, weight_bias).to(x.dtype)
    return y if out is None else write(out, y)


def norm_rstd(x, weight, eps, out=None, weight_bias=0.0):
    y = norm(x, weight, eps, None, weight_bias)
    CALLS[-1] = "rms_norm_rstd"
    return y, (x.float().square().mean(-1) + eps).rsqrt()


def backward(dy, x, weight, rstd, out, weight_bias=0.0, workspace=None):
    CALLS.append("backward" if out[1] is not None else "backward without dweight")
    assert dy.dim() <= 4 and dy.stride(-1) in (0, 1) or dy.is_contiguous()
    STRIDES.append(dy.stride())
    normed, g = x * rstd[..., None], scaled(dy, weight, weight_bias)
    out[0].copy_(rstd[..., None] * (g - normed * (g * normed).mean(-1, keepdim=True)))
    if out[1] is not None:
        out[1].copy_((dy * normed).flatten(0, -1 - out[1].dim()).sum(0))
    return out


def all_reduce_residual_add(x, residual, weight, eps, ranks, out, weight_bias=0.0):
    """Of two ranks that have the same."""
    residual_add(2 * x, residual, weight, eps, out, weight_bias)
    CALLS[-1] = "all_reduce_residual_add"
    return out


def residual_add(x, residual, weight, eps, out=None, weight_bias=0.0):
    y = norm(write(residual, x + residual), weight, eps, out, weight_bias)
    CALLS[-1] = "residual_add"
    return y


def norm_fp8(x, weight, eps, y, scale, scaling, residual=None, limit=None, norm_out=None,
             rounds_twice=False, weight_bias=0.0):
    total = x if residual is None else write(residual, x + residual)
    normed = norm(total, weight, eps, None, weight_bias)
    CALLS[-1] = "rms_norm_fp8" + " twice" * rounds_twice
    if norm_out is not None:
        write(norm_out, normed)
    if scaling == GIVEN:
        divisor = scale.expand(x.shape[:-1])[..., None]
    else:
        width = {GROUP: 128, BLOCK: 32}.get(scaling, x.shape[-1])
        parts = normed.float().abs().split(width, -1)
        largest = torch.stack([part.amax(-1) for part in parts], -1)
        if limit is not None:
            largest = largest.clamp(max=limit)
        chosen = (largest / torch.finfo(y.dtype).max).clamp(min=1e-30)
        if scale.dtype == torch.uint8:
            exponents = chosen.log2().ceil()
            chosen, stored = exponents.exp2(), (exponents + 127).to(torch.uint8)
            write(scale, in_tiles(stored) if scale.dim() == 1 else stored)
        else:
            write(scale, chosen[..., 0] if scaling == ROW else chosen)
        divisor = chosen.repeat_interleave(width, -1)[..., :x.shape[-1]]
    most = torch.finfo(y.dtype).max
    write(y, (normed / divisor).clamp(-most, most).to(y.dtype))


def gate_of(x, z, weight, eps, gates_first, rounds_twice, weight_bias):
    gate = torch.nn.functional.silu(z)
    rounded = x.dtype if rounds_twice else torch.float64
    normed = x * gate if gates_first else x
    normed = (normed * (normed.square().mean(-1, keepdim=True) + eps).rsqrt()).to(rounded)
    y = scaled(normed, weight, weight_bias)
    return (y if gates_first else y * gate).to(x.dtype)


def norm_gated(x, z, weight, eps, out=None, gate=0, rounds_twice=False, weight_bias=0.0):
    CALLS.append("rms_norm_gated" + " first" * gate + " twice" * rounds_twice)
    return gate_of(x.detach(), z.detach(), weight, eps, gate, rounds_twice, weight_bias).detach()


def backward_gated(dy, x, z, weight, eps, out, gate=0, weight_bias=0.0):
    CALLS.append("backward_gated" if out[2] is not None else "backward_gated without dweight")
    s = torch.sigmoid(z)
    silu, slope = z * s, s * (1 + z * (1 - s))
    u = x * silu if gate else x
    rstd = (u.square().mean(-1, keepdim=True) + eps).rsqrt()
    n, g = u * rstd, scaled(dy, weight, weight_bias)
    of_norm = g if gate else g * silu
    du = rstd * (of_norm - n * (of_norm * n).mean(-1, keepdim=True))
    out[0].copy_(du * silu if gate else du)
    out[1].copy_((du * x if gate else g * n) * slope)
    if out[2] is not None:
        of_weight = dy * n if gate else dy * n * silu
        out[2].copy_(of_weight.flatten(0, -1 - out[2].dim()).sum(0))
    return out


def turned(x, weight, cos, sin, positions, eps, interleaved, rounds_twice, weight_bias):
    """As a model does it, one step after the other."""
    normed = scaled(x * (x.square().mean(-1, keepdim=True) + eps).rsqrt(), weight, weight_bias)
    if positions is None:
        positions = torch.arange(x.shape[:-2].numel()).view(x.shape[:-2])
    c, s = cos[positions][..., None, :], sin[positions][..., None, :]
    head, rest = normed.split((2 * cos.shape[1], x.shape[-1] - 2 * cos.shape[1]), -1)
    a, b = (head[..., ::2], head[..., 1::2]) if interleaved else head.chunk(2, -1)
    both = a * c - b * s, b * c + a * s
    head = torch.stack(both, -1).flatten(-2) if interleaved else torch.cat(both, -1)
    return torch.cat((head, rest), -1).to(x.dtype)


def norm_rotated(q, q_weight, k, k_weight, cos, sin, positions, eps, out=None, v=None, k_cache=None,
                 v_cache=None, slots=None, rotation=0, rounds_twice=False, weight_bias=0.0):
    CALLS.append("rms_norm_rotated" + " interleaved" * rotation + " twice" * rounds_twice)
    options = cos, sin, positions, eps, rotation, rounds_twice, weight_bias
    results = turned(q, q_weight, *options), turned(k, k_weight, *options)
    for cache, heads in ((k_cache, results[1]), (v_cache, v)):
        if cache is not None:
            for slot, one in zip(slots.flatten().tolist(), heads.flatten(0, -3)):
                if slot >= 0:
                    cache.data[slot // cache.shape[1], slot % cache.shape[1]] = one
    return results if out is None else tuple(map(write, out, results))


STAND_INS = {"all_reduce_residual_add": all_reduce_residual_add, "rms_norm": norm, "rms_norm_rstd": norm_rstd, "backward": backward,
             "residual_add": residual_add, "rms_norm_fp8": norm_fp8,
             "rms_norm_gated": norm_gated, "backward_gated": backward_gated,
             "rms_norm_rotated": norm_rotated}
E4M3 = torch.float8_e4m3fn


def random(*shape, grad=False, **options):
    return torch.randn(*shape, **options).requires_grad_(grad)


def compiled(function):
    """What torch.compile makes of it: nothing is left to Python, and sizes may change."""
    torch._dynamo.reset()
    return trace(function, fullgraph=True, dynamic=True)


class Operators(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)
        CALLS.clear()
        STRIDES.clear()
        patches = contextlib.ExitStack()
        self.addCleanup(patches.close)
        for name, stand_in in STAND_INS.items():
            patches.enter_context(mock.patch.object(rmsnorm.binding, name, stand_in))

    def test_opcheck_finds_nothing(self):
        x, dy, weight, rstd = random(3, 5, 8), random(3, 5, 8), random(8), torch.rand(3, 5)
        wanted = random(3, 5, 8, grad=True), random(8, grad=True)
        heads = random(2, 3, 5, 8, grad=True), random(5, 8, grad=True)
        parts = x.transpose(0, 1)
        for operator, arguments in [
            (NORM.rms_norm, (x, weight, EPS, 1.0)),
            (NORM.rms_norm, (parts, None, EPS, 0.0)),
            (NORM.rms_norm_out, (x, weight, dy, EPS, 0.0)),
            (NORM.fused_add_rms_norm_, (x, dy, weight, EPS, 0.0)),
            (NORM.rms_norm_rstd, (*wanted, EPS, 1.0)),
            (NORM.rms_norm_rstd, (parts, None, EPS, 0.0)),
            (NORM.rms_norm_rstd, (wanted[0], None, EPS, 0.0)),
            (NORM.rms_norm_rstd, (*heads, EPS, 0.0)),
            (NORM.rms_norm, (heads[0].detach().transpose(1, 2), random(3, 8), EPS, 0.0)),
            (NORM.fused_add_rms_norm_, (x.bfloat16(), dy, weight, EPS, 0.0)),
            (NORM.rms_norm_backward, (dy, x, weight, rstd, 1.0, True)),
            (NORM.rms_norm_backward, (dy, x, random(5, 8), rstd, 1.0, True)),
            (NORM.rms_norm_backward, (dy, random(3, 5, 8), None, rstd, 0.0, False)),
        ]:
            with self.subTest(operator=operator, arguments=[type(a) for a in arguments]):
                torch.library.opcheck(operator, arguments)

    def test_opcheck_finds_nothing_in_8_bits(self):
        x, residual, weight, one = random(3, 5, 192), random(3, 5, 192), random(192), torch.rand(1)
        for operator, tensors in [(NORM.rms_norm_fp8, (x,)),
                                  (NORM.fused_add_rms_norm_fp8_, (x, residual))]:
            for scale, limit, scaling, layout, are_powers, wants_norm in [
                (one, None, GIVEN, "rows", False, True), (None, one, ROW, "rows", False, False),
                (None, None, GROUP, "rows", True, True), (None, one, GROUP, "columns", False, False),
                (None, one, BLOCK, "rows", True, True), (None, None, BLOCK, "tiles", True, False)
            ]:
                arguments = (*tensors, weight, scale, limit, EPS, 1.0, E4M3, scaling, layout,
                             are_powers, True, wants_norm)
                with self.subTest(operator=operator, scaling=scaling, layout=layout):
                    torch.library.opcheck(
                        operator, arguments, test_utils=("test_schema", "test_faketensor"))

    def test_a_rotation_has_its_operators_in_place_and_with_caches(self):
        cos, sin, weight = random(9, 3), random(9, 3), random(8)
        positions, slots = torch.tensor([[8, 0, 3], [1, 8, 2]]), torch.tensor([3, -1, 0, 7, -5, 4])

        def new_caches():
            return torch.zeros(2, 4, 2, 8), torch.zeros(2, 4, 2, 8)

        q, k, v = random(2, 3, 7, 8).split((3, 2, 2), 2)
        for caches in ((v, *new_caches(), slots), (None, None, None, None)):
            arguments = (weight, k.clone(), None, cos, sin, positions, *caches, EPS, 0.0, False, True)
            for operator, of_q in [(NORM.rms_norm_rotated, q), (NORM.rms_norm_rotated_, q.clone())]:
                torch.library.opcheck(operator, (of_q, *arguments))
        for interleaved in (False, True):
            options = cos, sin, positions, EPS, interleaved, False, 1.0
            expected = turned(q, weight, *options), turned(k, random(1) * 0 + weight, *options)
            kept = slots >= 0
            for make in (lambda function: function, compiled):
                for name in ("rms_norm_rotated", "rms_norm_rotated_"):
                    k_cache, v_cache = (one.transpose(1, 2).contiguous() for one in new_caches())
                    packed = torch.cat((q, k, v), 2)

                    def run(packed, k_cache, v_cache):
                        q, k, v = packed.split((3, 2, 2), 2)
                        return getattr(rmsnorm, name)(
                            q, weight, k, weight, cos, sin, positions, EPS, v=v, k_cache=k_cache,
                            v_cache=v_cache, slots=slots, cache_layout="HND", weight_bias=1.0,
                            rotation="interleaved" if interleaved else "halves")

                    version = k_cache._version
                    got = make(run)(packed, k_cache, v_cache)
                    torch.testing.assert_close(tuple(got), expected)
                    self.assertGreater(k_cache._version, version)
                    first = (q, k) if name == "rms_norm_rotated" else expected
                    torch.testing.assert_close(packed, torch.cat((*first, v), 2))
                    for cache, heads in ((k_cache, expected[1]), (v_cache, v)):
                        by_slot = torch.zeros(8, 2, 8)
                        by_slot[slots[kept]] = heads.flatten(0, 1)[kept]
                        torch.testing.assert_close(cache.transpose(1, 2).reshape(8, 2, 8), by_slot)
        CALLS.clear()
        rmsnorm.rms_norm_rotated(q, None, k, None, cos, sin, None, EPS, rounding="twice")
        self.assertEqual(CALLS, ["rms_norm_rotated twice"])
        for options, sentence in [
            ({"rotation": "pairs"}, "rotation is 'pairs': it needs to be 'halves' or 'interleaved'"),
            ({"rounding": "never"}, "rounding is 'never'"),
            ({"cache_layout": "DHN"}, "cache_layout is 'DHN'")
        ]:
            with self.assertRaisesRegex(ValueError, sentence):
                rmsnorm.rms_norm_rotated(q, None, k, None, cos, sin, None, EPS, **options)
        for call in (rmsnorm.rms_norm_rotated, rmsnorm.rms_norm_rotated_):
            with self.assertRaisesRegex(RuntimeError, "with a rotation record no gradient"):
                call(q.clone().requires_grad_() * 1, None, k, None, cos, sin, None, EPS)

    def test_a_sum_over_ranks_takes_the_kernel_or_torch_distributed(self):
        calls = []

        def call_ranks(name, *arguments):
            calls.append(name)
            if name == "create":
                arguments[-1]._obj.value = 4096

        with mock.patch.object(rmsnorm.binding, "call_ranks", call_ranks), \
                tempfile.TemporaryDirectory() as folder:
            torch.distributed.init_process_group(
                "gloo", init_method=f"file://{folder}/store", rank=0, world_size=1)
            self.addCleanup(torch.distributed.destroy_process_group)
            buffer = torch.zeros(16384 + 2 * 480, dtype=torch.uint8)
            ranks = rmsnorm.Ranks(buffers=[buffer])
            self.assertEqual((ranks.rank, ranks.ranks, ranks.room), (0, 1, 480))
            x, weight = random(3, 5, 8), random(8)
            for batch_invariant in (False, True):
                torch.library.opcheck(
                    NORM.all_reduce_residual_add,
                    (x, random(3, 5, 8), weight, EPS, 1.0, ranks.name, batch_invariant))
            for make in (lambda function: function, compiled):
                for rows, times, call in [(15, 2, "all_reduce_residual_add"), (16, 1, "residual_add")]:
                    x, residual = random(rows, 8), random(rows, 8)
                    total, version = times * x + residual, residual._version
                    CALLS.clear()
                    y = make(lambda x, residual: rmsnorm.all_reduce_residual_add(
                        x, residual, weight, EPS, ranks))(x, residual)
                    self.assertEqual(CALLS, [call])
                    torch.testing.assert_close(residual, total)
                    torch.testing.assert_close(y, norm(total, weight, EPS))
                    self.assertGreater(residual._version, version)
            with self.assertRaisesRegex(ValueError, r"shape \(16, 8\), for which the ranks' buffers"):
                rmsnorm.all_reduce_residual_add(x, residual, weight, EPS, ranks, batch_invariant=True)
            with self.assertRaisesRegex(RuntimeError, "all_reduce_residual_add records no gradient"):
                rmsnorm.all_reduce_residual_add(x, random(16, 8, grad=True) * 1, None, EPS, ranks)
            with self.assertRaisesRegex(ValueError, "buffers are 2: each of the 1 ranks needs one"):
                rmsnorm.Ranks(buffers=[buffer, buffer])
            with self.assertRaisesRegex(ValueError, "limit is 0: it needs to be more than 0"):
                rmsnorm.Ranks(buffers=[buffer], limit=0)
            ranks.status()
            ranks.close()
            with self.assertRaisesRegex(ValueError, "the ranks have been closed"):
                rmsnorm.all_reduce_residual_add(x, residual, weight, EPS, ranks)
        self.assertEqual(calls, ["create", "status", "destroy"])

    def test_a_gate_has_its_operators_gradients_and_groups(self):
        x, z, dy = (random(3, 5, 8) for _ in range(3))
        wanted = [random(3, 5, 8, grad=True), random(3, 5, 8, grad=True), random(8, grad=True)]
        for operator, arguments in [
            (NORM.rms_norm_gated, (x, z, random(8), EPS, 1.0, False, True)),
            (NORM.rms_norm_gated, (*wanted, EPS, 0.0, True, False)),
            (NORM.rms_norm_gated, (*wanted[:2], None, EPS, 0.0, False, False)),
            (NORM.rms_norm_gated_backward, (dy, x, z, random(5, 8), EPS, 1.0, False, True)),
            (NORM.rms_norm_gated_backward, (dy, x, z, None, EPS, 0.0, True, False)),
        ]:
            torch.library.opcheck(operator, arguments)
        for gate in ("last", "first"):
            expected = gate_of(*wanted, EPS, gate == "first", False, 0.0)
            gradients = torch.autograd.grad(expected, wanted, dy)
            for call in (rmsnorm.rms_norm_gated, compiled(rmsnorm.rms_norm_gated)):
                y = call(*wanted, EPS, gate=gate)
                torch.testing.assert_close(y, expected)
                torch.testing.assert_close(torch.autograd.grad(y, wanted, dy), gradients)
            both = random(3, 5, 16, grad=True)  # x and z are parts of one
            inputs = [*both.chunk(2, -1), wanted[2]]
            parts = [[t[..., k:k + 4] for t in inputs] for k in (0, 4)]
            expected = torch.cat(
                [gate_of(*part, EPS, gate == "first", False, 0.0) for part in parts], -1)
            halves = rmsnorm.rms_norm_gated(*inputs, EPS, gate=gate, groups=2)
            torch.testing.assert_close(halves, expected)
            torch.testing.assert_close(
                *(torch.autograd.grad(y, (both, wanted[2]), dy) for y in (halves, expected)))
        CALLS.clear()
        rmsnorm.rms_norm_gated(x, z, None, EPS, gate="first", rounding="twice")
        self.assertEqual(CALLS, ["rms_norm_gated first twice"])
        for options, sentence in [({"gate": "middle"}, "gate is 'middle': it needs to be"),
                                  ({"groups": 3}, "groups is 3: x has 8 columns"),
                                  ({"groups": 0}, "groups is 0: x has 8 columns")]:
            with self.assertRaisesRegex(ValueError, sentence):
                rmsnorm.rms_norm_gated(x, z, None, EPS, **options)
        with self.assertRaisesRegex(ValueError, "weight has 4 elements: it needs 8"):
            rmsnorm.rms_norm_gated(x, z, random(4), EPS, groups=2)
        with self.assertRaisesRegex(ValueError, r"z has the shape \(5, 3, 8\)"):
            rmsnorm.rms_norm_gated(x, z.reshape(5, 3, 8), None, EPS, groups=2)
        wide = random(2, 16386, grad=True)
        with self.assertRaisesRegex(ValueError, "x has 8193 columns in a norm"):
            rmsnorm.rms_norm_gated(wide, random(2, 16386), None, EPS, groups=2)

    def test_8_bits_times_their_scales_are_the_norm(self):
        for shape in ((4, 300), (2, 3, 300), (300,)):
            x, residual, weight = random(*shape), random(*shape), random(300)
            expected = norm(x, weight, EPS)
            for scale in ("row", "group", torch.tensor(0.02)):
                for dtype, part in ((E4M3, 2**-4), (torch.float8_e5m2, 2**-3)):
                    y, scales, normed = rmsnorm.rms_norm_fp8(
                        x, weight, EPS, scale, dtype=dtype, norm=True)
                    self.assertEqual((y.dtype, y.shape, y.device), (dtype, x.shape, x.device))
                    torch.testing.assert_close(normed, expected)
                    if scale == "group":
                        self.assertEqual(scales.shape, (*shape[:-1], 3))
                        scales = scales.repeat_interleave(128, -1)[..., :300]
                    elif scale == "row":
                        self.assertEqual(scales.shape, shape[:-1])
                        scales = scales[..., None]
                    else:
                        self.assertIs(scales, scale)
                    torch.testing.assert_close(
                        y.float() * scales, expected, rtol=1.01 * part, atol=0.01)
            total = x + residual
            y, scales = rmsnorm.fused_add_rms_norm_fp8_(x, residual, weight, EPS)
            torch.testing.assert_close(residual, total)
            other, _ = rmsnorm.rms_norm_fp8(total, weight, EPS)
            torch.testing.assert_close(y.float(), other.float())

    def test_scales_in_columns_lie_as_grouped_products_take_them(self):
        for shape in ((5, 300), (2, 3, 300)):
            x = random(*shape)
            _, scales = rmsnorm.rms_norm_fp8(x, None, EPS, "group", in_columns=True)
            self.assertEqual(scales.shape, (*shape[:-1], 3))
            self.assertEqual(scales.stride()[-2:], (1, 8))
            _, in_rows = rmsnorm.rms_norm_fp8(x, None, EPS, "group")
            self.assertTrue(in_rows.is_contiguous())
            torch.testing.assert_close(scales, in_rows)

    def test_scales_of_blocks_are_powers_of_two_in_rows_or_in_tiles(self):
        powers = getattr(torch, "float8_e8m0fnu", torch.uint8)
        for shape in ((130, 96), (2, 3, 256), (128,)):
            x, weight = random(*shape), random(shape[-1])
            y, scales, normed = rmsnorm.rms_norm_fp8(x, weight, EPS, "block", norm=True)
            self.assertEqual((scales.dtype, scales.shape), (powers, (*shape[:-1], shape[-1] // 32)))
            exponents = scales.view(torch.uint8).to(torch.float32) - 127
            torch.testing.assert_close(
                y.float() * exponents.exp2().repeat_interleave(32, -1), normed, rtol=2**-4,
                atol=0.01)
            other, tiled = rmsnorm.rms_norm_fp8(x, weight, EPS, "block", in_tiles=True)
            torch.testing.assert_close(other.float(), y.float())
            expected = in_tiles(scales.view(torch.uint8))
            self.assertEqual(tiled.dtype, powers)
            torch.testing.assert_close(tiled.view(torch.uint8), expected)
        _, scales = rmsnorm.rms_norm_fp8(random(5, 300), None, EPS, "group", powers=True)
        self.assertEqual((scales.dtype, scales.shape), (powers, (5, 3)))

    def test_8_bits_compile_to_one_graph_for_every_number_of_rows(self):
        def layer(x, residual, weight):
            y, scale = rmsnorm.rms_norm_fp8(x, weight, EPS, "group", in_columns=True)
            z, scales, normed = rmsnorm.fused_add_rms_norm_fp8_(
                x, residual, weight, EPS, rounding="twice", norm=True)
            return y.float() * scale, z.float() * scales[:, None], normed + residual

        graph = compiled(layer)
        weight = random(128)
        graph(random(3, 128), random(3, 128), weight)
        with torch._dynamo.config.patch(error_on_recompile=True):
            for rows in (5, 8, 1000):
                x, residual = random(rows, 128), random(rows, 128)
                copy = residual.clone()
                torch.testing.assert_close(graph(x, residual, weight), layer(x, copy, weight))
                torch.testing.assert_close(residual, copy)
        self.assertIn("rms_norm_fp8 twice", CALLS)

    def test_what_8_bits_cannot_do_is_a_sentence(self):
        x, one = random(4, 8), torch.ones(1)
        for error, sentence, call in [
            (ValueError, "scale is 'rows': it needs to be 'row' or 'group' or 'block'",
             lambda: rmsnorm.rms_norm_fp8(x, None, EPS, "rows")),
            (ValueError, "dtype is torch.int8: it needs to be torch.float8_e4m3fn or ",
             lambda: rmsnorm.rms_norm_fp8(x, None, EPS, dtype=torch.int8)),
            (ValueError, "rounding is 2: it needs to be 'once' or 'twice'",
             lambda: rmsnorm.rms_norm_fp8(x, None, EPS, rounding=2)),
            (ValueError, "limit is a tensor, and the scale is given: it needs to be None",
             lambda: rmsnorm.rms_norm_fp8(x, None, EPS, one, limit=one)),
            (ValueError, 'in_columns is True, which needs scale="group"',
             lambda: rmsnorm.rms_norm_fp8(x, None, EPS, in_columns=True)),
            (ValueError, 'in_tiles is True, which needs scale="block"',
             lambda: rmsnorm.rms_norm_fp8(x, None, EPS, "group", in_tiles=True)),
            (ValueError, 'powers is True, which needs scale="group"',
             lambda: rmsnorm.rms_norm_fp8(x, None, EPS, powers=True)),
            (RuntimeError, "record no gradient, which a tensor requires",
             lambda: rmsnorm.rms_norm_fp8(random(4, 8, grad=True), None, EPS)),
            (RuntimeError, "record no gradient, which a tensor requires",
             lambda: rmsnorm.fused_add_rms_norm_fp8_(x, random(4, 8), random(8, grad=True), EPS)),
        ]:
            with self.assertRaisesRegex(error, re.escape(sentence)):
                call()
        self.assertEqual(CALLS, [])

    def test_every_operator_is_checked(self):
        schemas = "".join((PYTHON / f"rmsnorm/{n}.py").read_text() for n in ("operators", "ranks"))
        defined = set(re.findall(r'"(\w+)\(Tensor', schemas))
        checked = set(re.findall(r"\(\s*NORM\.(\w+),", Path(__file__).read_text()))
        self.assertEqual(defined, checked)

    def test_gradients_are_those_of_differences_in_fp64(self):
        for shape in ((4, 8), (2, 3, 8), (2, 3, 2, 8)):
            x, residual = (random(*shape, grad=True, dtype=torch.float64) for _ in range(2))
            weight = random(8, grad=True, dtype=torch.float64)
            for function, inputs in [
                (lambda x, weight: rmsnorm.rms_norm(x, weight, EPS, weight_bias=1.0), (x, weight)),
                (lambda x: rmsnorm.rms_norm(x, None, EPS), (x,)),
                (lambda x: rmsnorm.rms_norm(x, weight.detach(), EPS), (x,)),
                (lambda weight: rmsnorm.rms_norm(x.detach(), weight, EPS), (weight,)),
                (lambda *inputs: rmsnorm.fused_add_rms_norm(*inputs, EPS), (x, residual, weight)),
            ]:
                self.assertTrue(torch.autograd.gradcheck(function, inputs, atol=1e-4))
            if len(shape) > 2:  # a weight for each head
                of_heads = random(*shape[-2:], grad=True, dtype=torch.float64)
                self.assertTrue(torch.autograd.gradcheck(
                    lambda *inputs: rmsnorm.rms_norm(*inputs, EPS), (x, of_heads), atol=1e-4))

    def test_a_residual_of_another_type_keeps_it_and_y_has_the_type_of_x(self):
        for dtype in (torch.bfloat16, torch.float32):
            for other in (torch.float16, torch.float32):
                x, weight = random(4, 8, dtype=dtype, grad=True), random(8, grad=True)
                residual = random(4, 8, dtype=other, grad=True)
                y, total = rmsnorm.fused_add_rms_norm(x, residual, weight, EPS)
                self.assertEqual((y.dtype, total.dtype), (dtype, other))
                exact = norm(total.detach().double(), weight.detach().double(), EPS)
                torch.testing.assert_close(y.detach().double(), exact, **TOLERANCE[dtype])
                (y.sum() + total.sum()).backward()
                self.assertEqual((x.grad.dtype, residual.grad.dtype), (dtype, other))

    def test_rstd_and_dweight_are_computed_only_where_they_are_needed(self):
        x, weight = random(4, 8, grad=True), random(8, grad=True)
        rmsnorm.rms_norm(x, weight, EPS).sum().backward()
        rmsnorm.rms_norm(x, weight.detach(), EPS).sum().backward()
        with torch.no_grad():
            rmsnorm.rms_norm(x, weight, EPS)
        rmsnorm.rms_norm(x.detach(), None, EPS)
        self.assertEqual(
            CALLS, ["rms_norm_rstd", "backward", "rms_norm_rstd", "backward without dweight",
                    "rms_norm", "rms_norm"])

    def test_the_gradient_of_y_may_lie_in_memory_in_any_way(self):
        for shape in ((4, 8), (2, 3, 8), (2, 3, 2, 8), (8,)):
            x = random(*shape, grad=True)
            other = random(*shape).transpose(0, -1).contiguous()
            for loss in (torch.sum, lambda y: y[..., ::2].square().sum(),
                         lambda y: (y.transpose(0, -1) * other).sum()):
                (got,) = torch.autograd.grad(loss(rmsnorm.rms_norm(x, None, EPS)), x)
                expected = torch.nn.functional.rms_norm(x, shape[-1:], None, EPS)
                torch.testing.assert_close(got, torch.autograd.grad(loss(expected), x)[0])

    def test_an_expanded_gradient_of_y_is_not_copied(self):
        for shape in ((4, 8), (2, 3, 8), (2, 3, 2, 8)):
            rmsnorm.rms_norm(random(*shape, grad=True), None, EPS).sum().backward()
            self.assertEqual(set(STRIDES.pop()), {0})

    def test_a_model_compiles_to_one_graph_for_every_number_of_rows(self):
        model = torch.nn.Sequential(
            torch.nn.Linear(8, 8), rmsnorm.RMSNorm(8), torch.nn.Unflatten(-1, (2, 4)),
            rmsnorm.RMSNorm((2, 4), weight_bias=1.0))
        graph = compiled(model)
        graph(random(3, 8))
        with torch._dynamo.config.patch(error_on_recompile=True):
            for rows in (5, 7, 1000):
                x = random(rows, 8)
                results = []
                for each in (model, graph):
                    model.zero_grad()
                    y = each(x)
                    y.square().sum().backward()
                    results.append((y, [p.grad.clone() for p in model.parameters()]))
                torch.testing.assert_close(*results)

    def test_what_is_written_in_place_is_seen_by_what_comes_after(self):
        def layer(x, residual, weight, y):
            rmsnorm.fused_add_rms_norm_(x, residual, weight, EPS)
            rmsnorm.rms_norm(x, None, EPS, out=y)
            rmsnorm.rms_norm(x, weight, EPS, out=x)
            return x + y + residual

        tensors = [random(4, 8), random(4, 8), random(8), random(4, 8)]
        copies = [tensor.clone() for tensor in tensors]
        torch.testing.assert_close(compiled(layer)(*tensors), layer(*copies))
        torch.testing.assert_close(tensors, copies)

    def test_autograd_notices_that_a_saved_tensor_was_overwritten(self):
        x = random(4, 8)
        y = x.requires_grad_().square() * 1
        for write_to in (lambda y: rmsnorm.rms_norm(y, None, EPS, out=y),
                         lambda y: rmsnorm.fused_add_rms_norm_(y, random(4, 8), None, EPS),
                         lambda y: rmsnorm.fused_add_rms_norm_(random(4, 8), y, None, EPS)):
            loss = y.square().sum()
            with torch.no_grad():
                write_to(y)
            with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
                loss.backward()
        with torch.inference_mode():
            rmsnorm.fused_add_rms_norm_(random(4, 8), random(4, 8), None, EPS)

    def test_a_model_is_exported(self):
        model = torch.nn.Sequential(rmsnorm.RMSNorm(8), torch.nn.Linear(8, 8))
        rows = torch.export.Dim("rows", max=1000)
        with torch.no_grad():
            program = torch.export.export(model, (random(4, 8),), dynamic_shapes=({0: rows},))
        self.assertIn("rmsnorm.rms_norm.default", str(program.graph))
        x = random(9, 8)
        torch.testing.assert_close(program.module()(x), model(x))

    def test_tensors_of_no_memory_have_the_shapes_and_types_of_the_results(self):
        with FakeTensorMode(), torch.autocast("cpu", dtype=torch.float16):
            for dtype in (torch.float32, torch.bfloat16):
                x = torch.empty(2, 3, 8, dtype=dtype, requires_grad=True)
                weight = torch.empty(8, requires_grad=True)
                y = rmsnorm.rms_norm(x, weight, EPS)
                y.sum().backward()
                on_gpu = torch.empty(2, 3, 8, dtype=dtype, device="cuda")
                for got, like in ((y, x), (x.grad, x), (weight.grad, weight),
                                  (rmsnorm.rms_norm(on_gpu, None, EPS), on_gpu)):
                    self.assertEqual(
                        (got.shape, got.dtype, got.device, got.stride()),
                        (like.shape, like.dtype, like.device, like.stride()))
                rstd = NORM.rms_norm_rstd(x, weight, EPS, 0.0)[1]
                self.assertEqual((rstd.shape, rstd.dtype), ((2, 3), torch.float32))
        self.assertEqual(CALLS, [])
        y = rmsnorm.rms_norm(torch.empty(2, 8, device="meta"), None, EPS)
        self.assertEqual(y.shape, (2, 8))
        self.assertEqual(CALLS, [])

    def test_the_dispatcher_is_asked_only_where_something_has_to_see_the_call(self):
        x, weight, residual = random(4, 8), torch.nn.Parameter(random(8)), random(4, 8)

        class Mine(torch.Tensor):
            pass

        def run(x):
            with torch.no_grad():
                rmsnorm.rms_norm(x, weight, EPS)
                rmsnorm.rms_norm(x, weight, EPS, out=torch.empty_like(x))
                rmsnorm.fused_add_rms_norm_(x * 1, residual, weight, EPS)
            if type(x) is torch.Tensor:
                rmsnorm.rms_norm(x, weight, EPS).sum().backward()

        operators = (
            "_rms_norm", "_rms_norm_out", "_fused_add_rms_norm_", "_rms_norm_rstd",
            "_rms_norm_backward")
        with contextlib.ExitStack() as patches:
            asked = [patches.enter_context(mock.patch.object(rmsnorm.operators, name))
                     for name in operators]
            run(x)
            self.assertEqual([one.call_count for one in asked], [0, 0, 0, 0, 0])
            run(x.as_subclass(Mine))
            self.assertEqual([one.call_count for one in asked], [1, 1, 1, 0, 0])

        class Watch(TorchDispatchMode):
            def __torch_dispatch__(self, function, types, args=(), kwargs=None):
                seen.append(str(function))
                return function(*args, **(kwargs or {}))

        class Function(TorchFunctionMode):
            def __torch_function__(self, function, types, args=(), kwargs=None):
                seen.append(str(function))
                return function(*args, **(kwargs or {}))

        for watch in (Watch(), Function()):
            seen = []
            with watch:
                run(x)
            for name in ("rms_norm", "rms_norm_out", "fused_add_rms_norm_", "rms_norm_rstd"):
                self.assertTrue([one for one in seen if f"rmsnorm.{name}" in one], (watch, name))
        seen = []
        with Watch():
            run(x)
        for name in ("rms_norm", "rms_norm_out", "fused_add_rms_norm_", "rms_norm_rstd",
                     "rms_norm_backward"):
            self.assertIn(f"rmsnorm.{name}.default", seen)

    def test_what_has_no_gradient_says_so(self):
        x, weight = random(4, 8, grad=True), random(8, grad=True)
        y = rmsnorm.rms_norm(x, weight, EPS)
        (dx,) = torch.autograd.grad(y.square().sum(), x, create_graph=True)
        tangent = torch.ones(4, 8)

        def of_tangent():
            with torch.autograd.forward_ad.dual_level():
                rmsnorm.rms_norm(torch.autograd.forward_ad.make_dual(tangent, tangent), None, EPS)

        def plain(x):
            return rmsnorm.rms_norm(x, None, EPS)

        for sentence, call in [
            ("has no second derivative", lambda: dx.sum().backward()),
            ("with out=", lambda: rmsnorm.rms_norm(tangent, weight, EPS, out=tangent)),
            ("with out=", lambda: rmsnorm.rms_norm(tangent, None, EPS, out=x * 2)),
            ("fused_add_rms_norm does",
             lambda: rmsnorm.fused_add_rms_norm_(x * 1, tangent, None, EPS)),
            ("knows neither torch.func", lambda: torch.vmap(plain)(tangent)),
            ("knows neither torch.func", lambda: torch.func.jacrev(plain)(tangent)),
            ("knows neither torch.func", lambda: torch.func.jvp(plain, (tangent,), (tangent,))),
            ("nor forward-mode", of_tangent),
            ("knows neither torch.func",
             trace(lambda: torch.func.grad(lambda x: plain(x).sum())(tangent))),
        ]:
            with self.assertRaisesRegex(RuntimeError, sentence):
                call()


class Module(unittest.TestCase):
    setUp = Operators.setUp

    def test_it_does_what_that_of_pytorch_does(self):
        for arguments in ({"normalized_shape": 8}, {"normalized_shape": (3, 8), "eps": 0.5},
                          {"normalized_shape": [8], "elementwise_affine": False},
                          {"normalized_shape": 8, "eps": EPS, "dtype": torch.bfloat16}):
            theirs, ours = (
                make(**arguments) for make in (torch.nn.RMSNorm, rmsnorm.RMSNorm))
            self.assertEqual(str(ours), str(theirs))
            if theirs.weight is not None:
                torch.testing.assert_close(ours.weight, theirs.weight)
                torch.nn.init.normal_(theirs.weight)
            ours.load_state_dict(theirs.state_dict())
            x = random(2, 3, 8, dtype=arguments.get("dtype"))
            for scale in (1.0, 1e-4):  # there, eps is what counts
                torch.testing.assert_close(ours(x * scale), theirs(x * scale))

    def test_the_norms_of_a_model_can_be_exchanged(self):
        model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.RMSNorm(8, eps=EPS))
        x = random(4, 8)
        expected = model(x)
        model[1].__class__ = rmsnorm.RMSNorm
        torch.testing.assert_close(model(x), expected)
        self.assertEqual(CALLS, ["rms_norm_rstd"])

    def test_a_bias_of_one_begins_with_weights_of_zero(self):
        module = rmsnorm.RMSNorm(8, eps=EPS, weight_bias=1.0)
        self.assertEqual(module.weight.abs().sum(), 0)
        self.assertIn("weight_bias=1.0", str(module))
        x = random(4, 8)
        torch.testing.assert_close(module(x), torch.nn.functional.rms_norm(x, (8,), None, EPS))

    def test_wrong_shapes_and_a_bias_of_nothing_are_refused(self):
        for sentence, call in [
            (r"x has the shape \(4, 9\): its last sizes need to be \(8,\)",
             lambda: rmsnorm.RMSNorm(8)(random(4, 9))),
            (r"its last sizes need to be \(3, 8\)", lambda: rmsnorm.RMSNorm((3, 8))(random(8))),
            ("weight_bias is 1, without a weight",
             lambda: rmsnorm.RMSNorm(8, elementwise_affine=False, weight_bias=1)),
        ]:
            with self.assertRaisesRegex(ValueError, sentence):
                call()


class Page(unittest.TestCase):
    setUp = Operators.setUp

    def test_its_first_example_runs_and_has_at_most_10_lines(self):
        section = (ROOT / "library/README.md").read_text().split("\n## In PyTorch\n")[1]
        example = section.split("```python\n")[1].split("```")[0].strip()
        self.assertLessEqual(len(example.splitlines()), 10)
        self.assertIn('device="cuda"', example)
        said = io.StringIO()
        with mock.patch.object(torch, "compile", trace), contextlib.redirect_stdout(said):
            exec(example.replace('"cuda"', '"cpu"'), {})
        self.assertRegex(said.getvalue(), r"^tensor\([0-9.]+\) tensor\([0-9.]+\)\nTrue\n$")


class Import(unittest.TestCase):
    def error_of(self, code):
        """The last line that a new Python says of code, which comes before `import rmsnorm`."""
        done = subprocess.run(
            [sys.executable, "-B", "-c", f"{code}\nimport rmsnorm"], cwd=PYTHON, text=True,
            stderr=subprocess.PIPE)
        self.assertNotEqual(done.returncode, 0)
        return done.stderr.splitlines()[-1]

    def test_without_pytorch_or_with_an_old_one_a_sentence_says_what_to_do(self):
        self.assertEqual(
            self.error_of("import sys; sys.modules['torch'] = None"),
            "ImportError: rmsnorm needs PyTorch: pip install torch")
        self.assertRegex(
            self.error_of("import torch; torch.__version__ = type(torch.__version__)('2.5.1')"),
            "^ImportError: rmsnorm needs PyTorch 2.6 or newer: this is 2.5.1$")


if __name__ == "__main__":
    unittest.main()
