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

# Pages of every kind; each is also looked at in the dark.
KINDS = (
    "index", "lesson_01_sequential_cpu", "lesson_04_warp_reduce", "change_03_04", "kernel_04_warp_reduce",
    "results", "charts", "glossary", "method", "cpu_device", "contributing", "going_further", "files",
    "annotated", "lesson_8hpp", "structrmsnorm_1_1Lesson",
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
        self.assertGreater(len(values), 10)
        self.assertEqual(values, sorted(values))
        self.browser.click(head)
        self.assertEqual(self.browser.run(column), sorted(values, reverse=True))
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

    def test_a_lesson_can_be_read_with_the_keyboard(self):
        """The first stop leads past the navigation, and what has the focus is marked."""
        self.open("lesson_04_warp_reduce")
        self.browser.key("Tab")
        self.assertEqual(self.browser.run("document.activeElement.className"), "skip")
        self.assertGreaterEqual(self.browser.run("document.activeElement.getBoundingClientRect().x"), 0)
        names = [name for role, name in self.browser.accessible() if role == "navigation"]
        self.assertIn("The ladder", names)
        self.assertIn("Previous and next", names)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: test_site.py FOLDER_OF_THE_SITE [options of unittest]")
    SITE = pathlib.Path(sys.argv.pop(1)).resolve()
    if not (SITE / "index.html").exists():
        sys.exit(f"there is no site in {SITE}: ./rmsnorm docs builds it")
    if not browser.find():
        sys.exit("the site's tests need Chromium or Chrome: on Debian, ./rmsnorm setup installs it")
    unittest.main()
