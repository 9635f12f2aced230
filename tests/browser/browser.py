"""A headless Chromium, driven by selenium, and what each test of a page needs."""

import json
import os
import shutil
import unittest

from selenium import webdriver
from selenium.common.exceptions import NoSuchElementException, TimeoutException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
PHONE = 400  # CSS pixels
SECONDS = 10  # that a page has to do what it should

# The visible texts and fields whose contrast is less than 4.5, the least of WCAG 2, AA. What is behind
# a text is the mixture of its parents' colours. Drawings have their own test.
CONTRAST = """(() => {
  const parse = (colour) => {
    const [r, g, b, a = 1] = colour.match(/[\\d.]+/g).map(Number);
    return [r, g, b, a];
  };
  const over = (top, below) =>
    [...[0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])), 1];
  const luminance = (colour) => {
    const [r, g, b] = colour.slice(0, 3).map((c) => c / 255)
      .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const grounds = new Map([[null, [255, 255, 255, 1]]]);
  const behind = (element) => {
    if (!grounds.has(element)) {
      const own = parse(getComputedStyle(element).backgroundColor);
      grounds.set(element, over(own, behind(element.parentElement)));
    }
    return grounds.get(element);
  };
  const found = [];
  for (const element of root.querySelectorAll("*")) {
    const hasText = element.matches("input:not([type=radio], [type=range]), select") ||
      [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!hasText || element.closest("svg, script, style, option, .unseen, .katex-mathml")) continue;
    if (!element.checkVisibility({visibilityProperty: true, opacityProperty: true})) continue;
    const ground = behind(element);
    const text = over(parse(getComputedStyle(element).color), ground);
    const [dark, light] = [luminance(text), luminance(ground)].sort((a, b) => a - b);
    const ratio = (light + 0.05) / (dark + 0.05);
    if (ratio < 4.5) found.push(`${ratio.toFixed(2)}: ${element.outerHTML.slice(0, 160)}`);
  }
  return found.slice(0, 10);
})()"""


def find_browser():
    """The browser's program, or None. CHROMIUM names another one."""
    names = (os.environ.get("CHROMIUM"), *BROWSERS)
    return next((shutil.which(name) for name in names if name and shutil.which(name)), None)


def start_browser():
    """Selenium's driver of a browser with one tab; quit() ends both."""
    os.environ["no_proxy"] = "localhost"  # where chromedriver listens
    options = webdriver.ChromeOptions()
    options.binary_location = find_browser()
    for option in ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                   "--hide-scrollbars", "--no-first-run"):
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(service=Service(shutil.which("chromedriver")), options=options)
    driver.implicitly_wait(SECONDS)
    return driver


class PageTest(unittest.TestCase):
    """A test of a page, or of an element on it."""

    driver = None  # selenium's
    folder = None  # of the pages
    page = "index"
    root = "body"  # the element, as a selector
    maxDiff = None  # unittest's: all of what is expected and what is there

    def setUp(self):
        self.complaints()  # another test's
        self.open()

    def tearDown(self):
        self.js("localStorage.clear()")  # where a page keeps the chosen theme
        self.assertEqual(self.complaints(), [])

    def _formatMessage(self, msg, standardMsg):  # unittest's
        return f"{super()._formatMessage(msg, standardMsg)}\non {self.opened}"

    def open(self, page=None, width=1000, dark=False, reduced_motion=False):
        """Loads a page anew, in a window of this width, and waits until it has loaded."""
        page = page or self.page
        self.opened = f"{page}.html, {width} pixels wide{', dark' if dark else ''}"
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False})
        self.emulate(dark, reduced_motion)
        self.driver.get((self.folder / f"{page}.html").as_uri())

    def emulate(self, dark, reduced_motion=False):
        """Lets the reader's system ask for a theme, and for less motion."""
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion",
             "value": "reduce" if reduced_motion else "no-preference"}]})

    def complaints(self):
        """What went wrong since the last call: exceptions, errors and warnings of the console,
        files that are not there, and what a page asked of another host."""
        found = [entry["message"] for entry in self.driver.get_log("browser")
                 if entry["level"] in ("WARNING", "SEVERE")]
        for entry in self.driver.get_log("performance"):
            event = json.loads(entry["message"])["message"]
            said = event["params"]
            if event["method"] == "Network.loadingFailed" and not said.get("canceled"):
                found.append(f"a request fails: {said['errorText']}")
            elif (event["method"] == "Network.requestWillBeSent" and
                  not said["request"]["url"].startswith(("file:", "data:"))):
                found.append(f"a request to {said['request']['url']}")
        return found

    def js(self, expression, *arguments):
        """The value of a JavaScript expression of root and arguments; it waits for a promise's."""
        return self.driver.execute_script(
            f"const root = document.querySelector(`{self.root}`); return {expression}", *arguments)

    def wait(self, expression):
        """Waits until a JavaScript expression is true."""
        try:
            WebDriverWait(self.driver, SECONDS, 0.05).until(lambda _: self.js(expression))
        except TimeoutException:
            self.fail(f"after {SECONDS} seconds, this is still not true: {expression}")

    def find(self, selector):
        """An element below the root."""
        try:
            return self.driver.find_element("css selector", f"{self.root} {selector}")
        except NoSuchElementException:
            return self.fail(f"there is no {self.root} {selector}")

    def text(self, selector):
        """The text of an element below the root, or None if it is not shown."""
        return self.js("""((found) => (found?.checkVisibility() ? found.innerText : null))(
          root.querySelector(arguments[0]))""", selector)

    def accessible(self):
        """What a screen reader is told: (role, name) of each node of the accessibility tree."""
        nodes = self.driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
        return [(node["role"]["value"], node.get("name", {}).get("value", "").strip())
                for node in nodes if not node["ignored"]]

    def key(self, *keys):
        """Presses keys, one after the other, wherever the focus is."""
        ActionChains(self.driver, duration=0).send_keys(*keys).perform()

    def choose(self, field, value):
        """Chooses an option of a list, as a reader does who has opened it."""
        self.js("""((list, value) => {
          list.value = value;
          list.dispatchEvent(new Event("input", {bubbles: true}));
          list.dispatchEvent(new Event("change", {bubbles: true}));
        })(...arguments)""", field, value)

    def assert_fits(self):
        """The page does not scroll sideways."""
        wide, seen = self.js("[document.documentElement.scrollWidth, innerWidth]")
        self.assertLessEqual(wide, seen, "the page is wider than the window")

    def assert_contrast(self):
        """All text can be read."""
        self.assertEqual(self.js(CONTRAST), [], "contrast below 4.5")
