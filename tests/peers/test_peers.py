"""plots/peers.py, and what host_cost.py has in common with it: what needs no PyTorch. Run by CTest."""

import csv
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "plots"))
from peers_harness import calm, cases, nvml, results, resume, turns  # noqa: E402

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
            (cases.Case("decode", "fp32", (1, 100)), 2 * 100 * 4),
            (cases.Case("residual_add", "bf16", (10, 100)), 4 * 1000 * 2),
            (cases.Case("backward", "bf16", (10, 100)), 3 * 1000 * 2),
            (cases.Case("forward_3d", "bf16", (5, 2, 100)), 2 * 2 * 1000 * 2),
            (cases.Case("gated_first", "bf16", (10, 100)), 3 * 1000 * 2),
            (cases.Case("gated_backward", "bf16", (10, 100)), 5 * 1000 * 2),
            (cases.Case("rms_norm_e4m3", "bf16", (10, 256)), 2560 * 3),
            (cases.Case("rms_norm_e4m3_row", "fp32", (10, 256)), 2560 * 5 + 10 * 4),
            (cases.Case("decode_rms_norm_e4m3_group", "bf16", (1, 256)), 256 * 3 + 2 * 4),
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

    def test_odd_lengths_have_an_even_neighbour_with_as_many_rows(self):
        shapes = {case.shape for case in cases.all_cases() if case.regime == "forward"}
        odd = [shape for shape in shapes if shape[-1] % 2]
        self.assertEqual(len(odd), 2)
        for rows, hidden in odd:
            self.assertIn((rows, hidden - 1), shapes)


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

    def test_what_is_written_is_read_back(self):
        row = results.Row(
            "rms_norm", "torch, eager", "forward", "bf16", 32768, 4096, median_us=123.456789,
            samples=11, max_error=float("nan"), verdict="fail", device='a "GPU"')
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "new", "results.csv")
            results.write_csv(file, [row])
            self.assertEqual([path.name for path in file.parent.iterdir()], ["results.csv"])
            with open(file, newline="", encoding="utf-8") as lines:
                (read,) = csv.DictReader(lines)
        self.assertEqual(read["implementation"], "torch, eager")
        self.assertEqual(read["device"], 'a "GPU"')
        self.assertEqual(read["operation"], "rms_norm")
        self.assertEqual(read["rows"], "32768")
        self.assertEqual(read["median_us"], "123.457")  # six digits, as in common/records/csv_fields.hpp
        self.assertEqual(read["gbps"], "")
        self.assertEqual(read["max_error"], "")  # NaN is no number that a reader of the file takes

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

    def test_nobody_to_time_is_no_mistake(self):
        self.assertEqual(turns.time_in_turns({}, min_seconds=0.1), {})


class Gpu:
    """A GPU with a reading for each measurement, of which the last one stays."""

    def __init__(self, *readings):
        self.measured, self.rests = 0, []
        self._readings = readings
        self._calm = calm.Calm(
            lambda: self._readings[min(self.measured, len(self._readings) - 1)],
            lambda disturbance, seconds: self.rests.append(seconds))

    def timed(self):
        """The number of measurements so far, and what disturbed the last."""
        def measure(look):
            look()
            self.measured += 1
            return self.measured
        return self._calm.timed(measure)


class Disturbances(unittest.TestCase):
    """The rules of tests/test_calm.cpp."""

    def test_what_nothing_disturbs_is_measured_once_and_not_marked(self):
        gpu = Gpu("")
        self.assertEqual(gpu.timed(), (1, ""))
        self.assertEqual(gpu.rests, [])

    def test_what_was_disturbed_is_measured_again_after_a_rest_and_the_last_one_counts(self):
        gpu = Gpu("power", "heat", "")
        self.assertEqual(gpu.timed(), (3, ""))
        self.assertEqual(gpu.rests, [2, 4])

    def test_what_stays_disturbed_is_repeated_three_times_and_says_by_what(self):
        gpu = Gpu("power", "power", "power", "heat")
        self.assertEqual(gpu.timed(), (4, "heat"))
        self.assertEqual(gpu.rests, [2, 4, 8])

    def test_a_gpu_that_is_always_at_its_cap_is_not_waited_for_again_and_again(self):
        gpu = Gpu(*["power"] * (3 * 4 + 1), "", "power")
        self.assertEqual([gpu.timed()[1] for _ in range(5)], ["power"] * 4 + [""])
        self.assertEqual(len(gpu.rests), 9)
        self.assertEqual(gpu.timed()[1], "power")  # it can be undisturbed: worth a wait
        self.assertEqual(len(gpu.rests), 12)

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


class FakeLibraries:
    """NVML and CUDA's driver, for nvml.reading(): CUDA's device 0 is at a place that NVML knows."""

    def __init__(self, reasons, has=(), status=0):
        self._functions = set(has)
        self._reasons, self._status = reasons, status

    def load(self, name):
        if "libnvidia-ml.so.1" not in self._functions:
            raise OSError(name)
        return self

    def __getattr__(self, name):
        fixed = {"nvmlInit_v2", "cuInit", "cuDeviceGet"}
        if name in fixed:
            return lambda *arguments: 0
        if name not in self._functions:
            raise AttributeError(name)
        return {
            "cuDeviceGetPCIBusId": self._place, "nvmlDeviceGetHandleByPciBusId_v2": self._handle,
        }.get(name, self._get)

    @staticmethod
    def _place(place, size, number):
        place.value = b"0000:1B:00.0"
        return 0

    @staticmethod
    def _handle(place, device):
        device._obj.value = 0x1B
        return 0 if place.value == b"0000:1B:00.0" else 6

    def _get(self, device, reasons):
        reasons._obj.value = self._reasons
        return self._status if device.value == 0x1B else 2


class Nvml(unittest.TestCase):
    LIBRARY = ("libnvidia-ml.so.1", "cuDeviceGetPCIBusId", "nvmlDeviceGetHandleByPciBusId_v2")
    NEW, OLD = (
        "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")

    def test_the_reasons_are_those_of_cudas_device_by_the_newer_or_the_older_name(self):
        for name in (self.NEW, self.OLD):
            fakes = FakeLibraries(0x4, (*self.LIBRARY, name))
            self.assertEqual(nvml.reading(fakes.load)(), "power")

    def test_where_nvml_is_not_there_or_does_not_know_nothing_is_disturbed(self):
        for has, status in [
            ((), 0), (self.LIBRARY, 0), ((*self.LIBRARY, self.NEW), 3),
            ((self.LIBRARY[0], self.LIBRARY[1], self.NEW), 0)]:
            fakes = FakeLibraries(0x4, has, status)
            self.assertEqual(nvml.reading(fakes.load)(), "")


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
