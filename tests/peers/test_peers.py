"""plots/peers.py and host_cost.py: what needs no PyTorch. Run by CTest."""

import ctypes
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "plots"))
import host_cost  # noqa: E402
from peers_harness import calm, cases, results, resume, turns  # noqa: E402

PROGRAMS = ("peers.py", "host_cost.py")


def run_program(name, *arguments, torch="raise ImportError('hidden by a test')"):
    """Runs a program as a user would, on a Python whose module torch is this text."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "torch.py").write_text(torch)
        return subprocess.run(
            [sys.executable, str(ROOT / "plots" / name), *arguments],
            capture_output=True, text=True, check=False,
            env=dict(os.environ, PYTHONDONTWRITEBYTECODE="1", PYTHONPATH=folder))


def torch_that_finds(gpu):
    return f"class cuda:\n    is_available = staticmethod(lambda: {gpu})\n"


class Cases(unittest.TestCase):
    def test_no_case_is_there_twice(self):
        labels = [case.label for case in cases.all_cases()]
        self.assertEqual(len(labels), len(set(labels)))

    def test_every_operation_is_measured(self):
        self.assertEqual({case.regime for case in cases.all_cases()}, set(cases.TENSORS_MOVED))

    def test_bytes_are_those_that_the_operation_must_move(self):
        for case, bytes_moved in [
            (cases.Case("forward", "bf16", (10, 100)), 2 * 1000 * 2),
            (cases.Case("forward_3d", "bf16", (5, 2, 100)), 2 * 2 * 1000 * 2),
            (cases.Case("gated_backward", "bf16", (10, 100)), 5 * 1000 * 2),
            (cases.Case("rms_norm_e4m3_row", "fp32", (10, 256)), 2560 * 5 + 10 * 4),
            (cases.Case("residual_add_e4m3_group", "bf16", (10, 256)), 2560 * 7 + 20 * 4),
            (cases.Case("rotation", "bf16", (10, 3, 64)), 10 * 3 * 64 * 8),
            (cases.Case("rms_norm_mxfp8", "bf16", (10, 256)), 2560 * 3 + 80),
        ]:
            with self.subTest(case.label):
                self.assertEqual(case.bytes_moved, bytes_moved)
                self.assertEqual(case.rows * case.bytes_per_row, bytes_moved)

    def test_operations_have_the_names_of_the_lessons_results(self):
        for regime, name, scaling in [
            ("decode", "rms_norm", None), ("residual_add", "residual_add", None),
            ("gated_first", "gated_norm", None), ("gated_backward", "gated_norm_backward", None),
            ("rms_norm_e4m3_row", "rms_norm_e4m3_row", "row"),
            ("decode_residual_add_e4m3", "residual_add_e4m3", "given"),
        ]:
            case = cases.Case(regime, "bf16", (1, 256))
            self.assertEqual((case.operation, case.scaling), (name, scaling))


class Statistics(unittest.TestCase):
    def test_median_and_spread_are_those_of_the_lessons_clock(self):
        timing = results.summarise([float(i) for i in range(101, 0, -1)])  # 1 to 101, not sorted
        self.assertEqual(timing.median_us, 51)
        self.assertAlmostEqual(timing.spread_pct, 100 * 40 / 51)  # 11 to 91
        self.assertEqual(timing.samples, 101)


class Csv(unittest.TestCase):
    def test_the_header_is_that_of_the_lessons_results(self):
        recorded = (ROOT / "plots/data/nvidia-h200.csv").read_text().splitlines()[0]
        self.assertEqual(",".join(results.HEADER), recorded)

    def test_the_programs_of_plots_read_it(self):
        program = os.environ.get("RMSNORM_UPDATE_TABLES")
        if not program:
            self.skipTest("RMSNORM_UPDATE_TABLES does not name the program")
        rows = [
            results.Row(
                "rms_norm", name, "forward", "bf16", 32768, 4096, "", "cold", us, 0.2, 11, "",
                536870912, 1e3 * us, "copy", 4000.0, 4814.0, 16384, 0.004, 0.016, "pass", "a GPU", "1.2",
                "13.0", "9.9", "2026-01-01")
            for name, us in (("librmsnorm", 4.1), ("torch", 2.0))]
        rows.append(results.Row(
            "rms_norm", 'with a "NaN", wrong', "forward", "bf16", 32768, 4096,
            max_error=float("nan"), verdict="fail", device="a GPU"))
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder, "README.md")
            results.write_csv(Path(folder, "a-gpu-peers.csv"), rows)
            page.write_text("<!-- results:begin peers a-gpu forward -->\n<!-- results:end -->\n")
            subprocess.run(
                [program, "--csv", ROOT / "plots/data/nvidia-h200.csv", "--data", folder,
                 "--root", folder], check=True, capture_output=True)
            text = page.read_text()
        self.assertIn("| 4000 | **102.5** | 50.0 |", text)


def row_of(case, implementation, version, median_us=1.0):
    return results.Row(
        case.operation, implementation, case.regime, case.dtype, case.rows, case.hidden,
        median_us=median_us, verdict="pass", device="a GPU", version=version)


class Resuming(unittest.TestCase):
    def test_only_cases_without_librmsnorms_row_of_a_revision_are_measured(self):
        first, second, pair, other = (
            cases.Case("decode", "bf16", (1, 4096)), cases.Case("decode", "bf16", (8, 4096)),
            cases.Case("forward_3d", "bf16", (27030, 24, 128)),
            cases.Case("decode", "bf16", (64, 4096)))
        rows = [
            row_of(first, "librmsnorm", "new"), row_of(second, "librmsnorm", "old"),
            row_of(pair, "librmsnorm", "older"), row_of(other, "torch", "new")]
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "peers.csv")
            results.write_csv(file, rows)
            usual = ["--list", "--csv", str(file), "--revision", "new"]
            for case in (first, second, pair, other):
                usual += ["--shape", case.label]
            for arguments, expected in [
                ([], [first, second, other, pair]), (["--resume"], [second, other, pair]),
                (["--resume", "old", "older"], [other])]:
                finished = run_program("peers.py", *usual, *arguments)
                self.assertEqual(
                    finished.stdout.splitlines(), [case.label for case in expected])

    def test_results_of_another_gpu_are_not_added_to(self):
        torch = torch_that_finds(gpu=True) + (
            "    get_device_properties = staticmethod(lambda number: Gpu)\n"
            "class Gpu:\n    name, memory_clock_rate, memory_bus_width = 'this GPU', 1, 1\n"
            "class version:\n    cuda = '13.0'\n")
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "peers.csv")
            results.write_csv(file, [row_of(cases.all_cases()[0], "librmsnorm", "1")])
            finished = run_program("peers.py", "--csv", str(file), "--resume", torch=torch)
        self.assertEqual(finished.returncode, 1)
        self.assertIn("is of another GPU, a GPU: this is this GPU", finished.stderr)

    def test_new_rows_replace_old_ones_and_all_have_the_cases_order(self):
        small, large = (
            cases.Case("decode", "bf16", (1, 4096)), cases.Case("decode", "bf16", (8, 4096)))
        old = [row_of(large, "torch", "1"), row_of(small, "liger", "1"),
               row_of(small, "torch", "1")]
        new = [row_of(small, "torch", "2"), row_of(small, "librmsnorm", "2")]
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "peers.csv")
            self.assertEqual(resume.read(file), [])
            results.write_csv(file, old)
            results.write_csv(file, resume.merged(resume.read(file), new))
            found = [(row.implementation, row.rows, row.version) for row in resume.read(file)]
        self.assertEqual(
            found, [("liger", "1", "1"), ("torch", "1", "2"), ("librmsnorm", "1", "2"),
                    ("torch", "8", "1")])


class FakeRecording:
    """A recording whose replays take the given times, in turn, and note who was timed."""

    def __init__(self, name, launches, times, log):
        self.launches = launches
        self._name, self._times, self._log, self._next = name, times, log, 0

    def time(self, count):
        self._log.append(self._name)
        times = [self._times[(self._next + i) % len(self._times)] for i in range(count)]
        self._next += count
        return lambda: times


class Turns(unittest.TestCase):
    def test_implementations_alternate(self):
        log = []
        steady = {name: FakeRecording(name, 1, [2000.0], log) for name in ("a", "b", "c")}
        turns.time_in_turns(steady, min_seconds=0.1)
        self.assertEqual(log[3:9], ["a", "b", "c", "a", "b", "c"])  # the first three: how many?
        self.assertEqual(log.count("a"), log.count("c"))

    def test_a_time_is_that_of_one_launch(self):
        recording = FakeRecording("a", 100, [2000.0], [])
        timing = turns.time_in_turns({"a": recording}, min_seconds=0.1)["a"]
        self.assertEqual(timing.median_us, 20)
        self.assertGreaterEqual(timing.samples, 50)  # 0.1 s of 2 ms each

    def test_a_slow_implementation_gets_eleven_samples_at_least(self):
        slow = FakeRecording("slow", 1, [1e6], [])
        fast = FakeRecording("fast", 1, [2000.0], [])
        timings = turns.time_in_turns({"slow": slow, "fast": fast}, min_seconds=0.1)
        self.assertGreaterEqual(timings["slow"].samples, 11)
        self.assertGreater(timings["fast"].samples, timings["slow"].samples)

    def test_noise_of_one_repeats_all_three_times_and_no_more(self):
        noisy = FakeRecording("noisy", 1, [1000.0, 2000.0, 3000.0], [])
        steady = FakeRecording("steady", 1, [2000.0], [])
        once = turns.time_in_turns({"steady": FakeRecording("steady", 1, [2000.0], [])}, 0.1)
        timings = turns.time_in_turns({"noisy": noisy, "steady": steady}, min_seconds=0.1)
        self.assertEqual(timings["steady"].samples, 3 * once["steady"].samples)
        self.assertGreater(timings["noisy"].spread_pct, results.NOISY_PCT)


class Disturbances(unittest.TestCase):
    """The rules of tests/test_calm.cpp."""

    def test_what_was_disturbed_is_repeated_after_a_rest_until_that_has_been_in_vain(self):
        always = ["power"] * 4
        readings = iter(["", "power", "heat", "", *always, *always, *always, "power", "", "power"])
        measured, rests = [], []
        clock = calm.Calm(lambda: next(readings), lambda disturbance, seconds: rests.append(seconds))

        def measure(look):
            look()
            measured.append(1)
            return len(measured)

        said = [clock.timed(measure) for _ in range(7)]
        self.assertEqual(said[:3], [(1, ""), (4, ""), (8, "power")])
        self.assertEqual([disturbance for _, disturbance in said[3:]], ["power"] * 3 + [""])
        self.assertEqual(rests, [2, 4] + [2, 4, 8] * 3)

    def test_caps_of_power_and_of_heat_disturb_and_an_idle_gpu_or_chosen_clocks_do_not(self):
        for word, all_reasons in [
            ("", (0x0, 0x1, 0x2, 0x10, 0x100, 0x113)), ("power", (0x4, 0x8, 0x80, 0x88, 0x5)),
            ("heat", (0x20, 0x40, 0x48, 0x24))]:
            for reasons in all_reasons:
                self.assertEqual(calm.disturbance_of(reasons), word, hex(reasons))

    def test_turns_look_while_implementations_are_timed_and_not_before(self):
        log = []
        recordings = {name: FakeRecording(name, 1, [2000.0], log) for name in ("a", "b")}
        turns.time_in_turns(recordings, 0.1, lambda: log.append("look"))
        self.assertEqual(log[:6], ["a", "b", "a", "b", "look", "a"])  # how many; the first turn
        self.assertEqual(log[-1], "look")


class HostCost(unittest.TestCase):
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

    def test_each_call_is_compared_with_pytorch(self):
        times = {host_cost.TORCH: 8.0, host_cost.NEW: 6.0}
        lines = host_cost.table({name: results.Timing(us, 1.0, 33) for name, us in times.items()})
        self.assertIn("8.00 us", lines[0])
        self.assertIn("0.75 of F.rms_norm(x)", lines[1])


class Program(unittest.TestCase):
    def test_what_is_missing_is_said_in_one_sentence(self):
        no_library = "--library", "/no/such.so"
        for program, finished, code, sentence in [
            *((name, run_program(name), 3, f"{name} needs PyTorch") for name in PROGRAMS),
            *((name, run_program(name, torch=torch_that_finds(gpu=False)), 3,
               f"{name} needs an NVIDIA GPU") for name in PROGRAMS),
            ("host_cost.py",
             run_program("host_cost.py", *no_library, torch=torch_that_finds(gpu=True)), 1,
             "there is no /no/such.so")]:
            with self.subTest(program, sentence=sentence):
                self.assertEqual((finished.returncode, finished.stdout), (code, ""))
                self.assertEqual(len(finished.stderr.splitlines()), 1, finished.stderr)
                self.assertIn(sentence, finished.stderr)

    def test_list_prints_the_cases_and_the_filter_takes_parts_of_their_labels(self):
        finished = run_program("peers.py", "--list")
        self.assertEqual(finished.returncode, 0)
        self.assertEqual(
            finished.stdout.splitlines(), [case.label for case in cases.all_cases()])
        some = run_program("peers.py", "--list", "--shape", "decode bf16 1x", "--shape", "27030")
        self.assertEqual(
            some.stdout.splitlines(),
            ["decode bf16 1x4096", "decode bf16 1x8192", "decode bf16 1x65536",
             "forward_3d bf16 27030x24x128"])

    def test_what_cannot_be_meant_is_bad_usage(self):
        for arguments, said in [
            (["--shape", "7x7"], "7x7"), (["--implementation", "nobody"], "nobody"),
            (["--resume"], "--resume needs --csv")]:
            with self.subTest(arguments):
                finished = run_program("peers.py", *arguments)
                self.assertEqual(finished.returncode, 2)
                self.assertIn(said, finished.stderr)


if __name__ == "__main__":
    unittest.main()
