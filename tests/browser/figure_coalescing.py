"""The figure of sectors and banks: docs/interactive/coalescing.js."""

import csv
import pathlib

from selenium.webdriver.common.keys import Keys

from figure import FigureTest

# What the CPU device prints (tests/test_access_patterns.cpp).
RECORDED = pathlib.Path(__file__).parent.parent / "data" / "cpu-device-access-patterns.csv"
PARAMETERS = {"stride": "Stride, in vectors", "row_a_lane": "Columns of a row",
              "repeated": "Repeated after", "shuffled": "Shuffle number"}


def recorded():
    """The rows of the file."""
    with open(RECORDED, encoding="utf-8") as file:
        return list(csv.DictReader(file))


class CoalescingFigure(FigureTest):
    """Sectors, banks and wavefronts."""

    page = "figure_coalescing"
    root = "[data-figure='coalescing']"

    def set(self, pattern, parameter, size, offset):
        """Fills in the fields."""
        self.choose(self.field("Lanes load"), pattern)
        if pattern in PARAMETERS:
            self.write(PARAMETERS[pattern], str(parameter))
        self.choose(self.field("Bytes a lane"), str(size))
        self.write("Start, in floats", str(offset))

    def shown(self):
        """The numbers that the figure shows: sectors, used, wavefronts; and how many it draws."""
        return self.js("""(() => {
          if (!root.querySelector(".figure-drawings").checkVisibility()) return null;
          const [global, shared] = root.querySelectorAll(".figure-results > div");
          const rows = [...root.querySelectorAll(".figure-bank-row .figure-name")];
          return [
            parseInt(global.querySelector("strong").innerText),
            global.lastChild.innerText.split(" ")[0],
            parseInt(shared.querySelector("strong").innerText),
            root.querySelectorAll(".figure-sector").length,
            rows.filter((row) => row.innerText.startsWith("wavefront")).length];
        })()""")

    def states(self):
        yield
        for access in (("row_a_lane", 32, 4, 0), ("neighbours", 0, 16, 4), ("shuffled", 3, 8, 0),
                       ("row_a_lane", 1024, 16, 28), ("same", 0, 4, 3), ("row_a_lane", 33, 16, 0)):
            self.set(*access)
            yield
        self.write("Start, in floats", "99")
        yield

    def test_model(self):
        """For every recorded pattern the figure's model says what the CPU device prints."""
        rows = recorded()
        self.assertGreater(len(rows), 500)
        accesses = [{"pattern": row["pattern"], "parameter": int(row["parameter"]),
                     "bytes": int(row["bytes"]), "offset": int(row["offset"])} for row in rows]
        said = self.js("""arguments[0].map((access) => {
          const {global, shared, misaligned} = figures.coalescing.costOf(access);
          if (misaligned !== undefined) return ["", "", "", String(misaligned)];
          return [String(global.sectors.length), figures.coalescing.percent(global.used),
            String(shared.wavefronts), ""];
        })""", accesses)
        for row, numbers in zip(rows, said):
            expected = [row[name] for name in ("sectors", "used", "wavefronts", "misaligned_lane")]
            self.assertEqual(numbers, expected, row)

    def test_page(self):
        """What is chosen and typed gives the CPU device's numbers on the page, and as many drawings."""
        for row in recorded()[::23]:
            self.set(row["pattern"], row["parameter"], row["bytes"], row["offset"])
            if row["misaligned_lane"] != "":
                self.assertIsNone(self.shown(), row)
                refusal = self.text(".figure-results")
                self.assertIn(f"Lane {row['misaligned_lane']} would load {row['bytes']} bytes", refusal)
                continue
            sectors, wavefronts = int(row["sectors"]), int(row["wavefronts"])
            self.assertEqual(
                self.shown(), [sectors, row["used"], wavefronts, sectors, wavefronts], row)

    def test_drawing(self):
        """Every lane's words are drawn once among the sectors and once among the banks."""
        for access in (("neighbours", 0, 4, 1), ("stride", 3, 16, 4), ("row_a_lane", 34, 8, 2),
                       ("shuffled", 5, 16, 0)):
            self.set(*access)
            words = access[2] // 4
            for place in (".figure-sectors", ".figure-banks"):
                drawn = self.js("[...root.querySelectorAll(arguments[0])].map((e) => e.innerText)",
                                f"{place} .figure-taken")
                lanes = [str(lane) for lane in range(32) for _ in range(words)]
                self.assertEqual(sorted(drawn), sorted(lanes), access)

    def test_sharing(self):
        """Words that several lanes load say how many, and what the sign means stands beside them."""
        explanation = ".figure-sectors + p"
        self.assertIsNone(self.text(explanation))
        self.set("repeated", 8, 4, 0)
        self.assertEqual(self.text(".figure-words"), "\n".join(["\u00d74"] * 8))
        self.assertIn("lanes that load the same word", self.text(explanation))

    def test_banks(self):
        """A word stands in its bank, and no bank serves two words in one wavefront."""
        self.set("stride", 5, 8, 2)
        for lane in (0, 7, 31):
            self.js("root.querySelectorAll('[type=radio]')[arguments[0]].click()", lane)
            places = self.js("""[...root.querySelectorAll(".figure-bank-row")]
              .flatMap((row) => [...row.children].map((one, i) => [one, i - 1]))
              .filter(([one]) => one.matches(".figure-followed")).map(([_, bank]) => bank)""")
            word = 2 + lane * 5 * 2
            self.assertEqual(places, [word % 32, (word + 1) % 32])

    def test_followed(self):
        """The lane that is followed is described, by keyboard, by a click on it, or on its word."""
        self.set("row_a_lane", 33, 4, 0)
        note = ".figure-note"
        self.js("root.querySelector('[type=radio]').focus()")
        self.key(Keys.ARROW_RIGHT * 5)
        self.assertEqual(
            self.text(note), "Lane 5: bytes 660 to 663: sector 20; bank 5, wavefront 1.")
        self.find(".figure-lane:nth-child(8)").click()
        self.assertTrue(self.text(note).startswith("Lane 7: bytes 924 to 927: sector 28; bank 7,"))
        self.find(".figure-banks [data-lane='12']").click()
        self.assertTrue(self.text(note).startswith("Lane 12:"))
        self.assertTrue(self.js("root.querySelectorAll('[type=radio]')[12].checked"))
        self.set("neighbours", 0, 16, 0)
        self.assertEqual(
            self.text(note), "Lane 12: bytes 192 to 207: sector 6; banks 16 to 19, wavefront 2.")

    def test_examples(self):
        """The examples show what they are named for, and a screen reader is told."""
        for name, sectors, used, wavefronts in (
                ("Neighbours", 4, "100%", 1), ("float4", 16, "100%", 4), ("One float off", 5, "80%", 1),
                ("A row a lane", 32, "12%", 32), ("A padded row a lane", 32, "12%", 1)):
            self.press(name)
            self.assertEqual(self.shown()[:3], [sectors, used, wavefronts], name)
            self.assertIn(f"{sectors} sectors", self.text(".figure-results[role=status]"))

    def test_code(self):
        """The load is shown as CUDA has it."""
        for access, code in (
                (("neighbours", 0, 4, 1), "const float v = x[1 + lane];"),
                (("row_a_lane", 128, 16, 4),
                 "const float4 v = *reinterpret_cast<const float4*>(x + 4 + 128 * lane);"),
                (("stride", 3, 8, 2),
                 "const float2 v = reinterpret_cast<const float2*>(x + 2)[3 * lane];")):
            self.set(*access)
            self.assertEqual(self.text(".figure-code"), code)

    def test_misaligned(self):
        """A vector at an address that it cannot have is refused, in words; the next choice is shown."""
        self.set("neighbours", 0, 16, 1)
        self.assertIn("byte 4, which is no multiple of 16", self.text("[role=status]"))
        self.assertIsNone(self.text(".figure-drawings"))
        self.write("Start, in floats", "4")
        self.assertEqual(self.shown()[:3], [17, "94%", 4])

    def test_bad_input(self):
        """A bad number is explained below its field, and changes nothing."""
        for name, texts in (("Stride, in vectors", ("0", "65", "", "1.5")),
                            ("Start, in floats", ("-1", "32", ""))):
            self.set("stride", 2, 4, 0)
            self.assertIsNone(self.complaint())
            self.assert_refused(name, texts, "Write a whole number from", self.shown)
        self.set("stride", 2, 4, 0)
        self.assertIsNone(self.complaint())
