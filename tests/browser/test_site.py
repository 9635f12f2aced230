#!/usr/bin/env python3
"""The built site in a browser: python3 test_site.py build/docs/html

Every page loads without a complaint and without a request to another host, is no wider than a phone, and
can be read in light and dark; formulas, search, tables and the theme's switch do what they should.
"""

import pathlib
import sys
import unittest

import browser

SITE = None
NO_BROWSER = 4  # the exit code
PHONE = 400  # CSS pixels

# The lowest contrast of a text with what is behind it, and where; drawings have their own test.
CONTRAST = """(() => {
  const parse = (colour) => {
    const n = colour.match(/[\\d.]+/g).map(Number);
    return n.length === 3 ? [...n, 1] : n;
  };
  const over = (top, below) => {
    const mix = (i) => top[i] * top[3] + below[i] * (1 - top[3]);
    return [mix(0), mix(1), mix(2), 1];
  };
  const light = ([r, g, b]) => {
    const part = (c) => (c / 255 <= 0.03928 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4);
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  const behind = (element) => {
    const layers = [];
    for (let e = element; e; e = e.parentElement) layers.push(parse(getComputedStyle(e).backgroundColor));
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255, 1]);
  };
  let worst = [21, "", ""];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!node.data.trim() || element.closest("svg, script, style, .unseen, .katex-mathml")) continue;
    if (!element.checkVisibility({ visibilityProperty: true, opacityProperty: true })) continue;
    const ground = behind(element);
    const text = over(parse(getComputedStyle(element).color), ground);
    const [a, b] = [light(text), light(ground)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < worst[0]) worst = [ratio, node.data.trim().slice(0, 40), element.outerHTML.slice(0, 120)];
  }
  return worst;
})()"""

# What reaches beyond the page's right edge, outside of frames that scroll.
CUT = """[...document.querySelectorAll(".contents *, .header *, #top *")].filter((element) => {
  if (element.getBoundingClientRect().right <= innerWidth + 1) return false;
  if (element.closest(".unseen, .katex-mathml, svg, .ttc") || !element.checkVisibility()) return false;
  return !element.parentElement.closest(
    ".scroll, .figure-scroll, .math.wide, .fragment, .memproto");
}).map((element) => element.outerHTML.slice(0, 120)).slice(0, 3)"""

# Pages of every kind; each is also looked at in the dark.
KINDS = (
    "index", "lesson_01_sequential_cpu", "lesson_04_warp_reduce", "change_03_04", "kernel_04_warp_reduce",
    "results", "charts", "glossary", "method", "cpu_device", "contributing", "going_further", "files",
    "annotated", "lesson_8hpp", "structrmsnorm_1_1Lesson", "classrmsnorm_1_1CudaError",
    "source_common_cpu_device_rewrite_cpp",
)


class Site(unittest.TestCase):
    """One browser for all tests."""

    @classmethod
    def setUpClass(cls):
        cls.browser = browser.Browser()
        cls.browser.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.browser.__exit__()

    def open(self, page, **options):
        """Opens a page of the site."""
        self.browser.open((SITE / f"{page}.html").as_uri(), **options)

    def switch_theme(self):
        """Clicks on the theme's switch, which a script adds soon after the page has loaded."""
        name = "doxygen-awesome-dark-mode-toggle"
        self.browser.run(f"""new Promise((done) => {{
          const look = () => (document.querySelector("{name}") ? done() : setTimeout(look, 10));
          look();
        }})""")
        self.browser.click(name)

    def test_every_page_loads_without_a_complaint_or_a_foreign_request_and_fits_a_phone(self):
        """Every page, 400 pixels wide."""
        pages = sorted(SITE.glob("*.html"))
        self.assertGreater(len(pages), 20)
        for page in pages:
            with self.subTest(page=page.name):
                self.open(page.stem, width=PHONE)
                wide = self.browser.run("document.documentElement.scrollWidth")
                self.assertLessEqual(wide, PHONE)
                inside = self.browser.run("document.querySelector('#doc-content')?.scrollWidth ?? 0")
                self.assertLessEqual(inside, PHONE)
                self.assertEqual(self.browser.run(CUT), [])
                self.assertEqual(self.browser.complaints(), [])
                foreign = [url for url in self.browser.requests() if not url.startswith(("file:", "data:"))]
                self.assertEqual(foreign, [])

    def test_text_has_contrast_in_light_and_dark(self):
        """4.5 to 1, as the guidelines of the W3C ask."""
        for page in KINDS:
            for dark in (False, True):
                with self.subTest(page=page, dark=dark):
                    self.open(page, width=1300, dark=dark)
                    ratio, text, where = self.browser.run(CONTRAST)
                    self.assertGreaterEqual(ratio, 4.5, f"{text!r} in {where}")

    def test_a_figure_wider_than_a_phone_says_that_it_scrolls(self):
        """And one that fits says nothing."""
        hint = "getComputedStyle(document.querySelector('figure.scroll'), '::before').content"
        self.open("lesson_04_warp_reduce", width=PHONE)
        self.assertIn("scroll", self.browser.run(hint))
        self.open("lesson_04_warp_reduce", width=1300)
        self.assertEqual(self.browser.run(hint), "none")

    def test_formulas_are_typeset(self):
        """And a screen reader gets them, too."""
        self.open("lesson_01_sequential_cpu")
        self.assertGreater(self.browser.run("document.querySelectorAll('.math').length"), 0)
        self.assertEqual(self.browser.run(
            "[...document.querySelectorAll('.math')].filter(m => !m.querySelector('.katex-html')).length"), 0)
        self.assertTrue(self.browser.run("document.querySelector('.math math') !== null"))
        self.assertTrue(self.browser.run("document.fonts.ready.then(() => document.fonts.check('20px KaTeX_Main'))"))

    def test_the_switch_changes_the_theme_and_the_next_page_keeps_it(self):
        """With its charts and drawings."""
        state = """(() => [document.documentElement.classList.contains("dark-mode"),
          getComputedStyle(document.body).backgroundColor,
          getComputedStyle(document.querySelector("img.only-dark")).display,
          getComputedStyle(document.querySelector("img.only-light")).display])()"""
        self.open("lesson_04_warp_reduce")
        light = self.browser.run(state)
        self.assertEqual([light[0], *light[2:]], [False, "none", "block"])
        self.switch_theme()
        dark = self.browser.run(state)
        self.assertEqual([dark[0], *dark[2:]], [True, "block", "none"])
        self.assertNotEqual(light[1], dark[1])
        self.open("index")
        self.assertEqual(self.browser.run(state)[0], True)
        self.switch_theme()
        self.assertEqual(self.browser.run(state), light)

    def test_search_finds_text_with_the_keyboard_alone(self):
        """Words of a page's text, its headings, and a word of the glossary."""
        self.open("lesson_02_naive")
        for question, expected in (("bank conflict", "glossary.html"), ("barrier protects", "lesson_"),
                                   ("relative_error_bound", "verifier_8hpp")):
            with self.subTest(question=question):
                self.browser.run("document.activeElement.blur()")
                self.browser.key("/")
                self.browser.run("document.activeElement.select()")
                self.browser.type(question)
                self.browser.run("search.load()")
                self.browser.key("ArrowDown")
                address = self.browser.run("document.activeElement.href ?? ''")
                self.assertIn(expected, address)
                self.browser.key("Escape")
                self.assertTrue(self.browser.run("document.getElementById('search-results').hidden"))
        self.browser.key("/")
        self.browser.run("document.activeElement.select()")
        self.browser.type("xyzzyx")
        self.assertIn("Nothing found", self.browser.run("document.getElementById('search-results').textContent"))

    def test_results_can_be_sorted_and_filtered(self):
        """By a number, both ways, and by the regime."""
        self.open("results")
        column = "[...document.querySelectorAll('table.sortable tbody')[0].rows].map(r => +r.cells[7].dataset.value)"
        head = "table.sortable thead th:nth-child(8) button"
        self.browser.click(head)
        values = self.browser.run(column)
        numbers = [value for value in values if value is not None]
        missing = [None] * (len(values) - len(numbers))
        self.assertGreater(len(numbers), 10)
        self.assertGreater(len(missing), 0)  # lesson 01 has no times: its rows come last, either way
        self.assertEqual(values, sorted(numbers) + missing)
        self.browser.click(head)
        self.assertEqual(self.browser.run(column), sorted(numbers, reverse=True) + missing)
        self.assertEqual(self.browser.run(
            "document.querySelector('table.sortable th[aria-sort]').getAttribute('aria-sort')"), "descending")
        self.browser.choose(".results select", "heads")
        shown = self.browser.run("""[...new Set([...document.querySelectorAll("table.sortable tbody")[0].rows]
          .filter(row => row.checkVisibility()).map(row => row.dataset.regime))]""")
        self.assertEqual(shown, ["heads"])

    def test_unchanged_lines_of_a_difference_unfold(self):
        """By a click."""
        self.open("change_03_04")
        count = "[...document.querySelectorAll('.diff td.line')].filter(td => td.checkVisibility()).length"
        before = self.browser.run(count)
        folds = self.browser.run("document.querySelectorAll('.diff .fold').length")
        self.assertGreater(folds, 0)
        self.browser.click(".diff .fold button")
        self.assertGreater(self.browser.run(count), before)

    def test_after_unfolding_with_the_keyboard_the_focus_is_on_the_lines_shown(self):
        """And not at the top of the page."""
        self.open("change_03_04")
        line = self.browser.run("document.querySelector('.diff .folded tr').textContent")
        self.browser.run("document.querySelector('.diff .fold button').focus()")
        self.browser.key("Enter")
        self.assertEqual(self.browser.run("document.activeElement.textContent"), line)

    def test_a_lesson_can_be_read_with_the_keyboard(self):
        """The first stop leads past the navigation, and what has the focus is marked."""
        self.open("lesson_04_warp_reduce")
        self.browser.key("Tab")
        self.assertEqual(self.browser.run("document.activeElement.className"), "skip")
        self.assertGreaterEqual(self.browser.run("document.activeElement.getBoundingClientRect().x"), 0)
        names = [name for role, name in self.browser.accessible() if role == "navigation"]
        self.assertIn("The ladder", names)
        self.assertIn("Previous and next", names)

    def stops(self, limit=400):
        """What the Tab key reaches, in order: a name or a text for each, until the page ends."""
        found = []
        for _ in range(limit):
            self.browser.key("Tab")
            name = self.browser.run("""(() => {
              const at = document.activeElement;
              if (at === document.body) return null;
              return at.ariaLabel || at.id || at.textContent.trim() || at.title || at.querySelector("img")?.alt || "";
            })()""")
            if name is None:
                break
            found.append(name)
        return found

    def tab_to(self, name, limit=400):
        """Presses the Tab key until what has this label or text has the focus."""
        for _ in range(limit):
            self.browser.key("Tab")
            if self.browser.run("""(document.activeElement.getAttribute("aria-label") ??
              document.activeElement.textContent.trim())""") == name:
                return
        self.fail(f"the Tab key does not reach {name!r}")

    def focused(self, attribute):
        """An attribute of what has the focus."""
        return self.browser.run(f"document.activeElement.getAttribute('{attribute}')")

    def test_the_theme_can_be_switched_with_the_keyboard(self):
        """By Enter and by the space bar; a screen reader is told which theme it is."""
        self.open("lesson_04_warp_reduce")
        self.tab_to("Dark theme", limit=10)
        self.assertEqual([self.focused("role"), self.focused("aria-pressed")], ["button", "false"])
        self.browser.key("Enter")
        self.assertTrue(self.browser.run("document.documentElement.classList.contains('dark-mode')"))
        self.browser.run("1")
        self.assertEqual(self.focused("aria-pressed"), "true")
        self.browser.key(" ")
        self.assertFalse(self.browser.run("document.documentElement.classList.contains('dark-mode')"))

    def test_code_can_be_copied_with_the_keyboard(self):
        """The button can be seen while it has the focus."""
        self.open("kernel_04_warp_reduce")
        self.tab_to("Copy the code")
        self.assertEqual(self.browser.run("getComputedStyle(document.activeElement).opacity"), "1")
        self.browser.key("Enter")
        self.assertTrue(self.browser.run("document.activeElement.classList.contains('success')"))

    def test_the_contents_of_a_page_open_with_the_keyboard_on_a_phone(self):
        """And their links cannot be reached before."""
        self.open("lesson_04_warp_reduce", width=PHONE)
        shown = "document.querySelector('.toc ul a').checkVisibility({visibilityProperty: true})"
        self.assertFalse(self.browser.run(shown))
        self.tab_to("On this page")
        self.assertEqual([self.focused("role"), self.focused("aria-expanded")], ["button", "false"])
        self.browser.key("Enter")
        self.assertTrue(self.browser.run(shown))
        self.assertEqual(self.focused("aria-expanded"), "true")

    def test_every_stop_of_the_tab_key_can_be_seen_and_has_a_name(self):
        """No arrows of the tree, no hidden checkbox."""
        for page in ("lesson_04_warp_reduce", "files"):
            with self.subTest(page=page):
                self.open(page)
                stops = self.stops()
                self.assertGreater(len(stops), 10)
                bad = [stop for stop in stops if stop in ("", "►", "▼", "main-menu-state")]
                self.assertEqual(bad, [])

    def test_a_page_has_its_landmarks(self):
        """The text, the tree of pages and the search."""
        self.open("lesson_04_warp_reduce")
        found = self.browser.accessible()
        self.assertEqual([role for role, _ in found if role == "main"], ["main"])
        self.assertIn(("navigation", "All pages"), found)
        self.assertIn(("searchbox", "Search"), found)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: test_site.py FOLDER_OF_THE_SITE [options of unittest]")
    SITE = pathlib.Path(sys.argv.pop(1)).resolve()
    if not (SITE / "index.html").exists():
        sys.exit(f"there is no site in {SITE}: ./rmsnorm docs builds it")
    if not browser.find():
        print("skipped: there is no Chromium here; on Debian, ./rmsnorm setup installs it", file=sys.stderr)
        sys.exit(NO_BROWSER)
    unittest.main()
