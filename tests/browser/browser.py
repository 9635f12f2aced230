"""A headless Chromium, driven through its own protocol over a pipe: nothing but Python's library is needed.

https://chromedevtools.github.io/devtools-protocol/ has the commands and events.
"""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome")


def find():
    """The browser's program, or None. CHROMIUM names another one."""
    for name in (os.environ.get("CHROMIUM"), *NAMES):
        if name and shutil.which(name):
            return shutil.which(name)
    return None


class Browser:
    """One browser with one tab. Use it in a with statement."""

    KEYS = {
        "Tab": 9, "Enter": 13, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowUp": 38,
        "ArrowRight": 39, "ArrowDown": 40, "Backspace": 8, " ": 32, "Escape": 27,
    }
    TYPED = {"Enter": "\r", " ": " "}

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="rmsnorm-browser-")
        to_browser, self.to_browser = os.pipe()
        self.from_browser, from_browser = os.pipe()
        # The browser's ends must be its descriptors 3 and 4, whatever their numbers are here.
        command = f'exec "$0" "$@" 3<&{to_browser} 4>&{from_browser}'
        options = [
            "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
            "--hide-scrollbars", "--no-first-run", "--remote-debugging-pipe",
            f"--user-data-dir={self.folder.name}", "about:blank"]
        self.process = subprocess.Popen(
            ["bash", "-c", command, find(), *options], pass_fds=(to_browser, from_browser),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True)
        os.close(to_browser)
        os.close(from_browser)
        self.read = b""
        self.number = 0
        self.session = None
        self.events = []
        tabs = self.call("Target.getTargets")["targetInfos"]
        tab = next(tab for tab in tabs if tab["type"] == "page")
        self.session = self.call(
            "Target.attachToTarget", targetId=tab["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Accessibility"):
            self.call(domain + ".enable")
        return self

    def __exit__(self, *_):
        try:
            self.session = None
            self.call("Browser.close")
            self.process.wait(10)
        except Exception:  # pylint: disable=broad-except
            self.process.kill()
            self.process.wait()
        os.close(self.to_browser)
        os.close(self.from_browser)
        for _ in range(20):  # helpers of the browser may still write into its folder
            try:
                self.folder.cleanup()
                break
            except OSError:
                time.sleep(0.1)

    # ---- The protocol

    def message(self, seconds):
        """The next message, or None if none comes in time."""
        end = time.monotonic() + seconds
        while b"\0" not in self.read:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.from_browser], [], [], left)[0]:
                return None
            more = os.read(self.from_browser, 1 << 20)
            if not more:
                raise RuntimeError("the browser has ended")
            self.read += more
        text, self.read = self.read.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, **parameters):
        """The answer to a command. Events that come before it are kept."""
        self.number += 1
        command = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            command["sessionId"] = self.session
        os.write(self.to_browser, json.dumps(command).encode() + b"\0")
        while True:
            message = self.message(30)
            if message is None:
                raise RuntimeError(f"the browser does not answer {method}")
            if message.get("id") != self.number:
                self.events.append(message)
            elif "error" in message:
                raise RuntimeError(f"{method}: {message['error']['message']}")
            else:
                return message["result"]

    # ---- Pages

    def open(self, url, width=1000, height=900, dark=False, reduced_motion=False):
        """Loads a page in a window of this size and waits until it has loaded."""
        self.events.clear()
        self.resize(width, height)
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion",
             "value": "reduce" if reduced_motion else "no-preference"}])
        answer = self.call("Page.navigate", url=url)
        if "errorText" in answer:
            raise RuntimeError(f"{url}: {answer['errorText']}")
        end = time.monotonic() + 30
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            message = self.message(end - time.monotonic())
            if message is None:
                raise RuntimeError(f"{url} does not load")
            self.events.append(message)

    def resize(self, width, height):
        """Sets the size of the visible part of the page, in CSS pixels."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=False)

    def run(self, script):
        """The value of a JavaScript expression, or of the last of several statements."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True,
                           awaitPromise=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            said = details.get("exception", {}).get("description", details["text"])
            raise RuntimeError(f"{said}\nin: {script}")
        return answer["result"].get("value")

    def complaints(self):
        """What went wrong since the page was opened: exceptions, errors and warnings of the console,
        files that are not there."""
        self.run("1")  # what has happened has been reported before the answer
        found = []
        for event in self.events:
            method, said = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                details = said["exceptionDetails"]
                found.append(details.get("exception", {}).get("description", details["text"]))
            elif method == "Runtime.consoleAPICalled" and said["type"] in ("error", "warning", "assert"):
                found.append(" ".join(str(arg.get("value", arg)) for arg in said["args"]))
            elif method == "Log.entryAdded" and said["entry"]["level"] in ("error", "warning"):
                found.append(f"{said['entry']['text']} {said['entry'].get('url', '')}")
            elif method == "Network.loadingFailed" and not said.get("canceled"):
                found.append(said["errorText"])
        return found

    def requests(self):
        """The addresses of all that the page has asked for since it was opened."""
        self.run("1")
        return [event["params"]["request"]["url"] for event in self.events
                if event.get("method") == "Network.requestWillBeSent"]

    def screenshot(self, path):
        """A picture of the whole page, as PNG."""
        height = self.run("Math.ceil(document.documentElement.getBoundingClientRect().height)")
        width = self.run("innerWidth")
        image = self.call("Page.captureScreenshot", captureBeyondViewport=True,
                          clip={"x": 0, "y": 0, "width": width, "height": height, "scale": 1})
        with open(path, "wb") as file:
            file.write(base64.b64decode(image["data"]))

    def accessible(self):
        """What a screen reader is told: the nodes of the accessibility tree, as (role, name)."""
        found, before = None, []
        while found != before:  # the tree is built step by step, behind the page
            time.sleep(0.3)
            nodes = self.call("Accessibility.getFullAXTree")["nodes"]
            before, found = found, [
                (node["role"]["value"], node.get("name", {}).get("value", ""))
                for node in nodes if not node.get("ignored")]
        return found

    # ---- Hands

    def key(self, name, times=1, shift=False):
        """Presses a key, as "Tab" or "a"."""
        for _ in range(times):
            event = {"key": name, "modifiers": 8 if shift else 0}
            if name in self.KEYS:
                event["windowsVirtualKeyCode"] = self.KEYS[name]
                event["code"] = "Space" if name == " " else name
            text = self.TYPED.get(name, name if len(name) == 1 else None)
            if text:
                event["text"] = text
            self.call("Input.dispatchKeyEvent", type="keyDown", **event)
            event.pop("text", None)
            self.call("Input.dispatchKeyEvent", type="keyUp", **event)

    def type(self, text):
        """Types into whatever has the focus."""
        for letter in text:
            self.key(letter)

    def middle(self, selector):
        """Where the element is, after it has been scrolled into view."""
        found = self.run(f"""(() => {{
          const found = document.querySelector({json.dumps(selector)});
          if (!found) return null;
          found.scrollIntoView({{block: "center", inline: "center", behavior: "instant"}});
          const box = found.getBoundingClientRect();
          return [box.x + box.width / 2, box.y + box.height / 2, box.x, box.width];
        }})()""")
        if found is None:
            raise RuntimeError(f"the page has no {selector}")
        return found

    def mouse(self, kind, x, y):
        """Moves the mouse, or presses or releases its left button there."""
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def click(self, selector):
        """Clicks on the middle of an element."""
        x, y = self.middle(selector)[:2]
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.mouse(kind, x, y)

    def drag(self, selector, start, end):
        """Drags along an element's width, from one share of it to another."""
        _, y, left, width = self.middle(selector)
        self.mouse("mouseMoved", left + start * width, y)
        self.mouse("mousePressed", left + start * width, y)
        for i in range(1, 6):
            self.mouse("mouseMoved", left + (start + (end - start) * i / 5) * width, y)
        self.mouse("mouseReleased", left + end * width, y)

    def write(self, selector, text):
        """Replaces the text of a field, by clicking and typing."""
        self.click(selector)
        self.run("document.activeElement.select()")
        if text == "":
            self.key("Backspace")
        self.type(text)

    def paste(self, selector, text):
        """Replaces the text of a field all at once."""
        self.click(selector)
        self.run("document.activeElement.select()")
        if text == "":
            self.key("Backspace")
        self.call("Input.insertText", text=text)

    def choose(self, selector, value):
        """Chooses an option, as a reader does who has opened the list."""
        self.run(f"""(() => {{
          const list = document.querySelector({json.dumps(selector)});
          list.value = {json.dumps(value)};
          list.dispatchEvent(new Event("input", {{bubbles: true}}));
          list.dispatchEvent(new Event("change", {{bubbles: true}}));
        }})()""")
