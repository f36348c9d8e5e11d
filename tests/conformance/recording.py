"""A case for clients while it is recorded: a client of a real service, its connection, its view, and the lines."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any
from unittest.mock import patch

from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as really_connect
from websockets.exceptions import ConnectionClosedError

from sowline.client.async_client import AsyncClient
from sowline.client.local_view import AsyncLocalView
from sowline.errors import SowlineError
from tests.conformance.client_cases import Json
from tests.integration.served import Served, ServedTopic
from tests.integration.services import http_text
from tests.waiting import until

RING = 50
"""Changes that the service keeps in memory: few, so that compaction makes bookmarks expire."""

NOT_QUERIED = ("records", "bookmark", "delta", "batch_size")
"""The arguments of a view that are none of a query."""

SENT = ("command", "sub_id", "bookmark", "filter", "options", "order_by", "top_n", "skip_n")
"""The fields of a command that a case has."""


class TappedConnection:
    """A real connection that writes down what goes over it, and may be lost at a chosen moment."""

    def __init__(self, connection: ClientConnection, lines: list[Json], topic: str) -> None:
        self._connection = connection
        self._lines = lines
        self._topic = topic
        self._is_lost = False
        self.response = connection.response
        self.transport = connection.transport
        self.ends_behind = ""
        """The command of a message behind which the connection is lost."""
        self.ends_after = ""
        """The id of a command after which the connection is lost."""

    async def send(self, text: str) -> None:
        """Send a command, and write down what of it a case has."""
        command = self._renamed(text)
        if command["command"] != "unsubscribe":
            is_bookmarked = "subscribe" in command["command"]
            names = [name for name in SENT if name in command or (is_bookmarked and name == "bookmark")]
            self._lines.append({"sent": {name: command.get(name) for name in names}})
        if command["command_id"] == self.ends_after:
            self.lose()
        else:
            await self._connection.send(text)

    async def recv(self, decode: bool) -> bytes:
        """Return the next frame, and write it down."""
        if self._is_lost:
            raise ConnectionClosedError(None, None)
        frame = await self._connection.recv(decode=False)
        messages = json.loads(frame)
        messages = messages if isinstance(messages, list) else [messages]
        commands = [message["command"] for message in messages]
        if self.ends_behind in commands:
            kept = messages[: commands.index(self.ends_behind) + 1]
            frame = json.dumps(kept).encode()
        self._lines.append({"frame": self._renamed(frame.decode())})
        if self.ends_behind in commands:
            self.lose()
        return frame

    def lose(self) -> None:
        """Lose the connection."""
        self._lines.append({"lost": True})
        self._is_lost = True
        self._connection.transport.abort()

    async def ping(self) -> Any:
        """Ask for a sign of life."""
        return await self._connection.ping()

    async def close(self) -> None:
        """End it."""
        await self._connection.close()

    def _renamed(self, text: str) -> Any:
        return json.loads(text.replace(self._topic, "orders"))


class Recording:
    """One case as it is recorded: a client, its view, and the lines so far."""

    def __init__(self, served: Served, topic: ServedTopic) -> None:
        self.lines: list[Json] = []
        self.topic = topic
        self.system = served.system
        self.client: AsyncClient
        self.view: AsyncLocalView
        self.connection: TappedConnection
        self.may_connect = asyncio.Event()
        self.may_connect.set()
        self.url = served.query.url
        self._reading: Json = {}

    async def connect(self, url: str, **options: Any) -> TappedConnection:
        """Make a connection: it replaces the function of the library."""
        await self.may_connect.wait()
        connection = await really_connect(url, **options)
        self.connection = TappedConnection(connection, self.lines, self.topic.name)
        return self.connection

    async def record(self, scenario: "Scenario") -> list[Json]:
        """Play a scenario, and return the lines of its case."""
        with patch("sowline.client.connection.connect", self.connect):
            async with AsyncClient(self.url) as self.client:
                await scenario(self)
                await self.view.close()
        assert scenario.__doc__ is not None
        return [{"about": scenario.__doc__}, *self.lines]

    async def open(self, **reading: Any) -> None:
        """Open a view, and wait until it shows its records."""
        line = {"topic": "orders", **reading}
        if "records" in line:
            line["records"] = [[key, json.loads(body)] for key, body in reading["records"].items()]
            line["bookmark"] = line["bookmark"].replace(self.topic.name, "orders")
        self.lines.append({"view": line})
        self._reading = {name: reading[name] for name in reading if name not in NOT_QUERIED}
        self.view = self.client.local_view(self.topic.name, **reading)
        await self.view.__aenter__()
        await self.compare()

    async def replace(self, **reading: Any) -> None:
        """Replace the view, and write down what became of that."""
        self.lines.append({"replace": reading})
        try:
            await self.view.replace(**reading)
        except SowlineError as error:
            self.lines.append({"replaced": error.reason})
        else:
            self._reading |= reading
            self.lines.append({"replaced": True})
        await self.compare()

    async def write(self, *records: Json) -> None:
        """Publish records, and wait until the view has all that it should have."""
        await asyncio.to_thread(self.topic.write, *records)
        await self.prove()

    async def merge(self, *deltas: Json) -> None:
        """Publish deltas."""
        await asyncio.to_thread(self.topic.merge, *deltas)
        await self.prove()

    async def delete(self, *keys: Json) -> None:
        """Delete records."""
        await asyncio.to_thread(self.topic.delete, *keys)
        await self.prove()

    async def prove(self) -> None:
        """Let the service prove the view; whatever it sent before that has come then."""
        self.lines.append({"prove": True})
        assert await self.view.verify()
        self.lines.append({"proven": True})
        await self.compare()

    async def compare(self) -> None:
        """Write down what the view shows, which a query finds, too."""
        reading = {name: value for name, value in self._reading.items() if value is not None}
        if not reading.get("options", "").startswith("grouping"):
            reading.pop("options", None)
        url = f"{self.url}/v1/topics/{self.topic.name}/sow"
        answer = await asyncio.to_thread(http_text, url, json.dumps(reading).encode())
        found = {line["sow_key"]: line["data"] for line in map(json.loads, answer.splitlines())}
        assert dict(self.view) == found
        bookmark = self.view.bookmark.replace(self.topic.name, "orders")
        self.lines.append({"shows": [list(item) for item in self.view.items()], "bookmark": bookmark})

    async def resumed(self) -> None:
        """Wait until the client has sent its requests over a new connection."""
        self.may_connect.set()
        await until(lambda: any("sent" in line for line in self._lines_since_loss()))

    def rewrite(self, number: int) -> None:
        """Write one record so often that the changes before are compacted."""
        self.topic.write(*({"id": 0, "n": number} for _ in range(2 * RING)))

    def _lines_since_loss(self) -> list[Json]:
        lost = max(number for number, line in enumerate(self.lines) if "lost" in line)
        return self.lines[lost:]


Scenario = Callable[[Recording], Awaitable[None]]
