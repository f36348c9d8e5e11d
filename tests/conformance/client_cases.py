"""Cases for clients: what a service sends, and what a view of a client then shows. Any client can be held to them.

Each file of `tests/conformance/client/` is one case, a line of JSON each:

| line | meaning |
|---|---|
| `{"about": …}` | the first line: what the case is about |
| `{"view": {…}}` | open a view with these fields; `delta` is false for whole records, `records` are a copy |
| `{"replace": {…}}` | replace what the view shows by these fields |
| `{"prove": true}` | ask for a checksum |
| `{"lost": true}` | the connection is lost; the client makes another one |
| `{"sent": {…}}` | the client has sent a command with these fields, and maybe more |
| `{"frame": …}` | the service sends this frame |
| `{"replaced": …}`, `{"proven": …}` | what became of it: true, false, or the reason of a failure |
| `{"shows": [[key, record], …], "bookmark": …}` | what the view holds, in its order, and its bookmark |
| `{"error": …}` | the view has ended with this reason |

A `frame` may have `changes`: the changes that the view reports after it, in order, `["insert", key, record]`,
`["update", key, record, before]` or `["remove", key, before, reason]`. Without it, the view reports none. The first
command has the id `1`, the first one that replaces it `1.1`, and a request for a checksum `1.proof`. A command that
was sent has no field that is null in its line; its options may be in another order.

`python -m tests.conformance.client_recording` makes the files from a real service and the Python client.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

from sowline.client.async_client import AsyncClient
from sowline.client.local_view import AsyncLocalView
from sowline.errors import SowlineError
from tests.held_connection import Connection
from tests.waiting import loop_turns

DIRECTORY = Path(__file__).parent / "client"
TURNS = 100
"""How often the event loop runs before what a client does is looked at."""

Json = dict[str, Any]


def files() -> list[Path]:
    """Return the files of all cases."""
    return sorted(DIRECTORY.glob("*.jsonl"))


def read(file: Path) -> list[Json]:
    """Return the lines of a case."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


class Player:
    """Plays a case to a view of the Python client; yields the line that each line of the case should be."""

    def __init__(self) -> None:
        self._line = Connection()
        self._changes: list[list[Any]] = []
        self._outcomes: dict[str, Any] = {}
        self._view: AsyncLocalView
        self._tasks: list[asyncio.Task[None]] = []

    async def connect(self, url: str, **options: Any) -> Connection:
        """Make a connection: it replaces the function of the library."""
        return self._line

    async def play(self, lines: list[Json]) -> list[Json]:
        """Return the lines as this client has them."""
        async with AsyncClient("http://service") as client:
            self._client = client
            played = [await self._line_of(line) for line in lines]
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
        return played

    async def _line_of(self, line: Json) -> Json:
        for name in ("view", "replace", "prove", "lost", "frame"):
            if name in line:
                getattr(self, f"_do_{name}")(line[name])
                await turns()
                changes, self._changes = self._changes, []
                assert name == "frame" or not changes
                return {name: line[name], "changes": changes} if changes else {name: line[name]}
        if "sent" in line:
            return {"sent": parts_of(self._line.sent.pop(0), line["sent"])}
        return self._state_of(line)

    def _state_of(self, line: Json) -> Json:
        if "shows" in line:
            return {"shows": [list(item) for item in self._view.items()], "bookmark": self._view.bookmark}
        if "error" in line:
            return {"error": None if self._view.error is None else self._view.error.reason}
        (name,) = line
        return line if name == "about" else {name: self._outcomes.get(name)}

    def _do_view(self, given: Json) -> None:
        reading = dict(given)
        if "records" in reading:
            reading["records"] = {key: json.dumps(record).encode() for key, record in reading["records"]}
        self._view = self._client.local_view(
            **reading,
            on_insert=lambda key, record: self._changes.append(["insert", key, record]),
            on_update=lambda key, record, before: self._changes.append(["update", key, record, before]),
            on_remove=lambda key, before, reason: self._changes.append(["remove", key, before, reason]),
        )
        self._start("opened", self._view.__aenter__)

    def _do_replace(self, given: Json) -> None:
        self._start("replaced", lambda: self._view.replace(**given))

    def _do_prove(self, _: bool) -> None:
        self._start("proven", self._view.verify)

    def _do_lost(self, _: bool) -> None:
        lost, self._line = self._line, Connection()
        lost.lose()

    def _do_frame(self, frame: Any) -> None:
        self._line.give_frame(frame)

    def _start(self, name: str, function: Callable[[], Awaitable[Any]]) -> None:
        async def run() -> None:
            try:
                outcome = await function()
                self._outcomes[name] = outcome if isinstance(outcome, bool) else True
            except SowlineError as error:
                self._outcomes[name] = error.reason

        self._outcomes.pop(name, None)
        self._tasks.append(asyncio.create_task(run()))


async def turns() -> None:
    """Wait until whatever can go on has done so."""
    await loop_turns(TURNS)


def parts_of(command: Json, expected: Json) -> Json:
    """Return the fields of a command that a line names. Options may be in any order."""
    parts = {name: command.get(name) for name in expected}
    if "options" in expected and sorted(options_of(parts)) == sorted(options_of(expected)):
        parts["options"] = expected["options"]
    return parts


def options_of(command: Json) -> Iterator[str]:
    """Yield the options of a command that contains no list."""
    yield from (command["options"] or "").split(",")
