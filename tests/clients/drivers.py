"""The TypeScript client in Node or in a page of Chromium: `driver.mjs` there, a driver here."""

import itertools
import json
import subprocess
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

from sowline.errors import SowlineError
from tests.browser.files import web_server
from tests.browser.seen import browser
from tests.clients.typescript import PACKAGE
from tests.waiting import SECONDS_MAX

HERE = Path(__file__).parent
READY = -1
"""The id of the line that Node writes once it reads commands."""
LOAD = """async () => {
  const { drive } = await import("/driver.mjs");
  window.answer = await drive(`${location.origin}/dist/`, WebSocket);
  window.answers = new Map();
}"""
TAKE = """async (id) => {
  const answer = await answers.get(id);
  answers.delete(id);
  return answer;
}"""


class Driver(ABC):
    """Commands to a client, and their answers."""

    def __init__(self) -> None:
        self._ids = itertools.count()

    def start(self, do: str, **given: Any) -> Callable[[], Any]:
        """Give a command; the result waits for its answer and returns it, or raises the reason of a refusal."""
        id = next(self._ids)
        answer = self._send(id, json.dumps({"id": id, "do": do, **given}))

        def value() -> Any:
            found = json.loads(answer())
            assert "failure" not in found, found["failure"]
            if "reason" in found:
                raise SowlineError(found["reason"], found["message"])
            return found["value"]

        return value

    def do(self, do: str, **given: Any) -> Any:
        """Give a command, and return its answer."""
        return self.start(do, **given)()

    def close(self) -> None:
        """Let the client close everything. No error was reported that nobody caught."""
        assert self.do("end") == []

    @abstractmethod
    def _send(self, id: int, command: str) -> Callable[[], str]:
        """Send a command; the result waits for the line that answers it."""


class NodeDriver(Driver):
    """The client in a Node of its own."""

    def __init__(self) -> None:
        super().__init__()
        command = ["node", "--enable-source-maps", str(HERE / "node_driver.mjs"), str(PACKAGE)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        ready: Future[str] = Future()
        self._answers = {READY: ready}
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        # A token of a few seconds would expire while Node starts on a busy machine
        # (test_a_token_is_renewed_before_it_expires).
        try:
            ready.result(SECONDS_MAX)
        except TimeoutError:
            self._process.kill()
            raise

    def _send(self, id: int, command: str) -> Callable[[], str]:
        assert self._process.stdin is not None
        answer = self._answers[id] = Future()
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        return lambda: answer.result(SECONDS_MAX)

    def close(self) -> None:
        """Once all is closed, nothing keeps the process alive, and it ends without an error."""
        assert self._process.stdin is not None
        try:
            super().close()
            self._process.stdin.close()
            assert self._process.wait(SECONDS_MAX) == 0
        finally:
            self._process.kill()
            self._reader.join()
            assert self._process.stdout is not None
            self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.pop(json.loads(line)["id"]).set_result(line)


class PageDriver(Driver):
    """The client in a page."""

    def __init__(self, page: Page, origin: str) -> None:
        super().__init__()
        self._page = page
        page.goto(f"{origin}/page.html")
        page.evaluate(LOAD)

    def _send(self, id: int, command: str) -> Callable[[], str]:
        self._page.evaluate("([id, command]) => void answers.set(id, answer(command))", [id, command])
        return lambda: str(self._page.evaluate(TAKE, id))


@contextmanager
def page_server(directory: Path) -> Iterator[str]:
    """Serve the page of `PageDriver` from a directory; lend its origin."""
    (directory / "page.html").write_text('<!doctype html><link rel="icon" href="data:,">')
    (directory / "driver.mjs").symlink_to(HERE / "driver.mjs")
    (directory / "dist").symlink_to(PACKAGE / "dist")
    with web_server(directory) as origin:
        yield origin


@contextmanager
def in_node(_origin: str) -> Iterator[Driver]:
    """Lend a driver in Node, where there are no origins."""
    with closing(NodeDriver()) as driver:
        yield driver


@contextmanager
def in_chromium(origin: str) -> Iterator[Driver]:
    """Lend a driver in a page of this origin."""
    with browser() as begun, begun.new_page() as page, closing(PageDriver(page, origin)) as driver:
        yield driver
