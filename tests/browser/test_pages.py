"""Runs the tests on pages: those of the command line, or a page of its own for each figure."""

import pathlib
import sys
import tempfile
import unittest

import browser
from checks import EveryPage
from figure_coalescing import CoalescingFigure
from figure_rms_norm import RmsNormFigure

NO_BROWSER = 4
FIGURES = (RmsNormFigure, CoalescingFigure)
INTERACTIVE = pathlib.Path(__file__).parent.parent.parent / "docs" / "interactive"
PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{name}</title>
<h1>{name}</h1>
{fragment}
</html>
"""


def pages_of_figures(folder):
    """A page for each figure and one with both, beside their scripts and styles."""
    fragments = {}
    for file in sorted(INTERACTIVE.iterdir()):
        text = file.read_text(encoding="utf-8")
        if file.suffix == ".html":
            fragments[file.stem] = text
        else:
            (folder / file.name).write_text(text, encoding="utf-8")
    fragments["both"] = "\n".join(fragments.values())
    for name, fragment in fragments.items():
        page = folder / f"{name}.html"
        page.write_text(PAGE.format(name=name, fragment=fragment), encoding="utf-8")
        yield page


def tests_of(open_browser, page, tested):
    """The tests of a page and of the figures on it, but for those that were tested on another."""
    address = page.resolve().as_uri()
    open_browser.open(address)
    figures = [one for one in FIGURES if one not in tested and
               open_browser.run(f"document.querySelector(`{one.root}`) !== null")]
    tested.extend(figures)
    loader = unittest.TestLoader()
    for one in [EveryPage] + figures:
        for method in loader.getTestCaseNames(one):
            yield one(method, open_browser, address)


def main(arguments):
    """The program's exit code."""
    if browser.find() is None:
        print("skipped: there is no Chromium here", file=sys.stderr)
        return NO_BROWSER
    missing = [name for name in arguments if not pathlib.Path(name).is_file()]
    if missing:
        print(f"there is no page {missing[0]}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="rmsnorm-pages-") as folder:
        pages = [pathlib.Path(name) for name in arguments] or list(
            pages_of_figures(pathlib.Path(folder)))
        passed = True
        tested = []
        with browser.Browser() as open_browser:
            for page in pages:
                print(page.name, file=sys.stderr)
                suite = unittest.TestSuite(tests_of(open_browser, page, tested))
                passed = unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful() and passed
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
