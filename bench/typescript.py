"""The TypeScript client in Node and in Chromium, next to a raw WebSocket whose frames are only parsed and counted.

A query service sends changes as fast as they can be made, and its frames are recorded. A bare server plays them, the
same to every reader: raw, with a callback, and into views. So the readers are what is measured.
"""

import json
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import orjson
from playwright.sync_api import Browser, Page
from websockets.asyncio.server import ServerConnection
from websockets.sync.client import ClientConnection, connect

from bench.frames import MESSAGE_BYTES_MAX
from bench.servers import BareService, BenchQueryService, BenchService, Load, Push, opened
from bench.table import table
from bench.usage import usage
from sowline.runtime.ports import HOST
from tests.browser.files import web_server
from tests.browser.seen import browser
from tests.clients.typescript import PACKAGE, build

RECORDS = 1000
CHANGES = 100_000
CHANGES_AT_ONCE = 10_000
"""The number of changes: no more than may wait for a client before it falls behind."""

NOTES_CHARS = 100
"""Makes records of 250 bytes."""

TIMES = 5
"""How often a reader takes the frames in one measurement, after it has taken them once to warm up."""

READERS_MODULE = Path(__file__).with_name("readers.mjs")
IN_NODE = f"""
import {{ createRequire }} from "node:module";
import {{ createInterface }} from "node:readline";
import {{ take }} from "{READERS_MODULE.as_uri()}";
import {{ connect }} from "{PACKAGE.as_uri()}/dist/index.js";
const {{ WebSocket }} = createRequire("{PACKAGE.as_uri()}/")("ws");
for await (const line of createInterface({{ input: process.stdin }})) {{
  console.log(JSON.stringify(await take({{ ...JSON.parse(line), connect, WebSocket }})));
}}
"""
IN_PAGE = """async (given) => {
  const { take } = await import("/readers.mjs");
  const { connect } = await import("/dist/index.js");
  return take({ ...given, connect, WebSocket });
}"""


class Reader(NamedTuple):
    """A function of `readers.mjs`, and how the client reads integers."""

    label: str
    name: str
    integers: str = "number"


WHOLE = "whole records"
DELTAS = "deltas"
RAW = Reader("raw `WebSocket` and `JSON.parse`", "raw")
READERS = (
    RAW,
    Reader("a callback", "callback"),
    Reader("a view", "view"),
    Reader("a view with a listener", "listener"),
    Reader("a view with a listener, exact integers", "listener", "bigint"),
)


# the frames


class Recording(NamedTuple):
    """The frames that a query service sent to one subscriber: those after its logon, and those after its request."""

    answers: tuple[list[bytes], list[bytes]]
    records: int
    changes: int
    last: str
    """The bookmark of the last change."""

    @property
    def frames(self) -> int:
        """The number of frames."""
        return sum(map(len, self.answers))

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The messages in all frames."""
        parsed = (orjson.loads(frame) for answer in self.answers for frame in answer)
        return [message for each in parsed for message in (each if isinstance(each, list) else [each])]

    def got(self) -> dict[str, list[Any]]:
        """Return what each reader has got at the end: a number that it counts, and the bookmark."""
        group = self.records + 2  # with its begin and its end
        numbers = {
            "raw": len(self.messages),
            "callback": group + self.changes,
            "view": self.records,
            "listener": self.records + self.changes,
        }
        return {name: [number, self.last] for name, number in numbers.items()}


class Recorder:
    """Subscribes at a query service, lets it make changes, and keeps its frames."""

    def __init__(self, service: BenchService, records: int) -> None:
        self._service = service
        self._records = records
        self._made = 0
        # Twice, so that the first recorded change of each record is one.
        self._make(2 * records, subscribers=0)
        service.cost()

    def record(self, command: str, changes: int) -> Recording:
        """Return the frames to a subscriber."""
        with connect(f"ws://{HOST}:{self._service.port}/v1", compression=None, max_size=None) as socket:
            socket.send(json.dumps({"command": "logon", "command_id": "logon"}))
            logon = _frame(socket)
            request = {"command": command, "command_id": "1", "topic": "orders", "options": "oof,reset"}
            socket.send(json.dumps({**request, "batch_size": 100, "ack_type": "processed,completed"}))
            frames: list[bytes] = []
            for done in range(0, changes, CHANGES_AT_ONCE):
                self._make(min(CHANGES_AT_ONCE, changes - done), subscribers=1)
                last = f"orders:0@{self._made - 1}"
                while not frames or f'"bookmark":"{last}"'.encode() not in frames[-1][-MESSAGE_BYTES_MAX:]:
                    frames.append(_frame(socket))
                self._service.cost()
        return Recording(([logon], frames), self._records, changes, last)

    def _make(self, changes: int, subscribers: int) -> None:
        self._service.push(Load(subscribers, self._made, changes, self._records, notes_chars=NOTES_CHARS))
        self._made += changes


def _frame(socket: ClientConnection) -> bytes:
    return socket.recv(decode=False)


class PlayingService(BareService):
    """A server that plays a recording to every connection."""

    def __init__(self) -> None:
        super().__init__()
        self._answers: tuple[list[bytes], ...] = ()

    async def _serve_one(self, connection: ServerConnection) -> None:
        for answer in self._answers:
            await connection.recv()
            for frame in answer:
                await connection.send(frame, text=True)
        await connection.wait_closed()

    async def prepared(self, load: Any) -> Push:
        """Take a recording."""
        self._answers = load

        async def push() -> None:
            """Play it to each subscriber that connects."""

        return push


# the engines


class Engine(Protocol):
    """An engine that runs the readers; one reader per process."""

    def take(self, given: dict[str, Any]) -> dict[str, Any]:
        """Let a reader take the frames of a service."""

    def cpu_seconds(self) -> float:
        """Return what its process has taken."""


class NodeEngine:
    """A process of Node."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def take(self, given: dict[str, Any]) -> dict[str, Any]:
        """Let a reader take the frames of a service."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(given), file=self._process.stdin, flush=True)
        result: dict[str, Any] = json.loads(self._process.stdout.readline())
        return result

    def cpu_seconds(self) -> float:
        """Return what the process has taken."""
        return usage([self._process.pid]).cpu_seconds


@contextmanager
def node_engine() -> Iterator[NodeEngine]:
    """Lend a new process of Node."""
    node = shutil.which("node")
    assert node is not None
    command = (node, "--input-type=module", "--eval", IN_NODE)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield NodeEngine(process)
        finally:
            process.kill()


class PageEngine:
    """A page of Chromium."""

    def __init__(self, chromium: Browser, page: Page) -> None:
        self._session = chromium.new_browser_cdp_session()
        self._page = page

    def take(self, given: dict[str, Any]) -> dict[str, Any]:
        """Let a reader take the frames of a service."""
        result: dict[str, Any] = self._page.evaluate(IN_PAGE, given)
        return result

    def cpu_seconds(self) -> float:
        """Return what the renderers have taken: one is that of the page, others are idle."""
        processes = self._session.send("SystemInfo.getProcessInfo")["processInfo"]
        return float(sum(process["cpuTime"] for process in processes if process["type"] == "renderer"))


@contextmanager
def page_engine(chromium: Browser, origin: str) -> Iterator[PageEngine]:
    """Lend a new page."""
    with chromium.new_context() as context:
        page = context.new_page()
        page.set_default_timeout(0)
        page.goto(f"{origin}/none")  # the origin counts, not the page
        yield PageEngine(chromium, page)


# the measurement


class Figure(NamedTuple):
    """The cost of a message."""

    per_second: float
    cpu_us: float


class Case(NamedTuple):
    """The reader that is measured."""

    kind: str
    engine: str
    reader: Reader


def run(records: int, runs: int) -> str:
    """Measure all readers in turn; return a table of medians."""
    build()
    changes = min(records, CHANGES)
    figures: dict[Case, list[Figure]] = {}
    with ExitStack() as stack:
        with opened(BenchQueryService) as service:
            recorder = Recorder(service, RECORDS)
            recordings = {
                WHOLE: recorder.record("sow_and_subscribe", changes),
                DELTAS: recorder.record("sow_and_delta_subscribe", changes),
            }
        player = stack.enter_context(opened(PlayingService))
        chromium = stack.enter_context(browser())
        origin = stack.enter_context(_package())
        engines: dict[str, Callable[[], AbstractContextManager[Engine]]] = {
            "Node": node_engine,
            "Chromium": partial(page_engine, chromium, origin),
        }
        for _, (kind, recording) in product(range(runs), recordings.items()):
            play(player, recording)
            for (name, engine), reader in product(engines.items(), READERS):
                figure = measure(engine(), player.port, recording, reader, is_delta=kind == DELTAS)
                figures.setdefault(Case(kind, name, reader), []).append(figure)
                print(kind, name, reader.label, *(f"{one:,.2f}" for one in figure), sep=", ", flush=True)
    return report(figures)


def play(player: BenchService, recording: Recording) -> None:
    """Let a `PlayingService` play a recording from now on."""
    player.push(recording.answers)
    player.cost()


def measure(
    lent: AbstractContextManager[Engine], port: int, recording: Recording, reader: Reader, *, is_delta: bool
) -> Figure:
    """Let a reader take the frames often enough; raises if it has not got all of them."""
    given = {
        "url": f"http://{HOST}:{port}",
        "reader": reader.name,
        "frames": recording.frames,
        "isDelta": is_delta,
        "integers": reader.integers,
    }
    expected = recording.got()[reader.name]

    def seconds(engine: Engine) -> float:
        result = engine.take(given)
        if result["got"] != expected:
            raise AssertionError(f"{reader.label} has got {result['got']} instead of {expected}")
        taken: float = result["seconds"]
        return taken

    with lent as engine:
        seconds(engine)
        before = engine.cpu_seconds()
        taken = sum(seconds(engine) for _ in range(TIMES))
        cpu = engine.cpu_seconds() - before
    messages = TIMES * recording.changes
    return Figure(messages / taken, cpu / messages * 1e6)


@contextmanager
def _package() -> Iterator[str]:
    """Serve the readers and the client to a browser; lend the origin."""
    with tempfile.TemporaryDirectory() as directory:
        shutil.copy(READERS_MODULE, directory)
        shutil.copytree(PACKAGE / "dist", Path(directory) / "dist")
        with web_server(Path(directory)) as origin:
            yield origin


def report(figures: dict[Case, list[Figure]]) -> str:
    """Return a table of medians; the ratios are of CPU, to the raw frames of the same kind and engine."""
    medians = {
        case: Figure(*map(statistics.median, zip(*each, strict=True))) for case, each in figures.items()
    }
    engines = list(dict.fromkeys(case.engine for case in medians))
    heads = [
        "",
        *(
            f"{engine}: {unit}"
            for engine in engines
            for unit in ("messages/s", "µs of CPU per message", "ratio")
        ),
    ]
    rows: dict[str, list[str]] = {}
    for case, (per_second, cpu_us) in medians.items():
        ratio = cpu_us / medians[case._replace(reader=RAW)].cpu_us
        name = f"{case.kind}: {case.reader.label}"
        rows.setdefault(name, [name]).extend((f"{per_second:,.0f}", f"{cpu_us:.1f}", f"{ratio:.1f}"))
    return table(heads, rows.values())
