"""plots/host_cost.py: what needs no PyTorch. Run by CTest."""

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "plots"))
import host_cost  # noqa: E402
from peers_harness import results  # noqa: E402

COMMON = {"device": "a GPU", "driver": "1.2", "cuda": "13.0", "date": "2026-01-01"}


def timings(**microseconds):
    names = dict(zip("torch new out c empty".split(), [
        host_cost.TORCH, host_cost.NEW, host_cost.OUT, host_cost.IN_C, host_cost.EMPTY]))
    return {names[name]: results.Timing(us, 1.0, 33) for name, us in microseconds.items()}


class Batches(unittest.TestCase):
    def test_a_batch_is_timed_without_what_comes_after_it(self):
        log = []
        batches = host_cost.Batches(
            host_cost.repeated(lambda: log.append("call")), lambda: log.append("settle"))
        times = batches.time(2)()
        one = ["call"] * host_cost.CALLS + ["settle"]
        self.assertEqual(log, one + one)
        self.assertEqual(len(times), 2)
        self.assertGreater(min(times), 0)

    def test_the_loop_in_c_calls_as_often_as_it_is_told_and_keeps_an_error(self):
        with tempfile.TemporaryDirectory() as folder:
            loops = host_cost.loops_in_c(folder)
        if loops is None:
            self.skipTest("there is no C compiler")
        seen = []
        pointer, real = ctypes.c_void_p, ctypes.c_float
        kind = ctypes.CFUNCTYPE(ctypes.c_int, pointer, pointer, pointer, real, real, pointer)
        forward = kind(lambda *arguments: seen.append(arguments) or int(len(seen) == 2))
        self.assertEqual(loops.call_forward(forward, *map(pointer, (1, 2, 3, 4)), 3), 1)
        self.assertEqual([(x, w, y, stream) for x, w, y, _, _, stream in seen], [(1, 2, 3, 4)] * 3)


class Results(unittest.TestCase):
    def test_each_call_is_compared_with_pytorch(self):
        lines = host_cost.table(timings(torch=8.0, new=6.0))
        self.assertIn("8.00 us", lines[0])
        self.assertIn("0.75 of F.rms_norm(x)", lines[1])

    def test_the_programs_of_plots_read_them(self):
        program = os.environ.get("RMSNORM_UPDATE_TABLES")
        if not program:
            self.skipTest("RMSNORM_UPDATE_TABLES does not name the program")
        for measured in (timings(torch=8.0, new=6.0, out=4.0, c=1.5),
                         timings(torch=8.0, new=6.0, out=4.0, c=1.5, empty=1.2)):
            text = self.page_of(program, measured)
            self.assertIn("| `rmsnorm.rms_norm(x out=y)` | 4.00 | 0.50 |", text)
            self.assertIn("4 × 256, bf16.", text)
            has_empty = host_cost.EMPTY in measured
            self.assertEqual("| `empty kernel in C` | 1.20 | 0.15 |" in text, has_empty)
            share = "It takes 80 % of the time of `rmsnorm_forward() in C`."
            self.assertEqual(share in text, has_empty)

    def page_of(self, program, measured):
        rows = host_cost.rows_of(measured, {name: "9.9" for name in measured}, COMMON)
        with tempfile.TemporaryDirectory() as folder:
            recorded, page = Path(folder, "a-gpu.csv"), Path(folder, "README.md")
            shutil.copy(ROOT / "plots/data/nvidia-h200.csv", recorded)
            results.write_csv(Path(folder, "a-gpu-host.csv"), rows)
            page.write_text("<!-- results:begin host -->\n<!-- results:end -->\n")
            subprocess.run(
                [program, "--csv", recorded, "--data", folder, "--root", folder], check=True,
                capture_output=True)
            return page.read_text()


if __name__ == "__main__":
    unittest.main()
