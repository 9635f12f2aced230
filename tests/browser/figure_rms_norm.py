"""The figure that steps through RMSNorm: docs/interactive/rms_norm.js."""

import math
import random

from selenium.webdriver.common.keys import Keys

from figure import FigureTest

# The worked example: sum of squares, mean square, RMS and rstd of each row, to four digits.
EXAMPLE = [[2, -1, 3, 0.5, -0.5, 1.5, -2, 1], [4, -3, 2.5, 1, -1.5, 0, -0.5, 2],
           [-1, 3.5, -2.5, 1.5, 0, -3, 2.5, -0.5]]
ROWS = [["21.75", "2.71875", "1.6489", "0.6065", "done"],
        ["38.75", "4.84375", "2.2009", "0.4544", "done"],
        ["37.25", "4.65625", "2.1578", "0.4634", "done"]]
EPS = 1e-5


def number(text):
    """The number that a cell shows."""
    return float(text.replace("\u2212", "-"))


class RmsNormFigure(FigureTest):
    """The visualiser."""

    page = "figure_rms_norm"
    root = "[data-figure='rms-norm']"

    def table(self, caption):
        """The cells of a table, row by row, without the heads; a field's text is its value."""
        return self.js("""[...[...root.querySelectorAll("table")]
          .find((one) => one.caption.innerText === arguments[0]).tBodies[0].rows]
          .filter((row) => !row.matches(".figure-complaints"))
          .map((row) => [...row.cells].slice(1)
            .map((td) => td.querySelector("input")?.value ?? td.innerText))""", caption)

    def rows(self):
        """The numbers of each row."""
        return self.table("Each row")

    def assert_shows(self, text, value, digits=4):
        """A cell shows a number, rounded to so many digits behind the point."""
        self.assertAlmostEqual(number(text), value, delta=0.50001 * 10**-digits)

    def assert_step(self, step):
        """This many of the worked example's steps are done."""
        self.assertEqual(self.text(".figure-position"), f"step {step} of 15")

    def states(self):
        yield
        self.press("Next")
        yield
        self.press("Next", "Next")
        yield
        self.write("x, row 0, column 3", "abc")
        self.write("eps", "-1")
        yield
        self.write("Columns", "13")
        self.choose(self.field("Block size"), "16")
        self.write("Rows", "8")
        self.press("Last")
        yield

    def test_example(self):
        """At the end of the worked example stand its published, recomputed numbers."""
        self.press("Last")
        self.assertEqual(self.rows(), ROWS)
        for x, row in zip(EXAMPLE, self.table("y")):
            rstd = 1 / math.sqrt(sum(v * v for v in x) / 8 + EPS)
            for value, shown in zip(x, row):
                self.assert_shows(shown, value * rstd)

    def test_steps(self):
        """The steps of a row are its blocks' sums, its rstd and its blocks' outputs; Back undoes one."""
        unknown = "\u2013"
        def shown():
            y = self.table("y")[0]
            return [*self.rows()[0], y[0] + y[7]]
        seen = []
        for _ in range(6):
            seen.append(shown())
            self.press("Next")
        no_y, half_y, y = 2 * unknown, "1.213" + unknown, "1.2130.6065"
        self.assertEqual(seen, [
            [unknown] * 4 + ["waiting", no_y],
            ["14.25"] + [unknown] * 3 + ["summing, 1 of 2", no_y],
            ["21.75"] + [unknown] * 3 + ["summing, 2 of 2", no_y],
            ROWS[0][:4] + ["rstd known", no_y],
            ROWS[0][:4] + ["writing, 1 of 2", half_y],
            ROWS[0][:4] + ["done", y]])
        self.assertEqual(self.rows()[1][0], "32.25")
        for expected in reversed(seen):
            self.press("Back")
            self.assertEqual(shown(), expected)
        self.press("Back")  # there is nothing before the first
        self.assert_step(0)

    def test_words(self):
        """A screen reader is told what each step does."""
        status = "[role=status]"
        self.assertIn("2 blocks of 4", self.text(status))
        self.press("Next")
        self.assertEqual(
            self.text(status), "Row 0, block 1 of 2, columns 0 to 3: 2² + (\u22121)² + 3² + 0.5² = "
            "14.25. The sum is now 14.25.")
        self.press("Next", "Next")
        self.assertIn("21.75 / 8 = 2.71875", self.text(status))
        self.assertIn("rstd = 1 / RMS = 0.6065", self.text(status))

    def test_keys(self):
        """The steps can be walked with the arrow keys, and the buttons pressed with Enter and Space."""
        self.js("root.querySelector('[type=range]').focus()")
        for key, step in ((Keys.ARROW_RIGHT, 1), (Keys.ARROW_RIGHT, 2), (Keys.ARROW_LEFT, 1),
                          (Keys.END, 15), (Keys.HOME, 0)):
            self.key(key)
            self.assert_step(step)
        self.js("root.querySelector('.figure-main').focus()")
        self.key(Keys.ENTER, Keys.SPACE)
        self.assert_step(2)
        self.key(Keys.ENTER * 20)  # the button keeps the focus at the end
        self.assert_step(15)
        self.assertEqual(self.js("document.activeElement.textContent"), "Next")

    def test_typing(self):
        """A number that is typed into x, the weight or eps changes what follows from it at once."""
        self.press("Last")
        self.write("x, row 0, column 0", "-10")
        self.assertEqual(self.rows()[0][0], "117.75")
        self.assertEqual(self.rows()[1:], ROWS[1:])
        self.write("weight 1", "0.5")
        rstd = 1 / math.sqrt(117.75 / 8 + EPS)
        self.assert_shows(self.table("y")[0][1], -0.5 * rstd)
        self.write("eps", "1")
        self.assert_shows(self.rows()[0][2], math.sqrt(117.75 / 8 + 1))
        self.press("Worked example")
        self.assertEqual(self.rows(), ROWS)

    def test_cells(self):
        """The arrow keys and Enter go from cell to cell within a column."""
        name = "document.activeElement.getAttribute('aria-label')"
        self.field("weight 2").click()
        self.key(Keys.ARROW_DOWN)
        self.assertEqual(self.js(name), "x, row 0, column 2")
        self.key(Keys.ENTER * 2)
        self.key(Keys.ARROW_DOWN)  # below the last row is nothing
        self.assertEqual(self.js(name), "x, row 2, column 2")
        self.key(Keys.ARROW_UP)
        self.assertEqual(self.js(name), "x, row 1, column 2")

    def test_bad_input(self):
        """What is no number is explained beside its cell and changes nothing until it is one."""
        self.press("Last")
        name = "x, row 1, column 2"
        cell = self.field(name)
        for text, why in (("abc", "is no number"), ("", "is empty"), ("--1", "is no number"),
                          ("1,5", "is no number"), ("1e99", "is out of range"),
                          ("NaN", "is no number"), ("Infinity", "is no number")):
            self.paste(name, text)
            is_invalid, message, below = self.js("""((cell) => {
              const text = document.getElementById(cell.getAttribute("aria-describedby"));
              return [cell.getAttribute("aria-invalid"), text.innerText,
                text.getBoundingClientRect().top - cell.getBoundingClientRect().bottom];
            })(arguments[0])""", cell)
            self.assertEqual(is_invalid, "true", text)
            for part in (f"{name}: ", why, "stays 2.5"):
                self.assertIn(part, message)
            self.assertLess(below, 20, text)
            self.assertEqual(self.rows(), ROWS, text)
        self.write(name, "1e-3")
        self.assertFalse(self.js("arguments[0].matches('[aria-invalid]')", cell))
        self.assertIsNone(self.complaint())
        self.assertEqual(self.rows()[1][0], "32.5")

    def test_bad_settings(self):
        """A bad size or eps is explained below its field and changes nothing."""
        self.press("Last")
        for label, texts in (("Rows", ("0", "9", "2.5", "", "-3")), ("Columns", ("0", "17", "")),
                             ("eps", ("-1", "2", "x", ""))):
            self.assert_refused(label, texts, "rite ", self.rows)
            self.press("Worked example", "Last")
            self.assertIsNone(self.complaint())
            self.assertEqual(self.rows(), ROWS)

    def test_mask(self):
        """Places of the last block beyond the row are masked, and count for nothing."""
        self.write("Columns", "6")
        self.press("Next", "Next")
        self.assertEqual(self.rows()[0][0], "16.75")
        self.assertIn("leaves out 2 places", self.text("[role=status]"))
        self.assertEqual(self.table("y")[0][6:], ["masked"] * 2)
        self.press("Last")
        self.assert_shows(self.rows()[0][1], 16.75 / 6, digits=5)

    def test_shapes(self):
        """Every shape and block size gives the right numbers, in the arithmetic and on the page."""
        random.seed(1)
        for rows, columns, block in ((1, 1, 1), (1, 1, 16), (8, 16, 1), (8, 16, 16), (3, 5, 4),
                                     (2, 9, 8), (5, 16, 2)):
            x = [[round(random.uniform(-9, 9), 2) for _ in range(columns)] for _ in range(rows)]
            weight = [round(random.uniform(-2, 2), 2) for _ in range(columns)]
            problem = {"x": x, "weight": weight, "eps": 0.01, "block": block}
            blocks = math.ceil(columns / block)
            state = self.js("""((problem) => {
              const count = figures.rmsNorm.stepsOf(problem).length;
              return {count, ...figures.rmsNorm.stateAfter(problem, count)};
            })(arguments[0])""", problem)
            self.assertEqual(state["count"], rows * (2 * blocks + 1))
            for r in range(rows):
                rstd = 1 / math.sqrt(sum(v * v for v in x[r]) / columns + 0.01)
                self.assertAlmostEqual(state["rows"][r]["rstd"], rstd, places=12)
                for c in range(columns):
                    self.assertAlmostEqual(state["y"][r][c], x[r][c] * rstd * weight[c], places=12)
            self.write("Rows", str(rows))
            self.write("Columns", str(columns))
            self.choose(self.field("Block size"), str(block))
            self.press("Random numbers", "Last")
            shown = self.table("x and weight")
            for x_row, y_row, numbers in zip(shown[1:], self.table("y"), self.rows()):
                values = [float(v) for v in x_row[:columns]]
                total = sum(v * v for v in values)
                rstd = 1 / math.sqrt(total / columns + EPS)
                self.assert_shows(numbers[0], total, digits=5)
                self.assertEqual(numbers[4], "done")
                for v, w, y in zip(values, shown[0], y_row):
                    expected = v * rstd * float(w)
                    self.assertAlmostEqual(number(y), expected, delta=0.00005001 + 1e-3 * abs(expected))

    def test_zeros(self):
        """A row of zeros gives zeros; with an eps of 0 it gives NaN, and the figure says so."""
        self.write("Rows", "1")
        self.write("Columns", "1")
        self.write("x, row 0, column 0", "0")
        self.press("Last")
        self.assertEqual(self.table("y")[0][0], "0")
        self.write("eps", "0")
        self.assertEqual(self.rows()[0][3], "\u221e")
        self.assertEqual(self.table("y")[0][0], "NaN")

    def test_columns(self):
        """The tables' heads stand above their columns, whatever styles the page has."""
        for width in (400, 1200):
            self.open(width=width)
            edges = self.js("""[...root.querySelectorAll("table")].map((table) => {
              const right = (cell) => Math.round(cell.getBoundingClientRect().right);
              return [[...table.tHead.rows[0].cells].map(right),
                [...table.tBodies[0].rows[0].cells].map(right)];
            })""")
            self.assertEqual(len(edges), 3)
            for heads, cells in edges:
                self.assertEqual(heads, cells)

    def test_reveal(self):
        """On a phone, the current block is scrolled into view within its table."""
        self.open(width=400)
        self.press("Next", "Next")
        box, first, last = self.js("""(() => {
          const now = root.querySelectorAll(".figure-read");
          const edges = (one) => [one.getBoundingClientRect().left, one.getBoundingClientRect().right];
          return [edges(now[0].closest(".figure-scroll")), edges(now[0]), edges(now[now.length - 1])];
        })()""")
        self.assertGreaterEqual(first[0], box[0])
        self.assertLess(first[1], box[1])
        self.assertTrue(last[1] <= box[1] + 1 or first[0] - box[0] < 100)  # or it does not fit
