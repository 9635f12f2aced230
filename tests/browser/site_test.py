"""The built site: its pages load, fit a phone and can be read in light and dark, with or without a
mouse; formulas, search, tables and the theme's switch do what they should."""

import base64
import csv
import re
from pathlib import Path

from selenium.webdriver.common.keys import Keys

from browser import PHONE, PageTest

# What is wider than the window, or reaches beyond its right edge outside of frames that scroll.
TOO_WIDE = """[
  ...[document.documentElement, ...document.querySelectorAll("#doc-content")]
    .filter((element) => element.scrollWidth > innerWidth),
  ...[...document.querySelectorAll(".contents *, .header *, #top *")].filter((element) =>
    element.getBoundingClientRect().right > innerWidth + 1 && element.checkVisibility() &&
    !element.closest(".unseen, .katex-mathml, svg, .ttc") &&
    !element.parentElement.closest(".scroll, .figure-scroll, .math.wide, .fragment, .memproto")),
].map((element) => element.outerHTML.slice(0, 120)).slice(0, 5)"""

# Pages of every kind; each is looked at in light and dark.
KINDS = (
    "index", "lesson_01_sequential_cpu", "lesson_04_warp_reduce", "lesson_16_eight_bits",
    "kernel_04_warp_reduce", "peers", "librmsnorm", "results", "charts", "glossary", "method", "cpu_device",
    "cpu_device_inside", "contributing", "going_further", "files", "annotated", "lesson_8hpp",
    "structrmsnorm_1_1Lesson", "classrmsnorm_1_1CudaError", "source_common_cpu_device_compiler_rewrite_cpp",
)

# The files of these pages: of a class, of its members, of a folder, of a file and of its text.
MADE_OF_CODE = re.compile(r"struct|class|union|dir_|source_|.*_8(hpp|cpp|cu|cuh|h|py)")

# The size of the smallest letters of the text, in points on paper.
LEAST_LETTERS = """Math.min(...[...document.querySelectorAll(".contents *")]
  .filter((element) => element.checkVisibility() &&
    [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim()))
  .map((element) => parseFloat(getComputedStyle(element).fontSize) * element.currentCSSZoom)) * 72 / 96"""

# Width and height in inches.
SHEETS = {"A4": (8.27, 11.69), "Letter": (8.5, 11)}

# The name of what has the focus, or null.
STOP = """((at) => at === document.body ? null : at.ariaLabel || at.textContent.trim() || at.id ||
  at.title || at.querySelector("img")?.alt || "")(document.activeElement)"""
IS_DARK = "document.documentElement.classList.contains('dark-mode')"


class SiteTest(PageTest):
    """The pages of the site."""

    page = "lesson_04_warp_reduce"

    def test_pages_load_without_a_complaint_or_a_foreign_request_and_fit_a_phone(self):
        """400 pixels wide. Every page that is written; of those that Doxygen makes of the code, every
        tenth, and those of long names."""
        pages = sorted(self.folder.glob("*.html"))
        made = [page for page in pages if MADE_OF_CODE.match(page.name)]
        written = [page for page in pages if page not in made]
        self.assertGreater(len(written), 60)
        longest = sorted(made, key=lambda page: len(page.name))[-20:]
        for page in sorted({*written, *made[::10], *longest}):
            with self.subTest(page=page.name):
                self.open(page.stem, width=PHONE)
                self.assertEqual(self.complaints(), [])
                self.assertEqual(self.js(TOO_WIDE), [], "these are wider than the window, or cut")

    def test_text_has_contrast_in_light_and_dark(self):
        """As the guidelines of the W3C ask."""
        for page in KINDS:
            self.open(page, width=1300, dark=True)
            for dark in (True, False):
                with self.subTest(page=page, dark=dark):
                    self.emulate(dark)
                    self.wait(f"{IS_DARK} === {str(dark).lower()}")
                    self.assert_contrast()

    def test_a_figure_wider_than_a_phone_says_that_it_scrolls(self):
        """And one that fits says nothing."""
        hint = "getComputedStyle(document.querySelector('figure.scroll'), '::before').content"
        self.open(width=PHONE)
        self.assertIn("scroll", self.js(hint))
        self.open(width=1300)
        self.assertEqual(self.js(hint), "none")

    def test_a_table_wider_than_a_phone_says_so_and_no_difference_is_wider_than_its_code(self):
        """Also when a fold opens only later. Letters of charts have 11 pixels at least."""
        self.open("peers", width=PHONE)
        self.js("document.querySelector('details:has(table) summary').click()")
        hint = "getComputedStyle(document.querySelector('details:has(table) .scroll'), '::before').content"
        self.wait(f"{hint}.includes('scroll')")
        self.assertGreaterEqual(self.js("document.querySelector('img.only-light').width"), 503)
        self.open(width=PHONE)
        self.js("document.querySelector('details:has(.diff)').open = true")
        self.assertLess(self.js("document.querySelector('.diff').scrollWidth"), 1000)

    def test_a_phone_shows_the_page_down_to_its_last_pixel(self):
        """With no blank strip below."""
        self.open(width=PHONE)
        below = "innerHeight - document.getElementById('doc-content').getBoundingClientRect().bottom"
        self.assertEqual(self.js(below), 0)
        self.js("document.querySelector('.cards').scrollIntoView()")  # and nothing scrolls away from it
        self.assertEqual(self.js(below), 0)

    def test_the_ladder_is_one_row_and_its_figure_plays_on_the_first_page(self):
        """And not for readers who want less motion."""
        self.open(width=1300)
        tops = "[...document.querySelectorAll('.ladder li')].map((one) => one.offsetTop)"
        self.assertEqual(len(set(self.js(tops))), 1)
        step = "document.querySelector('[data-plays] .figure-position').textContent"
        self.open("index")
        self.js("document.querySelector('[data-plays]').scrollIntoView()")
        self.wait(f"{step}.startsWith('step 2 ')")
        self.open("index", reduced_motion=True)
        self.js("document.querySelector('[data-plays]').scrollIntoView()")
        self.assertIn("step 1 ", self.js(step))

    def test_a_guess_is_compared_with_what_was_measured(self):
        """In the lesson's own table."""
        file = Path(__file__).resolve().parents[2] / "plots/data/nvidia-h200.csv"
        times = {(row["implementation"], row["dtype"]): float(row["median_us"])
                 for row in csv.DictReader(file.read_text().splitlines())
                 if row["regime"] == "prefill" and row["median_us"]}
        halved = f"{times['09_cache_policy', 'fp32'] / times['10_half_precision', 'bf16']:.1f}"
        factor = f"{times['02_naive/thread_per_row', 'fp32'] / times['02_naive', 'fp32']:.2f}"
        found = {}
        for page, factor in (("lesson_04_warp_reduce", "1.02"), ("lesson_02_naive", factor),
                             ("lesson_10_half_precision", None), ("lesson_12_launch_overlap", None),
                             ("lesson_14_backward", None)):
            self.open(page)
            self.find(".guess input").send_keys("1", Keys.ENTER)
            found[page] = self.text(".guess output")
            self.assertIn("times as fast as", found[page])
            if factor:
                self.assertIn(f"{factor} times", found[page])
        self.assertIn("03_shared_memory; your guess is 2 % too low", found["lesson_04_warp_reduce"])
        self.assertNotIn("fp32", found["lesson_12_launch_overlap"])
        self.assertIn(f"bf16: {halved}", found["lesson_10_half_precision"])  # beside fp32
        self.assertIn("two_passes", found["lesson_14_backward"])

    def test_paper_has_no_hints_and_answers_come_last(self):
        """In their order."""
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        shown = self.js("""[...document.querySelectorAll("[data-kind=hint]")]
          .filter((one) => one.checkVisibility()).length""")
        self.assertEqual(shown, 0)
        self.assertTrue(self.js("""Math.min(...[...document.querySelectorAll("[data-kind=answer]")]
          .map((one) => one.offsetTop)) > Math.max(...[...document.querySelectorAll("h2")]
          .map((one) => one.offsetTop))"""))

    def test_formulas_are_typeset(self):
        """And a screen reader gets them, too."""
        self.open("lesson_01_sequential_cpu")
        self.assertGreater(self.js("document.querySelectorAll('.math').length"), 0)
        self.assertEqual(self.js("""[...document.querySelectorAll(".math")]
          .filter((one) => !one.querySelector(".katex-html")).map((one) => one.textContent)"""), [])
        self.assertTrue(self.js("document.querySelector('.math math') !== null"))
        self.assertTrue(self.js(
            "document.fonts.ready.then(() => document.fonts.check('20px KaTeX_Main'))"))

    def test_the_switch_changes_the_theme_and_the_next_page_keeps_it(self):
        """With its charts and drawings."""
        def state():
            return self.js(f"""[{IS_DARK}, getComputedStyle(document.body).backgroundColor,
              getComputedStyle(document.querySelector("img.only-dark")).display,
              getComputedStyle(document.querySelector("img.only-light")).display]""")
        switch = "doxygen-awesome-dark-mode-toggle"
        light = state()
        self.assertEqual([light[0], *light[2:]], [False, "none", "block"])
        self.find(switch).click()
        dark = state()
        self.assertEqual([dark[0], *dark[2:]], [True, "block", "none"])
        self.assertNotEqual(light[1], dark[1])
        self.open("index")
        self.assertTrue(self.js(IS_DARK))
        self.find(switch).click()
        self.assertEqual(state(), light)

    def search(self, question):
        """Types a question, and waits until it is answered."""
        self.js("document.activeElement.blur()")
        self.key("/")
        self.js("document.activeElement.select()")
        self.key(question)
        self.js("search.load()")

    def test_search_finds_text_with_the_keyboard_alone(self):
        """Words of a page's text, its headings, and a word of the glossary."""
        self.open("lesson_02_naive")
        for question, expected in (("bank conflict", "glossary.html"), ("barrier protects", "lesson_"),
                                   ("rms_norm_bound", "rms__norm_8hpp")):
            with self.subTest(question=question):
                self.search(question)
                self.key(Keys.ARROW_DOWN)
                self.assertIn(expected, self.js("document.activeElement.href ?? ''"))
                self.key(Keys.ESCAPE)
                self.assertTrue(self.js("document.getElementById('search-results').hidden"))
        for question in ("coalescing", "quickstart", "vectorized load", "normalize"):
            with self.subTest(question=question):
                self.search(question)
                self.assertRegex(self.text("#search-results p"), r"^\d+ places$")
        self.search("barier")
        self.assertIn("for \u201cbarrier\u201d", self.text("#search-results p"))
        self.search("xyzzyx")
        self.assertIn("Nothing found", self.text("#search-results"))
        # What only leads to other pages is no text.
        self.assertTrue(self.js("search.entries.every(({text}) => !/What changed since/.test(text))"))

    def test_a_term_is_answered_by_the_glossary_then_the_lessons_then_the_rest(self):
        """In the singular and the plural; what is no term, by the page that is about it."""
        for question, term in (("bank conflict", "bank_conflict"), ("Barriers", "barrier"), ("L2", "L1")):
            with self.subTest(question=question):
                self.search(question)
                found = self.js("""[...document.querySelectorAll("#search-results a")]
                  .map((link) => link.getAttribute("href"))""")
                self.assertEqual(found[0], f"glossary.html#s_term_{term}")
                is_lesson = [one.startswith("lesson_") for one in found[1:]]
                self.assertGreaterEqual(is_lesson.count(True), 3)
                self.assertEqual(is_lesson, sorted(is_lesson, reverse=True))
        lessons = [one.partition("#")[0] for one in found if one.startswith("lesson_")]
        self.assertEqual(lessons, sorted(lessons))  # none has L2 in a heading
        self.search("contributing")
        self.assertEqual(self.js("document.querySelector('#search-results a').getAttribute('href')"),
                         "contributing.html")

    def test_on_a_phone_the_list_of_all_pages_is_a_drawer(self):
        """Which a button opens, and the Escape key closes."""
        self.open(width=PHONE)
        shown = "document.getElementById('side-nav').checkVisibility()"
        self.assertFalse(self.js(shown))
        self.find("button.all-pages").click()
        self.assertTrue(self.js(shown))
        self.wait("document.querySelector('#nav-tree a[href^=lesson_07]')?.checkVisibility()")
        self.key(Keys.ESCAPE)
        self.assertFalse(self.js(shown))

    def test_results_can_be_sorted_and_filtered(self):
        """By a number, both ways, and by the regime."""
        self.open("results")
        rows = "[...document.querySelectorAll('table.sortable tbody')[0].rows]"
        time = self.js("""[...document.querySelector('table.sortable thead tr').cells]
          .findIndex((head) => head.textContent === 'time, \u00b5s')""")
        column = rows + f""".map((row) => row.cells[{time}])
          .map((cell) => +(cell.dataset.value ?? cell.textContent))"""
        head = self.find(f"table.sortable thead th:nth-child({time + 1}) button")
        head.click()
        values = self.js(column)
        numbers = [value for value in values if value is not None]
        missing = [None] * (len(values) - len(numbers))
        self.assertGreater(len(numbers), 10)
        self.assertGreater(len(missing), 0)  # lesson 01 has no times: its rows come last, either way
        self.assertEqual(values, sorted(numbers) + missing)
        head.click()
        self.assertEqual(self.js(column), sorted(numbers, reverse=True) + missing)
        self.assertEqual(
            self.find("table.sortable th[aria-sort]").get_attribute("aria-sort"), "descending")
        filters = ".filters select"
        chosen = self.js(f"document.querySelector('{filters}').value")
        self.assertIn(", rms_norm", chosen)  # it begins with one case
        self.choose(self.find(filters), "heads, bf16, cold, rms_norm")
        shown = rows + """.filter((row) => row.checkVisibility())
          .map((row) => row.cells[4].textContent + row.cells[5].textContent)"""
        self.assertEqual(set(self.js(shown)), {"headsbf16"})
        verdict = "document.querySelector('.sortable th:last-child').checkVisibility()"
        self.assertFalse(self.js(verdict))
        self.find(".filters input").click()
        self.assertTrue(self.js(verdict))

    def test_a_lesson_can_be_read_with_the_keyboard(self):
        """The first stop leads past the navigation, and what has the focus is marked."""
        self.key(Keys.TAB)
        self.assertEqual(self.js("document.activeElement.className"), "skip")
        self.assertGreaterEqual(self.js("document.activeElement.getBoundingClientRect().x"), 0)

    def test_a_page_has_its_landmarks(self):
        """The text, what leads elsewhere, and the search."""
        found = self.accessible()
        self.assertEqual([role for role, _ in found if role == "main"], ["main"])
        for name in ("All pages", "The ladder", "Previous and next"):
            self.assertIn(("navigation", name), found)
        self.assertIn(("searchbox", "Search"), found)

    def sheets_of(self, page, size):
        """How many sheets of paper a page is printed on."""
        self.open(page)
        width, height = SHEETS[size]
        pdf = self.driver.execute_cdp_cmd(
            "Page.printToPDF", {"paperWidth": width, "paperHeight": height})
        return len(re.findall(rb"/Type\s*/Page\b", base64.b64decode(pdf["data"])))

    def test_the_page_to_keep_prints_on_one_sheet_and_can_be_read(self):
        """Of A4 or of Letter, in letters of 6.5 points at least."""
        for size in SHEETS:
            with self.subTest(size=size):
                self.assertGreater(self.sheets_of("lesson_04_warp_reduce", size), 1)
                self.assertEqual(self.sheets_of("one_page", size), 1)
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        self.assertGreaterEqual(self.js(LEAST_LETTERS), 6.5)
        self.assertFalse(self.js("document.getElementById('side-nav').checkVisibility()"))

    def stops(self):
        """Presses the Tab key until the page ends; the name of what has the focus each time."""
        for _ in range(400):
            self.key(Keys.TAB)
            name = self.js(STOP)
            if name is None:
                return
            yield name

    def tab_to(self, wanted):
        """Presses the Tab key until what has this name has the focus."""
        stops = []
        for name in self.stops():
            stops.append(name)
            if name == wanted:
                return stops
        return self.fail(f"the Tab key does not reach {wanted!r}, but {stops}")

    def focused(self, attribute):
        """An attribute of what has the focus."""
        return self.driver.switch_to.active_element.get_dom_attribute(attribute)

    def test_the_theme_can_be_switched_with_the_keyboard(self):
        """By Enter and by the space bar; a screen reader is told which theme it is."""
        self.wait("document.querySelector('doxygen-awesome-dark-mode-toggle') !== null")
        self.assertLessEqual(len(self.tab_to("Dark theme")), 10)
        self.assertEqual([self.focused("role"), self.focused("aria-pressed")], ["button", "false"])
        self.key(Keys.ENTER)
        self.assertTrue(self.js(IS_DARK))
        self.assertEqual(self.focused("aria-pressed"), "true")
        self.key(Keys.SPACE)
        self.assertFalse(self.js(IS_DARK))

    def test_code_can_be_copied_with_the_keyboard(self):
        """The button can be seen while it has the focus."""
        self.open("kernel_04_warp_reduce")
        self.tab_to("Copy the code")
        self.assertEqual(self.js("getComputedStyle(document.activeElement).opacity"), "1")
        self.key(Keys.ENTER)
        self.wait("document.activeElement.classList.contains('success')")

    def test_the_contents_of_a_page_open_with_the_keyboard_on_a_phone(self):
        """And their links cannot be reached before."""
        self.open(width=PHONE)
        shown = "document.querySelector('.toc ul a').checkVisibility({visibilityProperty: true})"
        self.assertFalse(self.js(shown))
        self.tab_to("On this page")
        self.assertEqual([self.focused("role"), self.focused("aria-expanded")], ["button", "false"])
        self.key(Keys.ENTER)
        self.assertTrue(self.js(shown))
        self.assertEqual(self.focused("aria-expanded"), "true")

    def test_every_stop_of_the_tab_key_can_be_seen_and_has_a_name(self):
        """No arrows of the tree, no hidden checkbox."""
        for page in ("lesson_04_warp_reduce", "files"):
            with self.subTest(page=page):
                self.open(page)
                stops = list(self.stops())
                self.assertGreater(len(stops), 10)
                bad = {"", "\u25ba", "\u25bc", "main-menu-state"}.intersection(stops)
                self.assertEqual(bad, set(), stops)
