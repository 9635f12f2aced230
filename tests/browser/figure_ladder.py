"""The figure of threads, warps and blocks: docs/interactive/ladder.js.

tests/test_recorded_steps.cpp checks that the record is what the kernels do. Here, what the figure
makes of it: the numbers that it shows have to be those of the rows.
"""

from selenium.webdriver.common.keys import Keys

from figure import FigureTest

SLUGS = ["02_naive", "03_shared_memory", "04_warp_reduce", "05_cub_warp_reduce", "06_float4",
         "07_multi_row", "08_registers"]
NARROW = 360  # CSS pixels


class LadderFigure(FigureTest):
    """The visualiser."""

    page = "figure_ladder"
    root = "[data-figure='ladder']"

    def set(self, slug, columns, step=0):
        """Chooses a lesson and a length, and goes to a step."""
        self.choose(self.field("Lesson"), slug)
        self.choose(self.field("Columns of a row"), str(columns))
        self.choose(self.field("Step"), str(step))

    def steps(self):
        """How many there are."""
        return int(self.js("root.querySelector('[type=range]').max"))

    def lanes(self):
        """What stands in the lanes of the chosen warp: [lane, text, note]."""
        return self.js("""[...root.querySelectorAll(".figure-lane")]
          .map((lane) => [...lane.children].map((part) => part.innerText.trim()))""")

    def assert_step(self, step, count=21):
        """So many steps of lesson 02 are done."""
        self.assertEqual(self.text(".figure-position"), f"step {step} of {count}")

    def states(self):
        yield
        for state in (("02_naive", 64, 1), ("02_naive", 20, 3), ("02_naive", 64, 4),
                      ("04_warp_reduce", 48, 5), ("06_float4", 64, 21), ("07_multi_row", 64, 1),
                      ("08_registers", 64, 8)):
            self.set(*state)
            yield

    def test_record(self):
        """There is every lesson in every length, and each row's sum is that of its squares."""
        runs = self.js("figures.ladder.runs.map(({slug, columns}) => [slug, columns])")
        self.assertEqual(runs, [[slug, columns] for slug in SLUGS for columns in (8, 16, 20, 32, 48, 64)])
        found = self.js("""figures.ladder.runs.map((run) => {
          const {sums} = figures.ladder.stateAfter(run, run.steps.length);
          const perRow = run.threads * run.blocks / figures.ladder.rows;
          return Array.from({length: run.threads / perRow}, (_, row) => sums[row * perRow]);
        })""")
        x = self.js("figures.ladder.x")
        for (slug, columns), sums in zip(runs, found):
            rows = 1 if slug < "07" else 16
            expected = [sum(v * v for v in x[row * columns:(row + 1) * columns]) for row in range(rows)]
            self.assertEqual(sums, expected, (slug, columns))

    def test_sums(self):
        """What a thread is shown to have is what it is recorded to bring to the next shuffle."""
        wrong = self.js("""figures.ladder.runs.flatMap((run) => run.steps.flatMap(([, access], done) => {
          const before = run.steps[done - 1]?.[1][0];
          if (access[0] !== "shuffle" || before !== "shuffle") return [];
          const {sums} = figures.ladder.stateAfter(run, done);
          const brought = Array.from({length: access[2]}, (_, thread) => access[4][thread] ?? 0);
          return brought.some((value, thread) => value !== sums[thread]) ? [[run.slug, done]] : [];
        }))""")
        self.assertEqual(wrong, [])

    def test_idle(self):
        """Who is idle is counted, and drawn so in the block and in the warp."""
        self.set("02_naive", 20, 1)
        self.assertIn("20 of 256 threads at work, 236 idle", self.text(".figure-counts"))
        self.assertEqual(self.js("root.querySelectorAll('.figure-dots .figure-active').length"), 20)
        self.assertEqual(self.lanes()[19:21], [["19", "19", "col"], ["20", "idle", ""]])
        self.set("06_float4", 20, 1)
        self.assertEqual(self.lanes()[4:6], [["4", "16\u201319", "cols"], ["5", "idle", ""]])
        self.set("07_multi_row", 20, 1)
        self.assertIn("80 of 128 threads at work, 48 idle", self.text(".figure-counts"))
        self.assertEqual(self.lanes()[8], ["8", "0\u20133", "row 1"])

    def test_ladder(self):
        """What the lessons save: barriers, steps, blocks."""
        for slug, barriers, blocks in (
                ("02_naive", 9, "16 blocks of 256"), ("04_warp_reduce", 2, "16 blocks of 256"),
                ("07_multi_row", 0, "1 block of 128"), ("08_registers", 0, "1 block of 128")):
            self.set(slug, 64)
            self.assertIn(f"0 of {barriers} barriers", self.text(".figure-counts"))
            self.assertIn(blocks, self.text("[role=status]"))
            self.press("Last")
            self.assertIn(f"{barriers} of {barriers} barriers", self.text(".figure-counts"))

    def test_words(self):
        """A screen reader is told what a step does, and the line of code stands above it."""
        for state, code, said in (
                (("02_naive", 8, 1), "sum += x[col] * x[col];",
                 "8 threads load x from global memory: a column each."),
                (("02_naive", 8, 3), "__syncthreads();", "All 256 threads wait"),
                (("02_naive", 20, 12), "partial[threadIdx.x + half];",
                 "8 threads add two numbers of partial in shared memory. Thread 0: 13 + 9 = 22."),
                (("04_warp_reduce", 20, 4), "__shfl_xor_sync", "Thread 0: 13 + 9 = 22."),
                (("04_warp_reduce", 20, 19), "y[col] =", "rstd is 1 / \u221a(83 / 20 + 0.00001) = 0.4909."),
                (("06_float4", 64, 1), "float4 v = x[i]", "16 threads load x from global memory: 4 col")):
            self.set(*state)
            self.assertIn(code, self.text(".figure-code"))
            self.assertIn(said, self.text("[role=status]"))

    def test_steps(self):
        """By the buttons, also with the keyboard, and by the slider."""
        self.assert_step(1)  # where something is to be seen
        self.press("Next", "Next", "Back")
        self.assert_step(2)
        self.press("First", "Back")
        self.assert_step(0)
        self.js("root.querySelector('[type=range]').focus()")
        for key, step in ((Keys.ARROW_RIGHT, 1), (Keys.ARROW_LEFT, 0), (Keys.END, 21)):
            self.key(key)
            self.assert_step(step)
        self.js("root.querySelector('.figure-main').focus()")
        self.key(Keys.ENTER, Keys.SPACE)  # it keeps the focus at the end
        self.assertEqual(self.js("document.activeElement.textContent"), "Next")

    def test_play(self):
        """It plays until it is paused or at the end; not for readers who want less motion."""
        self.press("Play")
        self.wait("root.querySelector('[type=range]').value > 1")
        self.press("Pause")
        step = self.text(".figure-position")
        self.assertEqual(self.text(".figure-buttons").split()[-1], "Play")
        self.set("08_registers", 8, 5)
        self.press("Play")
        self.wait("root.querySelector('.figure-position').innerText === 'step 6 of 6'")
        self.wait("root.querySelector('.figure-buttons').lastChild.innerText === 'Play'")
        self.assertNotEqual(step, "step 0 of 21")
        self.open(reduced_motion=True)
        self.assertNotIn("Play", self.text(".figure-buttons"))

    def test_warps(self):
        """The lanes of any warp can be seen."""
        self.set("02_naive", 64, 1)
        self.find(".figure-warps button:nth-child(2)").click()
        self.assertEqual(self.lanes()[31], ["31", "63", "col"])
        self.assertIn("Warp 1, threads 32 to 63", self.text(".figure-warps + .figure-title"))
        self.assertEqual(self.js("document.activeElement.getAttribute('aria-pressed')"), "true")

    def test_opens(self):
        """A lesson's page opens it at that lesson."""
        for slug in SLUGS:
            self.driver.get(f"{(self.folder / self.page).as_uri()}.html?lesson={slug[:2]}")
            self.assertEqual(self.js("root.querySelector('select').value"), slug)
        self.set("06_float4", 64, 5)
        self.driver.get(self.js("root.querySelector('.figure-position').href"))
        self.assertIn("step 5 of ", self.text(".figure-position"))
        self.assertEqual(self.js("root.querySelector('select').value"), "06_float4")

    def test_narrow(self):
        """No text reaches beyond its lane on the narrowest phone."""
        self.open(width=NARROW)
        for slug in ("02_naive", "04_warp_reduce", "07_multi_row"):
            self.set(slug, 64)
            for step in range(self.steps() + 1):
                self.set(slug, 64, step)
                self.assert_fits()
                wide = self.js("""[...root.querySelectorAll(".figure-lane")].filter((lane) =>
                  [...lane.children].some((part) => part.offsetWidth > lane.clientWidth + 1))
                  .map((lane) => lane.innerText)""")
                self.assertEqual(wide, [], (slug, step))
