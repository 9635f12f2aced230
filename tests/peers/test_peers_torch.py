"""plots/peers.py: the checks and the order of events, on the CPU with a clock that is not one.

Run by CTest; skipped (exit code 4) where PyTorch is not installed.
"""

import contextlib
import io
import os
import sys
import unittest
from pathlib import Path
from unittest import mock

os.environ["CUDA_VISIBLE_DEVICES"] = ""  # before PyTorch looks for a GPU: what is checked needs none
try:
    import torch
except ImportError:
    print("skipped: PyTorch is not installed")
    sys.exit(4)

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "plots"))
from peers_harness import check, implementations, run, tensors  # noqa: E402
from peers_harness.calm import Calm  # noqa: E402
from peers_harness.cases import Case  # noqa: E402

FORWARD = Case("forward", "fp32", (64, 768))
RESIDUAL_ADD = Case("residual_add", "bf16", (40, 512))
BACKWARD = Case("backward", "bf16", (300, 512))
EVERY_OPERATION = [
    FORWARD, Case("forward", "bf16", (33, 769)), Case("forward", "fp16", (64, 768)),
    Case("decode", "bf16", (1, 512)), Case("forward_3d", "bf16", (10, 3, 128)), RESIDUAL_ADD,
    Case("rotation", "bf16", (10, 3, 64)),
    BACKWARD, Case("backward", "fp32", (300, 512))]


FP8 = [Case("rms_norm_e4m3", "bf16", (33, 512)), Case("rms_norm_e4m3_row", "fp32", (40, 768)),
       Case("decode_rms_norm_e4m3_group", "bf16", (16, 512)),
       Case("residual_add_e4m3", "bf16", (40, 512)),
       Case("residual_add_e4m3_group", "bf16", (40, 512)),
       Case("rms_norm_mxfp8", "bf16", (40, 512))]


def on_cpu(case):
    return tensors.Tensors(case, "cpu", l2_bytes=1 << 17)


def error_of(implementation, case):
    """The largest error of an implementation's first launch."""
    t = on_cpu(case)
    with torch.set_grad_enabled(case.is_backward):
        outputs = [output.clone() for output in implementation.launch_for(t)(0)]
    t.restore()
    with torch.no_grad():
        return check.largest_error(t, outputs, implementation.roundings)


class Right(implementations.Torch):
    name = "right"


class Wrong(implementations.Torch):
    """RMSNorm with a mistake in y."""

    name = "wrong"

    def __init__(self, mistake):
        super().__init__()
        self._mistake = mistake

    def norm(self, x, weight, y):
        return self._mistake(super().norm(x, weight, y), x, weight)


def without_weight(y, x, weight):
    return y / weight


def without_eps(y, x, weight):
    return x * x.square().mean(-1, keepdim=True).rsqrt() * weight


def with_the_row_before(y, x, weight):
    return x * (x.square().mean(-1, keepdim=True) + check.EPS).rsqrt().roll(1, 0) * weight


def with_a_hole(y, x, weight):
    y = y.clone()
    y[-1, -1] = float("nan")
    return y


def off_by_a_bit_in_one_place(y, x, weight):
    y = y.clone()
    y[5, 7] *= 1 + 2 * check.TOLERANCE["fp32"]
    return y


class ForgetsResidual(Right):
    def add_and_norm(self, x, residual, weight, y):
        return self.norm(x + residual, weight, y), residual


class LacksARow(Right):
    def backward(self, x, weight, dy):
        whole = super().backward(x, weight, dy)
        part = super().backward(x[1:], weight, dy[1:])
        return lambda: (whole()[0], part()[1])


class LacksTheTermOfRstd(Right):
    def backward(self, x, weight, dy):
        whole = super().backward(x, weight, dy)
        rstd = (x.double().square().mean(-1, keepdim=True) + check.EPS).rsqrt()
        return lambda: ((rstd * dy * weight).to(x.dtype), whole()[1])


class Checks(unittest.TestCase):
    def test_pytorch_is_right_in_every_operation(self):
        for case in EVERY_OPERATION:
            with self.subTest(case.label):
                self.assertLessEqual(error_of(Right(), case), check.bound_of(case))

    def test_every_mistake_is_found(self):
        mistakes = (without_weight, without_eps, with_the_row_before, with_a_hole,
                    off_by_a_bit_in_one_place)
        for wrong, case in [
                *((Wrong(mistake), FORWARD) for mistake in mistakes),
                (ForgetsResidual(), RESIDUAL_ADD), (LacksARow(), BACKWARD),
                (LacksTheTermOfRstd(), BACKWARD)]:
            with self.subTest(type(wrong).__name__):
                self.assertFalse(error_of(wrong, case) <= check.bound_of(case))


class RoundsFirst(implementations.Formula):
    """The formula, rounded to the type of x on its way."""

    name = "rounds first"
    roundings = check.Roundings(of_norm=True, of_sum=True)

    def norm_fp8(self, x, weight, y, scale, scaling):
        total = x.float()
        rstd = (total.square().mean(-1, keepdim=True) + check.EPS).rsqrt()
        normed = (total * rstd * weight.float()).to(x.dtype)
        return implementations.quantised(normed, scale, scaling)

    def add_and_norm_fp8(self, x, residual, weight, y, scale, scaling):
        residual.add_(x)
        return *self.norm_fp8(residual, weight, y, scale, scaling), residual


class Spoilt(implementations.Formula):
    """The formula with a mistake in its results."""

    def __init__(self, mistake):
        self._mistake = mistake

    def norm_fp8(self, x, weight, y, scale, scaling):
        return self._mistake(*super().norm_fp8(x, weight, y, scale, scaling))


def with_the_next_code(y, *scales):
    y = y.clone()
    y.view(torch.uint8)[3, 5] ^= 1
    return y, *scales


def with_nan(y, *scales):
    y = y.clone()
    y.view(torch.uint8)[-1, -1] = 0x7F
    return y, *scales


def with_a_larger_scale(y, *scales):
    return y, *(scale + 1 if scale.dtype == torch.uint8 else scale * 1.0001 for scale in scales)


class In8Bits(unittest.TestCase):
    def test_what_is_rounded_once_and_first_are_right_each_by_its_own_roundings(self):
        for case in FP8:
            for right in (implementations.Formula(), RoundsFirst()):
                with self.subTest(case.label, right=type(right).__name__):
                    self.assertEqual(error_of(right, case), 0)

    def test_one_wrong_code_nan_and_a_wrong_scale_are_found(self):
        for case in (*FP8[:3], FP8[5]):
            for mistake in (with_the_next_code, with_nan, with_a_larger_scale):
                if mistake is with_a_larger_scale and case.scaling == "given":
                    continue
                with self.subTest(case.label, mistake=mistake.__name__):
                    self.assertFalse(error_of(Spoilt(mistake), case) <= check.bound_of(case))

    def test_a_residual_that_was_not_updated_is_found(self):
        class Forgetful(implementations.Formula):
            def add_and_norm_fp8(self, x, residual, *others):
                return *super().add_and_norm_fp8(x, residual.clone(), *others)[:-1], residual

        self.assertGreater(error_of(Forgetful(), FP8[3]), 0)


class Sets(unittest.TestCase):
    def test_all_sets_together_are_four_times_the_cache(self):
        self.assertEqual(tensors.sets_for_cold_cache(1001, 10000), 40)
        self.assertEqual(tensors.sets_for_cold_cache(10**9, 10000), 2)  # at least

    def test_no_two_tensors_of_any_sets_overlap(self):
        t = tensors.Tensors(Case("residual_add", "bf16", (3, 769)), "cpu", l2_bytes=1 << 14)
        self.assertGreater(t.sets, 1)
        everything = t.residual + [
            part for several in (t.x, t.weight, t.y) for parts in several for part in parts]
        spans = sorted(
            (tensor.data_ptr(), tensor.data_ptr() + tensor.numel() * tensor.element_size())
            for tensor in everything)
        for (_, end), (next_begin, _) in zip(spans, spans[1:]):
            self.assertLessEqual(end, next_begin)


class CpuRecording:
    """Stands in for a CUDA graph: replays by running the launches again, in no time."""

    def __init__(self, launch, launches, sets, stream):
        self.launches = launches
        self.outputs = [launch(i) for i in range(sets)]
        self._launch = launch

    def replay(self):
        for kept, fresh in zip(self.outputs, (self._launch(i) for i in range(len(self.outputs)))):
            for target, source in zip(kept, fresh):
                if target.data_ptr() != source.data_ptr():
                    target.copy_(source)

    def time(self, count):
        return lambda: [2000.0] * count


def record_for_timing(launch, sets, stream):
    return CpuRecording(launch, 100, sets, stream)


def run_on_cpu(case, those, calm=None):
    """run_case() with CPU tensors and CpuRecordings; returns the rows and what was said."""
    properties = mock.Mock(L2_cache_size=1 << 17)
    roof = mock.Mock(launches=lambda tensors: {"copy_": lambda i: (torch.zeros(1),)})
    said = io.StringIO()
    with contextlib.ExitStack() as patches:
        for target, name, stand_in in [
            (torch.cuda, "get_device_properties", lambda index: properties),
            (torch.cuda, "Stream", mock.Mock),
            (torch.cuda, "stream", lambda stream: contextlib.nullcontext()),
            (torch.cuda, "synchronize", lambda: None),
            (run, "Tensors", lambda case, device, l2: tensors.Tensors(case, "cpu", l2)),
            (run, "Recording", CpuRecording),
            (run, "record_for_timing", record_for_timing),
        ]:
            patches.enter_context(mock.patch.object(target, name, stand_in))
        patches.enter_context(contextlib.redirect_stderr(said))
        rows = run.run_case(case, those, roof, {"device": "no GPU"}, min_seconds=0.1, calm=calm)
        return rows, said.getvalue()


class Run(unittest.TestCase):
    def test_every_operation_of_a_right_implementation_is_timed(self):
        for case in EVERY_OPERATION:
            with self.subTest(case.label):
                (row,), _ = run_on_cpu(case, [Right()])
                self.assertEqual(
                    (row.operation, row.implementation, row.verdict, row.cache),
                    (case.operation, "right", "pass", "cold"))
                self.assertEqual(row.bytes, case.bytes_moved)
                self.assertEqual(row.median_us, 20)
                self.assertAlmostEqual(row.gbps, case.bytes_moved / 20e3)
                self.assertAlmostEqual(row.roof_gbps, row.gbps)
                self.assertEqual(row.roof, "2:1" if case.is_backward else "1:1")
                self.assertGreaterEqual(row.samples, 11)

    def test_a_wrong_implementation_is_reported_and_never_timed(self):
        (wrong, right), said = run_on_cpu(FORWARD, [Wrong(without_weight), Right()])
        self.assertEqual(wrong.verdict, "fail")
        self.assertGreater(wrong.max_error, wrong.error_bound)
        self.assertEqual((wrong.median_us, wrong.cache, wrong.samples), (None, "", 0))
        self.assertEqual(right.verdict, "pass")
        self.assertIn("FAIL", said)

    def test_what_stays_disturbed_is_marked_in_every_row_that_was_timed(self):
        rows, said = run_on_cpu(
            FORWARD, [Right(), Wrong(without_weight)], calm=Calm(lambda: "power"))
        self.assertEqual([row.disturbed for row in rows], ["power", ""])
        self.assertIn("% of roof  at the power cap", said)
        (row,), said = run_on_cpu(FORWARD, [Right()])
        self.assertEqual(row.disturbed, "")
        self.assertNotIn("cap", said)

    def test_one_that_throws_is_unsupported_and_its_reason_told(self):
        class Picky(Right):
            name = "picky"

            def norm(self, x, weight, y):
                raise ValueError("hidden must be\na prime")

        (row, right), said = run_on_cpu(FORWARD, [Picky(), Right()])
        self.assertEqual((row.verdict, row.max_error, row.median_us), ("unsupported", None, None))
        self.assertIn("unsupported: ValueError: hidden must be", said)
        self.assertEqual(right.verdict, "pass")

    def test_one_that_lacks_the_operation_has_no_row(self):
        rows, _ = run_on_cpu(RESIDUAL_ADD, [implementations.Implementation(), Right()])
        self.assertEqual([row.implementation for row in rows], ["right"])

    def test_one_that_works_in_place_leaves_the_others_their_input(self):
        class InPlace(Right):
            name = "in place"

            def add_and_norm(self, x, residual, weight, y):
                residual.add_(x)
                x.copy_(self.norm(residual, weight, y))
                return x, residual

        rows, _ = run_on_cpu(RESIDUAL_ADD, [InPlace(), Right(), InPlace()])
        self.assertEqual([row.verdict for row in rows], ["pass"] * 3)


if __name__ == "__main__":
    unittest.main()
