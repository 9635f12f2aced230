"""What pages with interactive figures promise, and what both figures do."""

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from browser import PHONE, PageTest

NEED_NAMES = ("button", "textbox", "combobox", "radio", "slider", "spinbutton", "link", "checkbox")


class FigurePage(PageTest):
    """A page with figures."""

    def states(self):
        """Brings the figure into its states, one after the other."""
        yield

    def test_names(self):
        """Everything that can be used has a name for a screen reader."""
        used = [(role, name) for role, name in self.accessible() if role in NEED_NAMES]
        self.assertGreater(len(used), 5)
        self.assertEqual([role for role, name in used if name == ""], [])

    def test_states(self):
        """In no state does a figure make the page scroll sideways on a phone, or move by itself; all its
        text has contrast, in light and in dark."""
        for how in ({"width": PHONE}, {"dark": True, "reduced_motion": True}, {}):
            self.open(**how)
            for state, _ in enumerate(self.states()):
                with self.subTest(state=state):
                    self.assert_fits()
                    self.assert_contrast()
                    self.assertEqual(self.js("root.getAnimations({subtree: true}).length"), 0)


class FigureTest(FigurePage):
    """What a figure promises."""

    def press(self, text):
        """Clicks on the button with this text."""
        self.js("[...root.querySelectorAll('button')].find((b) => b.textContent === arguments[0])",
                text).click()

    def field(self, label):
        """The field that has this label."""
        return self.js(
            "[...root.querySelectorAll('label')].find((l) => l.textContent === arguments[0]).control",
            label)

    def test_theme(self):
        """A figure follows the system's theme, and the page's own choice before it."""
        background = "getComputedStyle(root).backgroundColor"
        light = self.js(background)
        self.open(dark=True)
        dark = self.js(background)
        self.assertNotEqual(light, dark)
        self.js("document.documentElement.className = 'light-mode'")
        self.assertEqual(self.js(background), light)
        self.open()
        self.js("document.documentElement.className = 'dark-mode'")
        self.assertEqual(self.js(background), dark)

    def test_keyboard(self):
        """The Tab key reaches everything that can be used, in the page's order, and it shows."""
        wanted = self.js("""(() => {
          const all = [...root.querySelectorAll("input, select, button, [tabindex='0']")]
            .filter((one) => one.checkVisibility() && (one.type !== "radio" || one.checked));
          window.stops = [];
          root.addEventListener("focusin", ({target}) => {
            const style = getComputedStyle(target.closest("label") || target);
            const shows = parseFloat(style.outlineWidth) >= 2 && style.outlineStyle !== "none";
            stops.push([all.indexOf(target), shows ? "shows" : target.outerHTML]);
          });
          const before = document.createElement("button");
          root.before(before);
          before.focus();
          return all.length;
        })()""")
        self.assertGreater(wanted, 5)
        self.key(Keys.TAB * wanted)
        ActionChains(self.driver).key_down(Keys.SHIFT).send_keys(Keys.TAB).key_up(Keys.SHIFT).perform()
        self.assertEqual(
            self.js("stops"), [[i, "shows"] for i in (*range(wanted), wanted - 2)])
