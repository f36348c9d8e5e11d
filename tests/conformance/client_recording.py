"""Records the cases for clients: `python -m tests.conformance.client_recording`.

What the service sends comes from a real service, over a real Kafka. While it is recorded, each view is compared with
a query. What a view shows after each frame is then played by the Python client without a service (`Player`).
"""

import asyncio
import contextlib
import json
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as really_connect
from websockets.exceptions import ConnectionClosedError

from sowline.client.async_client import AsyncClient
from sowline.client.local_view import AsyncLocalView
from sowline.errors import SowlineError
from tests.brokers import kafka_broker
from tests.conformance.client_cases import DIRECTORY, Json, Player
from tests.integration.compaction import compact, hasten_compaction
from tests.integration.served import Served, ServedTopic, serve
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


async def records(case: Recording) -> None:
    """Records are inserted, updated, sent once more, deleted, and leave the filter."""
    await asyncio.to_thread(case.topic.write, {"id": 1, "n": 1}, {"id": 2, "n": 2}, {"id": 3, "n": 99})
    await case.open(filter="/n < 50", order_by="/n DESC")
    await case.write({"id": 4, "n": 3}, {"id": 1, "n": 5})
    await case.write({"id": 2, "n": 2})
    await case.write({"id": 2, "n": 70})
    await case.delete({"id": 1}, {"id": 3})
    await case.write({"id": 3, "n": 0}, {"id": 2, "n": 4})


async def deltas(case: Recording) -> None:
    """Deltas change and remove fields, also those below others and those whose names are no words."""
    await case.open()
    body = {"id": 1, "a": {"b": 1, "c": {"d": [1, 2]}}, "odd name": {"x y": 1, "z": None}, "e": None, "": 0}
    await case.write(body)
    await case.merge({"id": 1, "a": {"c": {"d": [3]}}, "f": "new"})
    await case.write({"id": 1, "a": {"c": {}}, "odd name": {"z": 1}, "f": "new", "": 0})
    await case.write({"id": 1, "a": 5, "__proto__": {"x": 1}, "constructor": 1})
    await case.merge({"id": 1, "__proto__": {"y": 2}})
    await case.write({"id": "1", "a": []})


async def whole(case: Recording) -> None:
    """A view may ask for whole records: it shows the same."""
    await case.open(delta=False)
    await case.write({"id": 1, "n": 1, "more": {"a": 1}})
    await case.merge({"id": 1, "more": {"b": 2}})
    await case.delete({"id": 1})


async def expired(case: Recording) -> None:
    """A record leaves because it has expired."""
    await case.open()
    await case.client.publish(case.topic.name, {"id": 1}, expiration=0.5, wait=True)
    await case.view.wait_for(lambda view: len(view) == 1)
    await case.view.wait_for(lambda view: not view)
    await case.prove()


async def page(case: Recording) -> None:
    """A page of the second to the fourth record: others push its records out, and its window moves."""
    await asyncio.to_thread(case.topic.write, *({"id": number, "n": 10 * number} for number in range(6)))
    await case.open(order_by="/n, /id", top_n=3, skip_n=1)
    await case.write({"id": 6, "n": 15})
    await case.merge({"id": 6, "n": 5})
    await case.delete({"id": 0})
    await case.merge({"id": 2, "n": 99})
    await case.replace(skip_n=3)
    await case.replace(top_n=2, skip_n=0, order_by="/n DESC")
    await case.write({"id": 7, "n": 100})


async def groups(case: Recording) -> None:
    """Groups of records, with sums that change, groups that are new and groups that are gone."""
    await asyncio.to_thread(case.topic.write, {"id": 1, "g": "a", "n": 1}, {"id": 2, "g": "b", "n": 2})
    await case.open(order_by="/g", options="grouping=[/g],projection=[/g,SUM(/n) AS /sum,COUNT(1) AS /count]")
    await case.write({"id": 3, "g": "a", "n": 4}, {"id": 4, "g": "c", "n": 8})
    await case.merge({"id": 2, "g": "a"})
    await case.delete({"id": 4})


async def conflation(case: Recording) -> None:
    """The outcome of an interval is one step."""
    await case.open(options="conflation=300ms")
    await case.write(*({"id": number % 4, "n": number} for number in range(10)))
    await case.delete({"id": 0}, {"id": 1})
    await case.write({"id": 0, "n": 0, "m": 1}, {"id": 2, "n": 0})


async def resumed(case: Recording) -> None:
    """A client resumes at the position of each partition, although messages name only their own."""
    await case.open()
    await case.write(*({"id": number, "n": 0} for number in range(6)))
    await case.write({"id": 3, "n": 1})
    case.may_connect.clear()
    case.connection.lose()
    await asyncio.to_thread(case.topic.write, {"id": 2, "n": 1}, {"id": 9, "n": 1})
    await asyncio.to_thread(case.topic.delete, {"id": 3})
    await case.resumed()
    await case.prove()


async def resumed_page(case: Recording) -> None:
    """A page that comes back gets the difference as one step."""
    await asyncio.to_thread(case.topic.write, *({"id": number, "n": number} for number in range(6)))
    await case.open(order_by="/n", top_n=3)
    case.may_connect.clear()
    case.connection.lose()
    await asyncio.to_thread(case.topic.delete, {"id": 0}, {"id": 2})
    await asyncio.to_thread(case.topic.merge, {"id": 1, "n": 3.5})
    await case.resumed()
    await case.prove()


async def lost_in_a_group(case: Recording) -> None:
    """A connection is lost within a group: the group begins again."""
    await asyncio.to_thread(case.topic.write, *({"id": number} for number in range(30)))
    case.connection.ends_behind = "sow"
    await case.open(filter="/id < 25", batch_size=5)
    await case.write({"id": 30}, {"id": 1, "n": 1})


@contextlib.asynccontextmanager
async def unrecorded(url: str) -> AsyncIterator[AsyncClient]:
    """Lend a client that no case is about."""
    with patch("sowline.client.connection.connect", really_connect):
        async with AsyncClient(url) as client:
            yield client


async def saved(case: Recording) -> None:
    """A view begins with a saved copy, and gets what has changed since."""
    await asyncio.to_thread(case.topic.write, *({"id": number, "n": 0} for number in range(5)))
    async with unrecorded(case.url) as client, client.local_view(case.topic.name) as view:
        bookmark, records = view.saved()
    await asyncio.to_thread(case.topic.merge, {"id": 3, "n": 1})
    await asyncio.to_thread(case.topic.delete, {"id": 4})
    await case.open(order_by="/id", bookmark=bookmark, records=records)
    await case.prove()


async def reset(case: Recording) -> None:
    """The changes since the bookmark are gone: a new group replaces what is held, as ordinary changes."""
    await asyncio.to_thread(case.topic.write, *({"id": number, "n": 0} for number in range(4)))
    await case.open(order_by="/id")
    hasten_compaction(case.system, case.topic.name)
    case.may_connect.clear()
    case.connection.lose()
    await asyncio.to_thread(case.topic.delete, {"id": 2})
    await asyncio.to_thread(compact, case.system, case.topic.name, case.rewrite)
    await case.resumed()
    await case.prove()
    await case.write({"id": 1, "n": 9})


async def replaced(case: Recording) -> None:
    """A view is replaced: other records, another order, other fields; a refused one changes nothing."""
    await asyncio.to_thread(case.topic.write, *({"id": number, "b": number % 3} for number in range(9)))
    await case.open(filter="/b = 0", order_by="/id")
    await case.replace(filter="/b = 1 OR /id = 3")
    await case.replace(filter="/b =")
    await case.replace(order_by="/b DESC, /id DESC")
    await case.replace(top_n=2)
    await case.write({"id": 9, "b": 1}, {"id": 4, "b": 2})


async def replaced_while_lost(case: Recording) -> None:
    """The connection is lost before a replacement is answered: the old subscription resumes, and is replaced then."""
    await asyncio.to_thread(case.topic.write, *({"id": number, "b": number % 3} for number in range(9)))
    await case.open(filter="/b = 0", order_by="/id")
    case.connection.ends_after = "1.1"
    await case.replace(filter="/b = 1")
    await case.write({"id": 9, "b": 1})


async def page_to_groups(case: Recording) -> None:
    """Groups that replace a page are sent whole, as a reset."""
    await asyncio.to_thread(case.topic.write, *({"id": number, "g": "ab"[number % 2]} for number in range(5)))
    await case.open(order_by="/id", top_n=2, skip_n=1)
    await case.replace(
        order_by="/g", skip_n=0, top_n=5, options="grouping=[/g],projection=[/g,COUNT(1) AS /count]"
    )
    await case.write({"id": 5, "g": "c"})


async def integers(case: Recording) -> None:
    """Integers beyond 2^53 keep their value, and their order."""
    big = 2**53
    await case.open(order_by="/n DESC, /id")
    await case.write(*({"id": number, "n": big + number} for number in (3, 1, 2)), {"id": 4, "n": -big - 7})
    await case.merge({"id": 1, "n": 18446744073709551615, "list": [big + 1, {"m": -big - 1}]})
    await case.merge({"id": 1, "list": [big + 2, 9.5, True, None, "x"]})


async def orders(case: Recording) -> None:
    """NULL is first, then numbers and booleans, then strings by code point; an array counts as its first element."""
    values = [
        5,
        -1,
        2.5,
        True,
        False,
        None,
        "",
        "b",
        "Z",
        "10",
        "é",
        "\ufffd",
        "\U0001f600",
        [],
        [7, 1],
        ["a"],
        {"x": 1},
    ]
    await asyncio.to_thread(
        case.topic.write, *({"id": n, "v": value} for n, value in enumerate(values)), {"id": 99}
    )
    await case.open(order_by="/v")
    await case.replace(order_by="/v DESC")
    await case.replace(order_by="/v TEXT")
    await case.replace(order_by="/v DESC TEXT, /id")


async def without_sow(case: Recording) -> None:
    """A topic without a SOW has no view: its first message ends it."""
    case.lines.append({"view": {"topic": "orders"}})
    case.view = case.client.local_view(case.topic.name)
    await case.view.__aenter__()
    await asyncio.to_thread(case.topic.write, {"id": 1})
    with contextlib.suppress(SowlineError):
        await case.view.wait_for(lambda view: False)
    case.lines.append({"error": "no sow"})


SCENARIOS: dict[str, tuple[Scenario, Json]] = {
    scenario.__name__: (scenario, {"key": ["/id"], "partitions": 2, "key_domain": "orders"} | definition)
    for scenario, definition in (
        (records, {}),
        (deltas, {}),
        (whole, {}),
        (expired, {"expiration": "enabled"}),
        (page, {}),
        (groups, {}),
        (conflation, {}),
        (resumed, {}),
        (resumed_page, {}),
        (lost_in_a_group, {}),
        (saved, {}),
        (reset, {"partitions": 1}),
        (replaced, {}),
        (replaced_while_lost, {}),
        (page_to_groups, {}),
        (integers, {}),
        (orders, {}),
    )
}
SCENARIOS["without_sow"] = (without_sow, {"sow": False, "partitions": 2})


# Cases that no service sends are recorded ones that were changed.


def entitlement(lines: list[Json]) -> list[Json]:
    """A record leaves because the user may not see it any more."""
    return [
        json.loads(json.dumps(line).replace('"reason": "match"', '"reason": "entitlement"')) for line in lines
    ]


def gap_in_a_group(lines: list[Json]) -> list[Json]:
    """A record of a group is missing."""
    return _changed(lines, "sow", lambda message: message["records"].pop())


def gap_before_a_delta(lines: list[Json]) -> list[Json]:
    """A delta is of a record that the view does not hold."""
    return _changed(lines, "publish", lambda message: message.update(sow_key="1", delta=True))


def record_outside_of_a_group(lines: list[Json]) -> list[Json]:
    """A group has no begin."""
    received = {"command": "ack", "ack_type": "received", "command_id": "1", "status": "success"}

    def leave_out(message: Json) -> None:
        message.clear()
        message.update(received)

    return _changed(lines, "group_begin", leave_out)


def unknown_message(lines: list[Json]) -> list[Json]:
    """A message is none of the protocol."""
    return _changed(lines, "publish", lambda message: message.update(command="replay"))


DERIVED = (entitlement, gap_in_a_group, gap_before_a_delta, record_outside_of_a_group, unknown_message)


def _changed(lines: list[Json], command: str, change: Callable[[Json], Any]) -> list[Json]:
    """Change the first message with a command. The case ends at the end of the group, or behind that message."""
    changed: list[Json] = []
    found = False
    for line in json.loads(json.dumps(lines)):
        messages = line.get("frame", [])
        messages = messages if isinstance(messages, list) else [messages]
        for message in messages:
            if message["command"] == command and not found:
                change(message)
                found = True
        changed.append(line)
        commands = [message["command"] for message in messages]
        if found and (command == "publish" or "group_end" in commands):
            return [*changed, {"error": None}]
    raise AssertionError(f"expected a message with the command {command}, got none")


async def played(lines: list[Json], about: str | None) -> list[Json]:
    """Return the lines with what the Python client reports after each frame."""
    player = Player()
    with patch("sowline.client.connection.connect", player.connect):
        return await player.play([{"about": about}, *lines[1:]])


def write(name: str, lines: list[Json]) -> None:
    """Write a case."""
    text = "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines)
    (DIRECTORY / f"{name}.jsonl").write_text(text, encoding="utf-8")


async def record_all(served: Served) -> None:
    """Record all cases."""
    recorded = {}
    for name, (scenario, _) in SCENARIOS.items():
        lines = await Recording(served, served[name]).record(scenario)
        recorded[name] = await played(lines, scenario.__doc__)
        for line, again in zip(lines, recorded[name], strict=True):
            assert {key: again[key] for key in line} == line, f"{name}: {again} was {line}"
        write(name, recorded[name])
    for derive in DERIVED:
        write(derive.__name__, await played(derive(recorded["records"]), derive.__doc__))


def main() -> None:
    """Record all cases with services of their own."""
    definitions = {name: definition for name, (_, definition) in SCENARIOS.items()}
    with (
        tempfile.TemporaryDirectory() as directory,
        kafka_broker() as kafka,
        serve(kafka, Path(directory), definitions, ring_changes_max=RING) as served,
    ):
        asyncio.run(record_all(served))


if __name__ == "__main__":
    main()
