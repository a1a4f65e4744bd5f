"""A window of the studio in a browser: what a user does in it."""

import json
import time
from types import SimpleNamespace

from tests.report.browser import CHROMIUM, Browser

__all__ = ["CHROMIUM", "Window"]


class Window:
    """A browser with the page of a new project."""

    def __init__(self, entrance, width=1280, dark=False):
        self.browser = Browser()
        self.origin = entrance.partition("/?")[0]
        self.browser.open(SimpleNamespace(as_uri=lambda: entrance), width, dark=dark)
        self.wait("typeof state === 'object' && state.id")

    def close(self):
        self.browser.close()

    def run(self, expression):
        return self.browser.run(expression)

    def text(self, selector):
        return self.run(f"document.querySelector({json.dumps(selector)}).textContent")

    def wait(self, condition, patience=60):
        """Wait until something holds in the page."""
        deadline = time.monotonic() + patience
        while not self.run(f"(() => {{ try {{ return Boolean({condition}) }} catch {{ return false }} }})()"):
            assert time.monotonic() < deadline, (condition, self.run("document.querySelector('#problem')?.textContent"))
            time.sleep(0.02)

    def go(self, step, condition="true"):
        """Go to a step, and wait until it is there."""
        self.run(f"location.hash = {step!r}")
        self.wait(f"!document.querySelector('#{step}').hidden && {condition}")

    def click(self, selector):
        self.run(f"document.querySelector({json.dumps(selector)}).click()")

    def upload(self, selector, path):
        """Choose a file."""
        document = self.browser.call("DOM.getDocument")["root"]["nodeId"]
        node = self.browser.call("DOM.querySelector", nodeId=document, selector=selector)["nodeId"]
        self.browser.call("DOM.setFileInputFiles", nodeId=node, files=[str(path)])

    def reload(self):
        self.run("void (state.id = null)")
        self.browser.call("Page.reload")
        self.wait("typeof state === 'object' && state.id")

    def press(self, key):
        """Press a key, as on a keyboard."""
        codes = {"Tab": 9, "Enter": 13, "ArrowRight": 39}
        named = {"key": key, "code": key, "windowsVirtualKeyCode": codes[key]}
        text = {"text": "\r"} if key == "Enter" else {}
        self.browser.call("Input.dispatchKeyEvent", type="keyDown", **named, **text)
        self.browser.call("Input.dispatchKeyEvent", type="keyUp", **named)

    def tab_to(self, selector, most=60):
        """Press Tab until something has the focus."""
        for _ in range(most):
            self.press("Tab")
            if self.run(f"document.activeElement.matches({json.dumps(selector)})"):
                return
        raise AssertionError(f"{selector} cannot be reached by the Tab key")
