"""What both interactive figures promise."""

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from browser import PHONE, PageTest

NEED_NAMES = ("button", "textbox", "combobox", "radio", "slider", "spinbutton", "link", "checkbox")


class FigureTest(PageTest):
    """What a figure promises. Its own test's states() brings it into one state after the other."""

    def test_names(self):
        """Everything that can be used has a name for a screen reader."""
        used = [(role, name) for role, name in self.accessible() if role in NEED_NAMES]
        self.assertGreater(len(used), 5)
        self.assertEqual([role for role, name in used if name == ""], [])

    def test_states(self):
        """In no state is it wider than a phone, moves by itself, or has a text without contrast."""
        for how in ({"width": PHONE}, {"dark": True, "reduced_motion": True}, {}):
            self.open(**how)
            for state, _ in enumerate(self.states()):
                with self.subTest(state=state):
                    self.assert_fits()
                    self.assert_contrast()
                    self.assertEqual(self.js("root.getAnimations({subtree: true}).length"), 0, "motion")

    def press(self, *texts):
        """Clicks on the buttons with these texts, one after the other."""
        for text in texts:
            self.js("""[...root.querySelectorAll("button")]
              .find((button) => button.textContent === arguments[0])""", text).click()

    def field(self, name):
        """The field with this label."""
        return self.js("""[...root.querySelectorAll("label")]
          .find((label) => label.textContent === arguments[0])?.control ??
          root.querySelector(`[aria-label="${arguments[0]}"]`)""", name)

    def write(self, name, text):
        """Replaces the text of a field by typing."""
        self.field(name).send_keys(Keys.CONTROL, "a", Keys.NULL, text or Keys.BACKSPACE)

    def paste(self, name, text):
        """Replaces the text of a field all at once."""
        self.field(name).send_keys(Keys.CONTROL, "a", Keys.NULL, "" if text else Keys.BACKSPACE)
        self.driver.execute_cdp_cmd("Input.insertText", {"text": text})

    def complaint(self):
        """What is said about a field's text, or None."""
        return self.text("[role=alert]:not([hidden])")

    def assert_refused(self, name, texts, why, shown):
        """Bad texts of a field are explained, and change nothing that is shown."""
        before = shown()
        for text in texts:
            self.paste(name, text)
            self.assertIn(why, self.complaint() or "nothing", f"{name}: {text!r}")
            self.assertEqual(shown(), before, f"{name}: {text!r}")

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
          const all = [...root.querySelectorAll("input, select, button, a[href], [tabindex='0']")]
            .filter((one) => one.checkVisibility() && (one.type !== "radio" || one.checked));
          window.stops = [];
          root.addEventListener("focusin", ({target}) => {
            const style = getComputedStyle(target.closest("label") || target);
            const shows = parseFloat(style.outlineWidth) >= 2 && style.outlineStyle !== "none";
            stops.push([all.indexOf(target), shows ? "shows" : target.outerHTML.slice(0, 120)]);
          });
          const before = document.createElement("button");
          root.before(before);
          before.focus();
          return all.length;
        })()""")
        self.assertGreater(wanted, 5)
        self.key(Keys.TAB * wanted)
        back = ActionChains(self.driver)
        back.key_down(Keys.SHIFT).send_keys(Keys.TAB).key_up(Keys.SHIFT).perform()
        self.assertEqual(self.js("stops"), [[i, "shows"] for i in (*range(wanted), wanted - 2)])
