"""A headless Chromium, driven by its DevTools protocol."""

import json
import os
import shutil
import subprocess
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path

import pytest
from websockets.sync.client import connect

NAMES = ("chromium", "chromium-browser", "google-chrome")
IS_REQUIRED = os.environ.get("TURNTREE_REQUIRE_BROWSER") == "1"


def absent(what):
    """Skip the test, or fail where everything must be there."""
    if IS_REQUIRED:
        pytest.fail(f"{what} is not installed, and TURNTREE_REQUIRE_BROWSER=1")
    pytest.skip(f"{what} is not installed")


class Page:
    """One page: what it logs, which addresses it asks for, and its answers to commands."""

    def __init__(self, address):
        self._open = ExitStack()
        self._socket = self._open.enter_context(connect(address, max_size=None, open_timeout=30))
        self._number = 0
        self.logged, self.asked, self.loaded = [], [], 0
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def send(self, method, **parameters):
        """Send a command and return its result."""
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv(timeout=30))
            if message.get("id") == self._number:
                assert "error" not in message, message
                return message["result"]
            self._note(message)

    def _note(self, message):
        method, parameters = message.get("method"), message.get("params", {})
        warned = method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning")
        if warned or method in ("Log.entryAdded", "Runtime.exceptionThrown"):
            self.logged.append(parameters)
        elif method == "Network.requestWillBeSent":
            self.asked.append(parameters["request"]["url"])
        elif method == "Page.loadEventFired":
            self.loaded += 1

    def open(self, url):
        before = self.loaded
        self.send("Page.navigate", url=url)
        while self.loaded == before:
            self._note(json.loads(self._socket.recv(timeout=30)))

    def value(self, expression):
        """The value of an expression of JavaScript; promises are awaited."""
        result = self.send("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def until(self, expression):
        """Wait until an expression is true."""
        wait = f"new Promise(done => {{const look = () => ({expression}) ? done(true) : setTimeout(look, 50); look()}})"
        assert self.value(wait) is True

    def press(self, key, text=""):
        for kind in ("keyDown", "keyUp"):
            sent = {"text": text} if text and kind == "keyDown" else {}
            code = {"Tab": 9, "Enter": 13, " ": 32}[key]
            self.send("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **sent)

    def close(self):
        self._open.close()


def start(folder: Path):
    """Start a browser. Returns its process and a page."""
    program = next(filter(None, map(shutil.which, NAMES)), None) or absent("Chromium")
    process = subprocess.Popen(
        [
            program,
            "--headless=new",
            "--no-sandbox",  # root, as in containers, cannot use it
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--no-first-run",
            "--remote-debugging-port=0",
            f"--user-data-dir={folder}",
            "about:blank",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        said = folder / "DevToolsActivePort"
        end = time.monotonic() + 45
        while not said.exists() or "\n" not in said.read_text():
            assert process.poll() is None, f"{program} has ended with {process.returncode}"
            assert time.monotonic() < end, f"{program} did not start"
            time.sleep(0.05)
        port = said.read_text().split("\n")[0]
        made = urllib.request.Request(f"http://127.0.0.1:{port}/json/new?about:blank", method="PUT")
        with urllib.request.urlopen(made, timeout=30) as answer:
            return process, Page(json.load(answer)["webSocketDebuggerUrl"])
    except BaseException:
        process.kill()
        process.wait()
        raise
