"""A real Chromium without a window, driven over the DevTools protocol.

One browser serves all tests; every page has a tab of its own. Calls are plain ones: each sends a
command and reads what the browser says until the answer is there, and keeps the events on the way.
"""

import asyncio
import base64
import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

import aiohttp

START_SECONDS = 60.0
ANSWER_SECONDS = 60.0
T = TypeVar("T")
Scheme: TypeAlias = Literal["light", "dark"]


class Page:
    """A tab that shows a page, and all it said since it was opened."""

    def __init__(self, browser: "Browser", session: str) -> None:
        self._browser = browser
        self._session = session

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self._browser.call(method, session=self._session, **parameters)

    def events(self, method: str) -> list[dict[str, Any]]:
        return [
            event["params"]
            for event in self._browser.events
            if event["method"] == method and event.get("sessionId") == self._session
        ]

    def show(self, url: str, *, before: str = "") -> None:
        """Open an address and wait until it is drawn; `before` runs ahead of its own scripts."""
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        if before:
            self.call("Page.addScriptToEvaluateOnNewDocument", source=before)
        self.call("Page.navigate", url=url)
        while not self.events("Page.loadEventFired"):
            self._browser.hear()
        self.drawn()

    def look(self, *, width: int, scheme: Scheme = "light", media: str = "screen") -> None:
        """Be a reader with a window of this width, whose system is light or dark."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=False,
        )
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.call("Emulation.setEmulatedMedia", media=media, features=[feature])
        self.drawn()

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        answer = self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in answer:
            raise AssertionError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def until(self, condition: str, *, seconds: float = 20.0) -> None:
        """Wait until an expression is true in the page, which is looked at with every frame."""
        limit = f"performance.now() + {seconds * 1000}"
        done = self.run(
            "new Promise((done) => { const end = "
            f"{limit}; const look = () => {{ const found = Boolean({condition}); "
            "if (found || performance.now() > end) done(found); else requestAnimationFrame(look); "
            "}; look(); })"
        )
        assert done, f"not within {seconds:g} s: {condition}"

    def key(self, name: str, *, code: int = 0, text: str = "") -> None:
        """Press a key and let it go, as a hand would; `code` is what Windows calls it."""
        about = {"key": name, "windowsVirtualKeyCode": code, "text": text}
        self.call("Input.dispatchKeyEvent", type="keyDown", **about)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=name, windowsVirtualKeyCode=code)
        self.drawn()

    def write(self, text: str) -> None:
        """Write into what has the focus."""
        self.call("Input.insertText", text=text)
        self.drawn()

    def drawn(self) -> None:
        """Wait for two frames: in the first, what was changed may not have arrived yet."""
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def screenshot(self, file: Path) -> None:
        """The whole page as PNG, for those who write tests."""
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        file.write_bytes(base64.b64decode(shot["data"]))


class Browser:
    """A running browser; `events` are all that its pages said, in order."""

    def __init__(self, runner: asyncio.Runner, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.events: list[dict[str, Any]] = []
        self._runner = runner
        self._socket = socket
        self._calls = 0

    def call(self, method: str, *, session: str = "", **parameters: Any) -> dict[str, Any]:
        """Ask for something, and wait for the answer."""
        self._calls += 1
        command: dict[str, Any] = {"id": self._calls, "method": method, "params": parameters}
        if session:
            command["sessionId"] = session
        self._wait(self._socket.send_json(command))
        while True:
            answer = self.hear()
            if answer.get("id") == self._calls:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']['message']}")
                result: dict[str, Any] = answer["result"]
                return result

    def hear(self) -> dict[str, Any]:
        """The next thing the browser says."""
        said: dict[str, Any] = json.loads(self._wait(self._socket.receive_str()))
        if "method" in said:
            self.events.append(said)
        return said

    @contextlib.contextmanager
    def page(self, file: Path) -> Iterator[Page]:
        with self.opened(file.as_uri()) as page:
            yield page

    @contextlib.contextmanager
    def opened(self, url: str, *, before: str = "") -> Iterator[Page]:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        page = Page(self, attached["sessionId"])
        try:
            page.show(url, before=before)
            yield page
        finally:
            self.call("Target.closeTarget", targetId=target)

    def _wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(asyncio.wait_for(coroutine, ANSWER_SECONDS))


@contextlib.contextmanager
def browser(program: str) -> Iterator[Browser]:
    """A browser with a fresh profile, gone at the end with all it wrote."""
    with contextlib.ExitStack() as stack:
        profile = tempfile.mkdtemp(prefix="tonnage-browser-")
        # Its helpers may write for a moment after it ended.
        stack.callback(shutil.rmtree, profile, ignore_errors=True)
        process = subprocess.Popen(
            [program, *_arguments(profile)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        stack.callback(process.wait)
        stack.callback(process.kill)
        runner = stack.enter_context(asyncio.Runner())
        socket = runner.run(_connected(_address(Path(profile), process), stack, runner))
        yield Browser(runner, socket)


def _arguments(profile: str) -> list[str]:
    found = [
        "--headless=new",
        "--remote-debugging-port=0",
        f"--user-data-dir={profile}",
        "--no-first-run",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-extensions",
        "--hide-scrollbars",
        "about:blank",
    ]
    # Chromium refuses its sandbox to root, and here it only opens files of ours.
    return ["--no-sandbox", *found] if os.geteuid() == 0 else found


def _address(profile: Path, process: "subprocess.Popen[bytes]") -> str:
    """Where the browser listens, which it writes into its profile."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise AssertionError(f"the browser ended with code {process.returncode}")
        with contextlib.suppress(OSError, ValueError):
            port, path = (profile / "DevToolsActivePort").read_text().split()
            return f"ws://127.0.0.1:{port}{path}"
        time.sleep(0.05)
    raise AssertionError(f"the browser did not start within {START_SECONDS:.0f}s")


async def _connected(
    address: str, stack: contextlib.ExitStack, runner: asyncio.Runner
) -> aiohttp.ClientWebSocketResponse:
    client = aiohttp.ClientSession()
    stack.callback(lambda: runner.run(client.close()))
    return await client.ws_connect(address, max_msg_size=0)
