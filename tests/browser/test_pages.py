"""Runs the tests on pages: those of a built site, or a page of its own for each figure."""

import pathlib
import shutil
import sys
import tempfile
import unittest

from browser import PageTest, find_browser, start_browser
from figure_coalescing import CoalescingFigure  # pylint: disable=unused-import
from figure_ladder import LadderFigure  # pylint: disable=unused-import
from site_test import SiteTest  # pylint: disable=unused-import

SKIPPED = 4  # the exit code
INTERACTIVE = pathlib.Path(__file__).parent.parent.parent / "docs" / "interactive"


# As the site's: what the system asks for, unless the page has chosen.
THEME = """
html { color-scheme: light dark; }
html.light-mode { color-scheme: light; }
html.dark-mode { color-scheme: dark; }
body { background: Canvas; }
"""


def write_pages(folder):
    """A page for each figure, beside their scripts and styles."""
    shutil.copytree(INTERACTIVE, folder, dirs_exist_ok=True)
    for file in INTERACTIVE.glob("*.html"):
        name, fragment = f"figure_{file.stem}", file.read_text(encoding="utf-8")
        (folder / f"{name}.html").write_text(
            '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width">\n'
            f"<style>{THEME}</style>\n"
            f"<title>{name}</title>\n<h1>{name}</h1>\n{fragment}\n</html>\n", encoding="utf-8")


def main(options):
    """The program's exit code."""
    site = options.pop(0) if options and not options[0].startswith("-") else None
    if site and not pathlib.Path(site, "index.html").exists():
        sys.exit(f"there is no site in {site}: ./rmsnorm docs builds it")
    for name, there in (("Chromium", find_browser()), ("chromedriver", shutil.which("chromedriver"))):
        if not there:
            print(f"skipped: there is no {name} here; on Debian, ./rmsnorm setup installs it",
                  file=sys.stderr)
            return SKIPPED
    with tempfile.TemporaryDirectory(prefix="rmsnorm-pages-") as own:
        if not site:
            write_pages(pathlib.Path(own))
        PageTest.folder = pathlib.Path(site or own).resolve()
        PageTest.driver = start_browser()
        try:
            tests = ["LadderFigure", "CoalescingFigure", *(["SiteTest"] if site else [])]
            run = unittest.main(argv=[sys.argv[0], *options], defaultTest=tests, verbosity=2, exit=False)
        finally:
            PageTest.driver.quit()
    return 0 if run.result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
