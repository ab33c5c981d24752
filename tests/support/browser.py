"""A headless Chromium that a test drives by its DevTools protocol, over pipes: Browser(PROFILE) as a context, then open()."""
import json
import os
import select
import subprocess
import time

PATIENCE = 30  # seconds, for an answer and for a condition


class BrowserError(Exception):
    pass


class Browser:
    def __init__(self, profile):
        to_browser, self.to = os.pipe()
        self.of, from_browser = os.pipe()
        self.number, self.buffer = 0, b""

        def pipes():  # DevTools reads descriptor 3 and writes descriptor 4
            read, write = os.dup(to_browser), os.dup(from_browser)
            os.dup2(read, 3)
            os.dup2(write, 4)

        self.process = subprocess.Popen(
            ["chromium-headless-shell", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe",
             f"--user-data-dir={profile}", "about:blank"],
            preexec_fn=pipes, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.to)
        os.close(self.of)

    def message(self):
        end = time.monotonic() + PATIENCE
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.of], [], [], max(0, end - time.monotonic()))
            part = os.read(self.of, 1 << 16) if ready else b""
            if not part:
                raise BrowserError("the browser does not answer")
            self.buffer += part
        one, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(one)

    def call(self, method, session=None, **parameters):
        self.number += 1
        request = {"id": self.number, "method": method, "params": parameters}
        if session:
            request["sessionId"] = session
        os.write(self.to, json.dumps(request).encode() + b"\0")
        while True:
            answer = self.message()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def open(self, url, width, script="", height=800):
        """A page of that size, as a phone has it. `script` runs before those of the page, also when it is loaded again."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session)
        page.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=True)
        page.call("Page.enable")
        page.call("Page.addScriptToEvaluateOnNewDocument", source=script)
        page.call("Page.navigate", url=url)
        return page


class Page:
    def __init__(self, browser, session):
        self.browser, self.session = browser, session

    def call(self, method, **parameters):
        return self.browser.call(method, self.session, **parameters)

    def value(self, script):
        """What the expression, or the promise that it is, gives."""
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise BrowserError(f"{script}: {answer['exceptionDetails'].get('exception', {}).get('description', answer)}")
        return answer["result"].get("value")

    def wait(self, script):
        end = time.monotonic() + PATIENCE
        while not self.value(script):
            if time.monotonic() > end:
                raise BrowserError(f"not in {PATIENCE} s: {script}")
            time.sleep(0.05)

    def press(self, key, code=0, text="", shift=False):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code,
                      modifiers=8 if shift else 0, **({"text": text} if text and kind == "keyDown" else {}))

    def tab(self, shift=False):
        self.press("Tab", 9, shift=shift)

    def enter(self):
        self.press("Enter", 13, "\r")

    def type(self, text):
        self.call("Input.insertText", text=text)
