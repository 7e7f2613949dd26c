"""Headless Chromium for tests, driven through its DevTools protocol; nothing but a websocket is needed."""

import base64
import itertools
import json
import shutil
import subprocess
import tempfile
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-port=0",
    "--remote-allow-origins=*",
)


def find():
    """Where Chromium is, or None."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


@contextmanager
def started():
    """A browser with an empty profile; yields a function that opens a new, blank page."""
    import websocket

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [find(), *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        pages = []
        try:
            port = _port(Path(profile), process)

            def new_page():
                request = urllib.request.Request(f"http://127.0.0.1:{port}/json/new?about:blank", method="PUT")
                with urllib.request.urlopen(request, timeout=600) as answer:
                    address = json.load(answer)["webSocketDebuggerUrl"]
                pages.append(Page(websocket.create_connection(address, timeout=600)))
                return pages[-1]

            yield new_page
        finally:
            for page in pages:
                page.socket.close()
            process.terminate()
            process.wait(timeout=600)


def _port(profile, process):
    """Chromium writes the port it chose into its profile."""
    file = profile / "DevToolsActivePort"
    for _ in range(6000):
        if file.exists() and file.read_text().strip():
            return int(file.read_text().split()[0])
        if process.poll() is not None:
            raise RuntimeError(f"Chromium ended with {process.returncode} before it was ready")
        time.sleep(0.1)
    raise RuntimeError("Chromium did not start within 10 minutes")


class Page:
    """A tab: commands, what it logged, what it asked the network for."""

    def __init__(self, socket):
        self.socket = socket
        self.numbers = itertools.count(1)
        self.events = []
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method, **params):
        number = next(self.numbers)
        self.socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            message = json.loads(self.socket.recv())
            if message.get("id") == number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self.events.append(message)

    def evaluate(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def resize(self, width, height=900, phone=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)

    def colours(self, scheme):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def open(self, path, ready="document.documentElement.dataset.charts"):
        """Open a file and wait until it is ready: by default, until its charts are drawn."""
        self.call("Page.navigate", url=Path(path).resolve().as_uri())
        for _ in range(6000):
            if self.evaluate(f"document.readyState === 'complete' && Boolean({ready})"):
                return
            time.sleep(0.1)
        raise RuntimeError(f"{path}: not ready within 10 minutes; logged: {self.errors()}")

    def key(self, name, code):
        for kind in ("keyDown", "keyUp"):
            text = {"text": "\r"} if name == "Enter" and kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=name, code=name, windowsVirtualKeyCode=code, **text)

    def errors(self):
        """Errors on the console, uncaught ones included."""
        found = []
        for event in self.events:
            params = event.get("params", {})
            if event.get("method") == "Runtime.exceptionThrown":
                found.append(json.dumps(params["exceptionDetails"])[:500])
            if event.get("method") == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
                found.append(json.dumps(params["args"])[:500])
            if event.get("method") == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                found.append(params["entry"]["text"])
        return found

    def requests(self):
        """Addresses that the page asked for, itself and inlined data left out."""
        asked = [e["params"]["request"]["url"] for e in self.events if e.get("method") == "Network.requestWillBeSent"]
        return [address for address in asked if not address.startswith(("data:", "blob:", "about:"))]

    def screenshot(self, path, whole=True):
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        Path(path).write_bytes(base64.b64decode(data))

    def pdf(self, path):
        data = self.call("Page.printToPDF", printBackground=False, preferCSSPageSize=True)["data"]
        Path(path).write_bytes(base64.b64decode(data))
