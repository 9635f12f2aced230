"""What every page promises."""

import unittest

PHONE = 400  # CSS pixels
NEED_NAMES = ("button", "textbox", "combobox", "radio", "slider", "spinbutton", "link", "checkbox")

# The least contrast of WCAG 2, AA: 4.5, or 3 for large text. The colour behind a text is that of the
# nearest element that has one.
CONTRASTS = """(root) => {
  const parse = (text) => {
    const [r, g, b, a = 1] = text.match(/[\\d.]+/g).map(Number);
    return {r, g, b, a};
  };
  const luminance = ({r, g, b}) => {
    const [x, y, z] = [r, g, b].map((c) => c / 255)
      .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour.a > 0) return colour;
    }
    return {r: 255, g: 255, b: 255};
  };
  const found = [];
  for (const element of root.querySelectorAll("*")) {
    const hasText = element.matches("input, select") ||
      [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    const isWithout = element.matches("option, [type=radio], [type=range]");
    if (!hasText || isWithout || !element.checkVisibility()) continue;
    const style = getComputedStyle(element);
    const levels = [luminance(parse(style.color)), luminance(behind(element))].sort((a, b) => b - a);
    const ratio = (levels[0] + 0.05) / (levels[1] + 0.05);
    const size = parseFloat(style.fontSize);
    const isLarge = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    if (ratio < (isLarge ? 3 : 4.5)) {
      found.push(`${element.className || element.tagName} ${element.textContent} ${ratio.toFixed(2)}`);
    }
  }
  return found;
}"""


class PageTest(unittest.TestCase):
    """A test of one page in one browser."""

    browser = None
    page = None  # its address
    root = "body"

    def __init__(self, method, browser, page):
        super().__init__(method)
        self.browser = browser
        self.page = page

    def setUp(self):
        self.open()

    def tearDown(self):
        self.assertEqual(self.browser.complaints(), [])

    def open(self, **how):
        """Loads the page anew."""
        self.browser.open(self.page, **how)

    def run_in(self, function):
        """The value of a JavaScript function of the figure's element, or of the page's body."""
        return self.browser.run(f"({function})(document.querySelector(`{self.root}`))")

    def text(self, selector):
        """The text of an element, or None if it is not shown."""
        return self.run_in(f"""(root) => {{
          const found = root.querySelector(`{selector}`);
          return found && found.checkVisibility() ? found.innerText : null;
        }}""")

    def press(self, text):
        """Clicks on the button with this text."""
        self.run_in(f"""(root) => {{
          root.querySelector("[data-pressed]")?.removeAttribute("data-pressed");
          [...root.querySelectorAll("button")].find((b) => b.textContent === "{text}")
            .setAttribute("data-pressed", "");
        }}""")
        self.browser.click(f"{self.root} [data-pressed]")

    def field(self, label):
        """A selector of the field that has this label."""
        self.run_in(f"""(root) => {{
          const label = [...root.querySelectorAll("label")].find((l) => l.textContent === "{label}");
          document.querySelector("[data-found]")?.removeAttribute("data-found");
          document.getElementById(label.htmlFor).setAttribute("data-found", "");
        }}""")
        return "[data-found]"

    def assert_fits(self):
        """The page does not scroll sideways."""
        wide, seen = self.browser.run("[document.documentElement.scrollWidth, innerWidth]")
        self.assertLessEqual(wide, seen)


class EveryPage(PageTest):
    """Any page of the site."""

    def test_loads(self):
        """A page loads without an error or a warning, and asks nothing of another host."""
        self.assertEqual(self.browser.complaints(), [])
        elsewhere = [url for url in self.browser.requests() if not url.startswith(("file:", "data:"))]
        self.assertEqual(elsewhere, [])

    def test_phone(self):
        """No page scrolls sideways on a phone of 400 pixels."""
        self.open(width=PHONE)
        self.assert_fits()

    def test_names(self):
        """Everything that can be used has a name for a screen reader."""
        nameless = [role for role, name in self.browser.accessible()
                    if role in NEED_NAMES and name.strip() == ""]
        self.assertEqual(nameless, [])


class FigureTest(PageTest):
    """What both interactive figures promise."""

    def states(self):
        """Brings the figure into its states, one after the other."""
        yield

    def test_contrast(self):
        """All text of a figure has the contrast of WCAG AA, in light and in dark."""
        for dark in (False, True):
            self.open(dark=dark)
            for _ in self.states():
                self.assertEqual(self.run_in(CONTRASTS), [], f"dark: {dark}")

    def test_phone(self):
        """In no state does a figure make the page scroll sideways on a phone."""
        self.open(width=PHONE)
        for _ in self.states():
            self.assert_fits()

    def test_theme(self):
        """A figure follows the system's theme, and the page's own choice before it."""
        background = "(root) => getComputedStyle(root).backgroundColor"
        self.open()
        light = self.run_in(background)
        self.open(dark=True)
        dark = self.run_in(background)
        self.assertNotEqual(light, dark)
        self.browser.run("document.documentElement.className = 'light-mode'")
        self.assertEqual(self.run_in(background), light)
        self.open()
        self.browser.run("document.documentElement.className = 'dark-mode'")
        self.assertEqual(self.run_in(background), dark)

    def test_keyboard(self):
        """The Tab key reaches everything that can be used, in the page's order, and it shows."""
        wanted = self.run_in("""(root) => {
          const all = [...root.querySelectorAll("input, select, button, [tabindex='0']")]
            .filter((one) => one.checkVisibility() && (one.type !== "radio" || one.checked));
          window.stops = all;
          window.stopOf = () => all.indexOf(document.activeElement);
          const before = document.createElement("button");
          root.before(before);
          before.focus();
          return all.length;
        }""")
        self.assertGreater(wanted, 5)
        for i in range(wanted):
            self.browser.key("Tab")
            self.assertEqual(self.browser.run("stopOf()"), i)
            self.assertTrue(self.browser.run("""(() => {
              const seen = document.activeElement.closest("label") || document.activeElement;
              return parseFloat(getComputedStyle(seen).outlineWidth) >= 2 &&
                getComputedStyle(seen).outlineStyle !== "none";
            })()"""), f"stop {i}")
        self.browser.key("Tab", shift=True)
        self.assertEqual(self.browser.run("stopOf()"), wanted - 2)

    def test_motion(self):
        """Nothing in a figure moves by itself, whether or not the reader asks for less motion."""
        for reduced in (False, True):
            self.open(reduced_motion=reduced)
            for _ in self.states():
                self.assertEqual(self.run_in("(root) => root.getAnimations({subtree: true}).length"), 0)
