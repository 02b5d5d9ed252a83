"""A headless Chromium, driven over a pipe: for tests of the page and its pictures.

Chromium's own protocol (``--remote-debugging-pipe``: JSON, a zero byte behind each message) needs neither a
port nor a library. Blocking; one page at a time.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

__all__ = ["Browser", "BrowserError", "find_chromium"]

Json = dict[str, Any]


class BrowserError(Exception):
    """Chromium, or a script in the page, complains."""


def find_chromium() -> str:
    """The program; empty if it is not installed."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next((path for name in names if (path := shutil.which(name))), "")


class Browser:
    """A running browser with one page; a context manager."""

    def __init__(self, *, width: int = 1440, height: int = 900, theme: str = "dark") -> None:
        # Its children write on for a moment after it was killed.
        self._folder = tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True)
        to_browser, ours_out = os.pipe()
        ours_in, from_browser = os.pipe()
        command = [
            find_chromium(),
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--disable-component-update",
            "--no-first-run",
            "--hide-scrollbars",
            "--remote-debugging-pipe",
            f"--user-data-dir={self._folder.name}",
            f"--window-size={width},{height}",
            "about:blank",
        ]

        def hand_over() -> None:
            # Chromium reads from descriptor 3 and writes to 4; first out of the way of each other.
            reading, writing = os.dup(to_browser), os.dup(from_browser)
            os.dup2(reading, 3)
            os.dup2(writing, 4)

        self._process = subprocess.Popen(
            command,
            preexec_fn=hand_over,
            close_fds=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._out, self._in = os.fdopen(ours_out, "wb", 0), os.fdopen(ours_in, "rb", 0)
        self._buffer = b""
        self._number = 0
        self.errors: list[str] = []
        """What the page complained about: exceptions, and errors on its console."""
        self._session = ""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._out.close()
        self._in.close()
        self._folder.cleanup()

    def call(self, method: str, **parameters: Any) -> Json:
        """One command of the protocol; raises BrowserError if it is refused."""
        self._number += 1
        message: Json = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        self._out.write(json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error']['message']}")
                result: Json = answer["result"]
                return result
            self._notice(answer)

    def _receive(self) -> Json:
        while b"\0" not in self._buffer:
            part = self._in.read(65536)
            if not part:
                raise BrowserError("the browser has ended")
            self._buffer += part
        line, _, self._buffer = self._buffer.partition(b"\0")
        message: Json = json.loads(line)
        return message

    def _notice(self, message: Json) -> None:
        parameters = message.get("params", {})
        if message.get("method") == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description") or details["text"])
        elif message.get("method") == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.errors.append(f"{parameters['entry']['text']} {parameters['entry'].get('url', '')}")

    def open(self, url: str) -> None:
        """Go to an address."""
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete' && document.body")

    def evaluate(self, expression: str) -> Any:
        """The value of an expression in the page; raises BrowserError if it throws."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise BrowserError(details.get("exception", {}).get("description") or details["text"])
        return answer["result"].get("value")

    def text(self) -> str:
        """What a reader sees."""
        found: str = self.evaluate("document.body?.innerText ?? ''")
        return found

    def wait(self, expression: str, seconds: float = 60.0) -> None:
        """Wait until an expression is true; raises BrowserError with what the page shows instead."""
        deadline = time.monotonic() + seconds
        while not self.evaluate(f"Boolean({expression})"):
            if time.monotonic() > deadline:
                raise BrowserError(f"never true: {expression}\n{self.errors}\n{self.text()}")
            time.sleep(0.05)

    def press(self, key: str) -> None:
        """One key."""
        text = key if len(key) == 1 else "\r" if key == "Enter" else ""
        for kind in ("keyDown", "keyUp"):
            parameters = {"type": kind, "key": key} | ({"text": text} if text and kind == "keyDown" else {})
            self.call("Input.dispatchKeyEvent", **parameters)

    def screenshot(self, file: Path) -> None:
        """The page as a picture."""
        file.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))
