"""librmsnorm's operators on a GPU, with what PyTorch does to operators, and its products of 8 bits.

    tests/binding/test_gpu.py LIBRARY

LIBRARY is a librmsnorm.so. Skipped (exit code 4) where PyTorch or a GPU is missing.
"""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

try:
    import torch
except ImportError:
    print("skipped: PyTorch is not installed")
    sys.exit(4)
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "library/python"))
import rmsnorm  # noqa: E402
from mxfp8 import in_tiles, quantised  # noqa: E402
from rmsnorm.binding import BLOCK, GIVEN, GROUP, ROW  # noqa: E402

DEVICE = "cuda"
EPS = 1e-6
E4M3 = torch.float8_e4m3fn
OPERATORS = torch.ops.rmsnorm


def random(*shape, grad=False, dtype=torch.bfloat16):
    return torch.randn(*shape, device=DEVICE, dtype=dtype).requires_grad_(grad)


def small_model(norm):
    """The same parameters for every norm."""
    torch.manual_seed(3)
    layers = [layer for _ in range(2) for layer in (norm(64), torch.nn.Linear(64, 64), torch.nn.SiLU())]
    return torch.nn.Sequential(torch.nn.Linear(8, 64), *layers, torch.nn.Linear(64, 1)).to(DEVICE)


def losses_of_rank(rank, ranks, library, store, norms, results):
    """Trains a small model on this process' half of the data, 50 steps with each of the norms."""
    rmsnorm.load(library)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)
    for name, norm in norms.items():
        model = torch.nn.parallel.DistributedDataParallel(small_model(norm))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        data = torch.randn(64, 8, generator=torch.Generator().manual_seed(rank)).to(DEVICE)
        for _ in range(50):
            loss = F.mse_loss(model(data), data.sum(-1, keepdim=True))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        results[name, rank] = loss.item()
    torch.distributed.destroy_process_group()


class OnAGpu(unittest.TestCase):
    def test_every_operator_is_what_its_schema_says(self):
        x, residual, dy, z = (random(3, 5, 192) for _ in range(4))
        weight, one = random(192), torch.ones(1, device=DEVICE)
        _, rstd = OPERATORS.rms_norm_rstd(x, weight, EPS, 0.0)
        calls = [
            (OPERATORS.rms_norm, (x, weight, EPS, 1.0)),
            (OPERATORS.rms_norm_out, (x, weight, torch.empty_like(x), EPS, 0.0)),
            (OPERATORS.fused_add_rms_norm_, (x, residual, weight, EPS, 0.0)),
            (OPERATORS.rms_norm_rstd, (random(7, 64, grad=True), random(64, grad=True), EPS, 0.0)),
            (OPERATORS.rms_norm_backward, (dy, x, weight, rstd, 0.0, True)),
            (OPERATORS.rms_norm_gated, (x, z, weight, EPS, 0.0, False, True)),
            (OPERATORS.rms_norm_gated_backward, (dy, x, z, weight, EPS, 0.0, False, True))]
        q, k, v = random(6, 4, 64), random(6, 2, 64), random(6, 2, 64)
        tables = torch.rand(2, 6, 32, device=DEVICE)
        caches, slots = random(2, 3, 4, 2, 64), torch.arange(6, device=DEVICE)
        rest = (*tables, slots, v, *caches, slots, EPS, 0.0, False, True)
        for operator in (OPERATORS.rms_norm_rotated, OPERATORS.rms_norm_rotated_):
            calls.append((operator, (q, random(64), k, random(64), *rest)))
        for scale, scaling, layout, are_powers in [
                (one, GIVEN, "rows", False), (None, ROW, "rows", False),
                (None, GROUP, "columns", False), (None, BLOCK, "tiles", True)]:
            rest = (weight, scale, None, EPS, 0.0, E4M3, scaling, layout, are_powers, True, True)
            calls += [(OPERATORS.rms_norm_fp8, (x, *rest)),
                      (OPERATORS.fused_add_rms_norm_fp8_, (x, residual, *rest))]
        for operator, arguments in calls:
            with self.subTest(operator=str(operator), arguments=arguments[-4:]):
                tests = ("test_schema", "test_faketensor")
                if operator is OPERATORS.rms_norm_rstd:
                    tests += ("test_autograd_registration",)
                torch.library.opcheck(operator, arguments, test_utils=tests)

    def test_an_exported_model_and_a_captured_one_give_the_same(self):
        model, x = small_model(rmsnorm.RMSNorm), random(6, 8, dtype=torch.float32)
        with torch.no_grad():
            expected = model(x)
            exported = torch.export.export(model, (x,)).module()
            torch.testing.assert_close(exported(x), expected)
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                captured = model(x)
            captured.zero_()
            graph.replay()
            torch.testing.assert_close(captured, expected)

    def test_under_autocast_y_has_the_type_of_x(self):
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            for dtype in (torch.float32, torch.bfloat16):
                y = rmsnorm.rms_norm(random(4, 64, dtype=dtype), None, EPS)
                self.assertEqual(y.dtype, dtype)

    def test_two_processes_train_as_with_the_norms_of_pytorch(self):
        norms = {"torch": torch.nn.RMSNorm, "librmsnorm": rmsnorm.RMSNorm}
        with tempfile.TemporaryDirectory() as folder, torch.multiprocessing.Manager() as manager:
            losses = manager.dict()
            torch.multiprocessing.spawn(
                losses_of_rank, (2, LIBRARY, os.path.join(folder, "store"), norms, losses), nprocs=2)
            for rank in range(2):
                ours, theirs = losses["librmsnorm", rank], losses["torch", rank]
                self.assertLess(theirs, 2)  # it has learned something
                self.assertAlmostEqual(ours, theirs, delta=1e-3 * theirs)

    def test_products_of_8_bits_take_y_and_its_scales(self):
        if CAPABILITY < (8, 9):
            self.skipTest("this GPU does not multiply 8 bits")
        x, weight, matrix = random(64, 512), random(512), random(256, 512).to(E4M3)
        scales_of_y = [torch.tensor([0.02], device=DEVICE), "row"]
        # Hopper alone multiplies 1 x 128, and PyTorch has it from 2.9 on, or earlier.
        if CAPABILITY == (9, 0) and torch.__version__ >= (2, 9):
            scales_of_y.append("group")
        for scale in scales_of_y:
            y, scales = rmsnorm.rms_norm_fp8(
                x, weight, EPS, scale, in_columns=scale == "group")
            if scale == "group":  # 1 x 128 of both
                of_matrix = torch.rand(4, 256, device=DEVICE) + 0.5
                wide = scales.repeat_interleave(128, -1)
                other = matrix.float() * of_matrix.t().repeat_interleave(128, -1)
            elif scale == "row":
                scales, of_matrix = scales[:, None], torch.rand(1, 256, device=DEVICE) + 0.5
                wide, other = scales, matrix.float() * of_matrix.t()
            else:
                of_matrix = torch.tensor([0.75], device=DEVICE)
                scales, wide, other = scales.view(()), scales, matrix.float() * of_matrix
                of_matrix = of_matrix.view(())
            with self.subTest(scale=str(scale)):
                product = torch._scaled_mm(
                    y, matrix.t(), scale_a=scales, scale_b=of_matrix, out_dtype=torch.bfloat16)
                expected = (y.float() * wide) @ other.t()
                torch.testing.assert_close(product.float(), expected, rtol=2e-2, atol=0.5)

    def test_powers_of_two_are_those_of_a_separate_quantiser(self):
        for shape in ((200, 4096), (3, 130, 96), (2048, 256), (130, 4128)):
            x, weight = random(*shape), random(shape[-1])
            y, scales, norm = rmsnorm.rms_norm_fp8(
                x, weight, EPS, "block", rounding="twice", norm=True)
            codes, exponents = quantised(norm, 32)
            self.assertTrue(torch.equal(y.view(torch.uint8), codes.view(torch.uint8)))
            self.assertTrue(torch.equal(scales.view(torch.uint8), exponents))
            same, tiles = rmsnorm.rms_norm_fp8(
                x, weight, EPS, "block", rounding="twice", in_tiles=True)
            self.assertTrue(torch.equal(same.view(torch.uint8), codes.view(torch.uint8)))
            self.assertTrue(torch.equal(tiles.view(torch.uint8), in_tiles(exponents)))
        x = random(200, 4096)
        y, scales, norm = rmsnorm.rms_norm_fp8(
            x, None, EPS, "group", powers=True, rounding="twice", norm=True)
        codes, exponents = quantised(norm, 128)
        self.assertTrue(torch.equal(y.view(torch.uint8), codes.view(torch.uint8)))
        self.assertTrue(torch.equal(scales.view(torch.uint8), exponents))

    def test_the_examples_agree_with_pytorch(self):
        examples = Path(__file__).resolve().parents[2] / "library/examples"
        environment = {**os.environ, "PYTHONPATH": str(examples.parent / "python")}
        for example in sorted(examples.glob("*.py")):
            if CAPABILITY < (8, 9) and "8_bits" in example.name:
                continue
            with self.subTest(example=example.name):
                run = subprocess.run(
                    [sys.executable, example, LIBRARY], env=environment, capture_output=True, text=True)
                self.assertEqual(run.returncode, 0, run.stdout + run.stderr)


if __name__ == "__main__":
    if not torch.cuda.is_available():
        print("skipped: PyTorch sees no GPU")
        sys.exit(4)
    CAPABILITY = torch.cuda.get_device_capability()
    LIBRARY = sys.argv.pop(1)
    rmsnorm.load(LIBRARY)
    unittest.main()
