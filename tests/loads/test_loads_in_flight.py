"""plots/loads_in_flight.py: that it sees in SASS what is asked for together. Run by CTest."""

import csv
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "plots"))

from loads_in_flight import (  # noqa: E402
    NO_BARRIER, OWN_KERNELS, Kernel, in_flight, instructions, row_of)

X = ("LDC.64 R2, c[0x0][0x210]", NO_BARRIER, ())
WEIGHT = ("LDC.64 R4, c[0x0][0x218]", NO_BARRIER, ())
END = ("EXIT", NO_BARRIER, ())


def load(to, base="R2", opens=0, size=".128"):
    return f"LDG.E{size}.CONSTANT R{to}, desc[UR4][{base}.64]", opens, ()


def use(register, waits):
    return f"FMUL R0, R{register}, R{register}", NO_BARRIER, waits


def code(*lines):
    """The instructions, as they are read in what cuobjdump prints."""
    text = ""
    for place, (line, opens, waits) in enumerate(lines):
        control = opens << 5 | NO_BARRIER << 8 | sum(1 << b for b in waits) << 11
        text += f"        /*{16 * place:04x}*/     {line} ;     /* 0x{0:016x} */\n"
        text += f"                                 /* 0x{control << 41:016x} */\n"
    read = list(instructions(text))
    assert len(read) == len(lines)
    return read


class InFlight(unittest.TestCase):
    def test_loads_in_front_of_a_wait_are_in_flight_together(self):
        self.assertEqual(in_flight(code(X, load(8), load(12), use(8, [0]), END)), ([32], 1))

    def test_a_load_behind_a_wait_is_not_among_them(self):
        waits_twice = code(X, load(8), use(8, [0]), load(12, opens=1), use(12, [1]), END)
        self.assertEqual(in_flight(waits_twice), ([16], 2))
        for_another = code(X, load(8), use(0, [3]), load(12), use(8, [0]), END)
        self.assertEqual(in_flight(for_another), ([32], 1))

    def test_the_weight_is_waited_for_and_is_not_x(self):
        together = code(X, WEIGHT, load(8), load(12, base="R4"), use(8, [0]), END)
        self.assertEqual(in_flight(together), ([16], 1))
        later = code(X, WEIGHT, load(8), use(8, [0]), load(12, base="R4"), use(12, [0]), END)
        self.assertEqual(in_flight(later), ([16], 2))

    def test_single_elements_beside_vectors_are_the_ends_of_a_row(self):
        spilled = code(X, load(6, size=""), ("STL [R1], R6", NO_BARRIER, [0]), load(8, opens=1),
                       use(8, [1]), END)
        self.assertEqual(in_flight(spilled), ([16], 2))

    def test_a_row_goes_the_way_of_an_aligned_one(self):
        # Another row jumps to two loads, the second of which it waits for at once.
        ways = code(X, load(8), ("@P0 BRA 0x50", NO_BARRIER, ()), load(12),
                    ("BRA 0x80", NO_BARRIER, ()), load(12, opens=2), load(16, opens=2),
                    use(12, [2]), load(20), use(8, [0]), END)
        runs, waits = in_flight(ways)
        self.assertEqual((max(runs), waits), (48, 1))


class Rows(unittest.TestCase):
    KERNEL = Kernel("rms_norm_registers", ("8", "2"), 32, 0,
                    code(X, load(8), load(12), use(8, [0]), END))
    PROFILE = {"implementation": "08_registers", "regime": "heads", "dtype": "fp32", "hidden": "64",
               "registers": "32"}

    def test_a_kernel_of_other_registers_than_the_counted_one_is_refused(self):
        self.assertEqual(row_of([self.KERNEL], self.PROFILE)["x_bytes_at_once"], 32)
        with self.assertRaisesRegex(ValueError, r"registers<8, 2> has 32 registers here, and 40"):
            row_of([self.KERNEL], self.PROFILE | {"registers": "40"})

    def test_a_kernel_that_loads_no_x_is_refused_unless_it_copies_in_bulk(self):
        kernel = self.KERNEL._replace(code=code(WEIGHT, load(8, base="R4"), use(8, [0]), END))
        with self.assertRaisesRegex(ValueError, "registers loads no x"):
            row_of([kernel], self.PROFILE)
        bulk = kernel._replace(code=code(("UBLKCP.S.G [UR4], [UR6], UR8", NO_BARRIER, ()), END))
        self.assertEqual(row_of([bulk], self.PROFILE)["x_bytes_at_once"], 32)

    def test_an_implementation_without_a_kernel_is_named(self):
        with self.assertRaisesRegex(LookupError, "no kernel rms_norm_cache_policy of 09_cache"):
            row_of([self.KERNEL], self.PROFILE | {"implementation": "09_cache_policy"})

    def test_an_unrolled_loop_is_not_gone_into_with_fewer_passes(self):
        loop = code(X, load(8), use(8, [0]), ("@P0 BRA 0x10", NO_BARRIER, ()), load(8), load(12),
                    use(8, [0]), ("@P0 BRA 0x40", NO_BARRIER, ()), END)
        kernels = [self.KERNEL._replace(code=loop)]
        self.assertEqual(row_of(kernels, self.PROFILE)["x_bytes_at_once"], 32)
        row = row_of(kernels, self.PROFILE | {"hidden": "32"})
        self.assertEqual((row["x_bytes_at_once"], row["waits"]), (16, ""))

    def test_every_recorded_count_of_a_norm_but_that_of_a_thread_per_row_has_loads(self):
        for profile in (ROOT / "plots/data").glob("*-profile.csv"):
            def keys(file):
                with file.open() as lines:
                    return {(row["implementation"], row["regime"], row["dtype"], row["registers"])
                            for row in csv.DictReader(lines)
                            if row.get("operation", "rms_norm") == "rms_norm"}

            counted = {key for key in keys(profile)
                       if not key[0].endswith("thread_per_row") and key[0] not in OWN_KERNELS}
            loads = profile.with_name(profile.name.replace("-profile", "-loads"))
            self.assertEqual(keys(loads) if counted else set(), counted)


if __name__ == "__main__":
    unittest.main()
