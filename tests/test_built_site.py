"""The site as it was built: nothing leads nowhere, nothing comes from elsewhere, and it says what the
repository says. What a browser makes of it, browser/site_test.py tests.

usage: test_built_site.py FOLDER_OF_THE_SITE [options of unittest]. Run by CTest.
"""

import csv
import re
import struct
import sys
import unittest
from html.parser import HTMLParser
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
LESSONS = sorted(path for path in (TOP / "lessons").iterdir() if re.match(r"\d\d_", path.name))
VOID = {"area", "base", "br", "col", "hr", "img", "input", "link", "meta", "source", "wbr"}
LARGEST_PAGE = 300 * 1024  # bytes
# What people write for Markdown or Doxygen.
MARKS = ("```", "](", "**", "\\ref", "\\htmlonly", "\\subpage", "$`", "<!--")


class Element:
    """A tag's name, its attributes, and the text in it, without the tags inside."""

    def __init__(self, name, attributes):
        self.name = name
        self.attributes = {key: value or "" for key, value in attributes}
        self.text = ""

    def __getitem__(self, attribute):
        return self.attributes.get(attribute, "")

    def __contains__(self, attribute):
        return attribute in self.attributes


class Page(HTMLParser):
    """A page's source and its elements."""

    def __init__(self, file):
        super().__init__()
        self.source = file.read_text(encoding="utf-8")
        self.elements = []
        self._open = []
        self.feed(self.source)
        self.ids = {e[key] for e in self.elements for key in ("id", "name") if key in e}

    def handle_starttag(self, tag, attrs):
        self.elements.append(Element(tag, attrs))
        if tag not in VOID:
            self._open.append(self.elements[-1])

    def handle_endtag(self, tag):
        for i in reversed(range(len(self._open))):
            if self._open[i].name == tag:
                del self._open[i:]
                break

    def handle_data(self, data):
        for element in self._open:
            element.text += data


def is_elsewhere(address):
    return not address.startswith("data:") and ("://" in address or address.startswith("//"))


def lines_of(file):
    return file.read_text(encoding="utf-8").removesuffix("\n").split("\n")


class BuiltSite(unittest.TestCase):
    folder = None
    pages = {}  # by name: "index"
    page = "index"  # the one that is looked at
    maxDiff = None

    def each(self, *beginnings):
        """The pages whose names begin so, one after the other."""
        found = [name for name in self.pages if name.startswith(beginnings or "")]
        self.assertGreater(len(found), 0)
        for self.page in found:
            yield self.page, self.pages[self.page]

    def _formatMessage(self, msg, standardMsg):  # unittest's
        return f"{super()._formatMessage(msg, standardMsg)}\nin {self.page}.html"

    def test_every_lesson_and_every_page_about_all_of_them_is_in_the_site_and_in_its_tree(self):
        tree = (self.folder / "navtreedata.js").read_text(encoding="utf-8")
        self.assertIn("index", self.pages)
        for name in [f"lesson_{lesson.name}" for lesson in LESSONS] + [
                "method", "reading_the_charts", "cpu_device", "cpu_device_inside", "glossary", "results",
                "charts", "peers", "librmsnorm", "librmsnorm_kernels", "going_further", "contributing", "files",
                "your_turn_gated_norm", "your_turn_layer_norm", "your_turn_softmax"]:
            self.assertIn(name, self.pages)
            self.assertIn(f'"{name}.html"', tree)

    def mistake_in(self, page, address):
        """What is wrong with an address, or None."""
        path, _, anchor = address.partition("#")
        file = path.partition("?")[0] or f"{page}.html"
        if not (self.folder / file).exists():
            return f"{address}: there is no file {file}"
        target = self.pages.get(file.removesuffix(".html"))
        if anchor and target and anchor not in target.ids:
            return f"{address}: no such place in {file}"
        return None

    def test_every_address_leads_to_a_file_and_to_a_place_that_it_has(self):
        for name, page in self.each():
            addresses = {e[key] for e in page.elements
                         for key in ("href", "src", "srcset", "data", "xlink:href")}
            mistakes = {self.mistake_in(name, address) for address in addresses
                        if address and not is_elsewhere(address)
                        and not address.startswith(("data:", "javascript:"))}
            self.assertEqual(mistakes - {None}, set())

    def test_pages_lead_to_their_files_in_the_repository_or_none_does(self):
        links = {name: [e["href"] for e in page.elements if e.text == "Edit this page"]
                 for name, page in self.each()}
        files = {name: found[0].partition("/main/")[2] for name, found in links.items() if found}
        if not any(e.text == "Repository" for page in self.pages.values() for e in page.elements):
            self.assertEqual(files, {})
        elif files:
            self.assertEqual([file for file in files.values() if not (TOP / file).is_file()], [])
            for lesson in LESSONS:
                self.assertEqual(files[f"lesson_{lesson.name}"], f"lessons/{lesson.name}/README.md")

    def test_no_page_loads_anything_from_another_host(self):
        for _, page in self.each():
            for e in page.elements:
                words = ["xmlns", "xmlns:xlink", "title", "alt"]
                words += ["href"] if e.name == "a" else ["content"] if e.name == "meta" else []
                loaded = [value for key, value in e.attributes.items() if key not in words]
                self.assertEqual([value for value in loaded if is_elsewhere(value)], [], e.name)
        for file in self.folder.rglob("*.css"):
            text = file.read_text(encoding="utf-8")
            self.assertNotIn("@import", text, file)
            for url in re.findall(r"url\([\"']?([^\"')]*)", text):
                is_there = url.startswith("data:") or (file.parent / url).exists()
                self.assertTrue(is_there, f"{file}: {url}")

    def test_no_page_is_larger_than_300_kb(self):
        for _, page in self.each():
            self.assertLessEqual(len(page.source.encode()), LARGEST_PAGE)

    def test_headings_go_down_one_level_at_a_time_from_a_single_first_one(self):
        for _, page in self.each():
            levels = [int(e.name[1]) for e in page.elements if re.fullmatch(r"h\d", e.name)]
            self.assertEqual(levels.count(1), 1)
            self.assertTrue(all(b <= a + 1 for a, b in zip([0, *levels], levels)), levels)

    def test_every_picture_says_what_it_shows(self):
        for _, page in self.each():
            for e in page.elements:
                if e.name == "img":
                    least = 11 if e["src"].startswith("charts/") else 1
                    self.assertGreaterEqual(len(e["alt"]), least, e["src"])
                if e.name == "svg":
                    is_described = e["role"] == "img" and "aria-labelledby" in e
                    self.assertNotEqual(is_described, "aria-hidden" in e)

    def test_the_picture_that_a_link_shows_is_there_where_a_page_names_it(self):
        shown = [e for e in self.pages["index"].elements if e["property"] == "og:image"]
        self.assertEqual(len(shown), (self.folder / "card.png").exists())
        for e in shown:
            png = (self.folder / e["content"].split("/")[-1]).read_bytes()
            self.assertEqual(struct.unpack(">II", png[16:24]), (1200, 630))

    def test_the_ladder_is_the_first_of_all_charts_and_times_are_in_the_order_of_the_regimes(self):
        self.page = "charts"
        names = re.findall(r'<img class="only-light"[^>]* src="charts/(.*?)\.svg"',
                           self.pages["charts"].source)
        first = [name for name in names if name.startswith(("ladder", "progression_"))]
        self.assertEqual(names[:len(first)], first)
        self.assertEqual([name for name in first if not name.endswith("_warm")], [
            "ladder", "progression_prefill", "progression_batch_cold", "progression_decode_cold",
            "progression_heads", "progression_wide"])

    def test_an_explanation_of_the_glossary_follows_its_heading_whatever_names_it_has(self):
        text = self.pages["glossary"].source
        self.assertIn('<p class="meaning"><a id=', text)
        self.assertNotIn('</a><p class="meaning">', text)

    def test_no_page_is_a_list_of_nothing_and_the_first_says_its_name_once(self):
        self.assertFalse({"pages", "usergroup0"} & set(self.pages))
        self.assertIn("<title>RMSNorm, Step by Step</title>", self.pages["index"].source)

    def test_a_page_has_each_of_its_identifiers_once(self):
        for _, page in self.each():
            ids = [e["id"] for e in page.elements if "id" in e]
            self.assertEqual({one for one in ids if ids.count(one) > 1}, set())

    def test_no_page_shows_what_its_makers_write_for_markdown_or_doxygen(self):
        for _, page in self.each("lesson_", "index", "glossary", "method", "cpu_device"):
            prose = "\n".join(e.text for e in page.elements
                              if e.name in ("p", "li", "td") and e["class"] != "line")
            self.assertEqual([mark for mark in MARKS if mark in prose], [])

    def test_the_difference_that_a_page_shows_makes_one_kernel_of_the_other(self):
        for previous, after in zip(LESSONS, LESSONS[1:]):
            origin = re.search(r'\.starts_from = "(.+)"', (after / "rms_norm.cu").read_text())
            before = after.parent / origin[1] if origin else previous
            said = re.search(
                r"starts\s+from\s+lesson\s+(\d+)'s\s+kernel", (after / "README.md").read_text())
            self.assertEqual(said and said[1], origin and origin[1][:2])
            page = self.pages[f"lesson_{after.name}"]
            kinds = [e["class"] for e in page.elements if e.name == "tr"]
            kinds = [kind for kind in kinds if kind in ("both", "added", "removed")]
            lines = [e.text for e in page.elements if e.name == "td" and e["class"] == "line"]
            for lesson, other in ((before, "added"), (after, "removed")):
                shown = [line for kind, line in zip(kinds, lines, strict=True) if kind != other]
                code = lines_of(lesson / "rms_norm.cu")
                code = code[code.index("namespace {"):]  # without the file's head, and without marks
                self.assertEqual(shown, [line for line in code if not line.lstrip().startswith("// [")])
            size = (f'<span class="plus">+{kinds.count("added")}</span> '
                    f'<span class="minus">&minus;{kinds.count("removed")}</span>')
            self.assertIn(size, page.source)
            self.assertLess(page.source.index(">The kernel<"), page.source.index('<tr class="added">'))

    def test_every_written_page_ends_with_where_to_go(self):
        names = [f"lesson_{lesson.name}" for lesson in LESSONS] + [
            "index", "peers", "machine", "one_page", "figure_ladder", "your_turn_softmax"]
        for self.page in names:
            elements = self.pages[self.page].elements
            self.assertEqual([e.name for e in elements if e["class"].startswith("card next")], ["a"])

    def test_charts_are_named_by_what_they_show(self):
        heads = [e.text for e in self.pages["charts"].elements if e.name == "h2"]
        self.assertGreater(len(heads), 30)
        self.assertEqual([head for head in heads if head.count(" ") < 2], [])

    def test_the_pages_of_results_have_a_row_for_every_recorded_result(self):
        shown = [page for _, page in self.each("results")]
        names = [e.name for page in shown for e in page.elements]
        rows = names.count("tr") - names.count("thead")
        text = "".join(page.source for page in shown)
        recorded = 0
        for file in (TOP / "plots/data").glob("*.csv"):
            others = ("-loads.csv", "-ranks.csv", "-machine.csv", "-trace.csv", "mutants.csv",
                      "arithmetic.csv")
            if file.name.endswith(others):
                continue  # they are not results of kernels on a GPU
            results = list(csv.DictReader(lines_of(file)))
            recorded += len(results)
            if not file.name.endswith("-profile.csv"):
                self.assertEqual([r["version"] for r in results if r["version"] not in text], [])
        self.assertGreater(recorded, 0)
        self.assertGreaterEqual(rows, recorded)  # and those of the CPU device's counts

    def test_a_lesson_links_each_word_of_the_glossary_once_to_the_place_that_explains_it(self):
        for lesson in LESSONS:
            for _, page in self.each(f"lesson_{lesson.name}"):
                terms = [e for e in page.elements if e["class"] == "term"]
                self.assertGreaterEqual(len(terms), 3)
                self.assertEqual(len({e["href"] for e in terms}), len(terms))
                self.assertTrue(all(e["title"] for e in terms))


if __name__ == "__main__":
    BuiltSite.folder = Path(sys.argv.pop(1))
    BuiltSite.pages = {file.stem: Page(file) for file in sorted(BuiltSite.folder.glob("*.html"))}
    unittest.main()
