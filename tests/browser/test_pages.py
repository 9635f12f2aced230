"""Runs the tests on the pages of a built site."""

import pathlib
import shutil
import sys
import unittest

from browser import PageTest, find_browser, start_browser
from figure_coalescing import CoalescingFigure  # pylint: disable=unused-import
from figure_ladder import LadderFigure  # pylint: disable=unused-import
from site_test import SiteTest  # pylint: disable=unused-import

SKIPPED = 4  # the exit code


def main(site, *options):
    """The program's exit code."""
    if not pathlib.Path(site, "index.html").exists():
        sys.exit(f"there is no site in {site}: ./rmsnorm docs builds it")
    for name, there in (("Chromium", find_browser()), ("chromedriver", shutil.which("chromedriver"))):
        if not there:
            print(f"skipped: there is no {name} here; on Debian, ./rmsnorm setup installs it",
                  file=sys.stderr)
            return SKIPPED
    PageTest.folder = pathlib.Path(site).resolve()
    PageTest.driver = start_browser()
    try:
        tests = ["LadderFigure", "CoalescingFigure", "SiteTest"]
        run = unittest.main(argv=[sys.argv[0], *options], defaultTest=tests, verbosity=2, exit=False)
    finally:
        PageTest.driver.quit()
    return 0 if run.result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
