"""A client of a gateway with one subscription, and changes at random."""

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from sowline.model.bookmark import parse_bookmark
from sowline.serving.authorization.entitlements import EVERYTHING, Rights
from tests.described import checked_message
from tests.unit.gateway.rig import Json, Rig, RigClient
from tests.waiting import pace

SECONDS_MAX = 20.0


class Subscriber:
    """A client with one subscription: what it holds, and what it was sent."""

    def __init__(self, client: RigClient) -> None:
        self.client = client
        self.held: dict[str, Json] = {}
        self.messages: list[Json] = []
        self.bookmark: dict[str, Any] = {}
        self.has_snapshot = False
        self._news = asyncio.Event()

    def send(self, command: str, **fields: Any) -> None:
        """Send a command."""
        request = {"command": command, "command_id": "1", "topic": "orders", "sub_id": "mine"} | fields
        waiting = self.client.session.receive_one(json.dumps(request).encode())
        assert waiting is None

    async def read(self) -> None:
        """Read messages, and apply them, until cancelled."""
        while True:
            for text in await self.client.session.outbox.take():
                self.take(checked_message(json.loads(text)))
            self._news.set()

    def take(self, message: Json) -> None:
        """Take a message."""
        self.messages.append(message)
        if message["command"] in ("publish", "oof", "progress"):
            assert message["sids"] == ["mine"]
        self._apply(message)
        if message["command"] in ("publish", "oof", "progress", "group_end"):
            for log, positions in parse_bookmark(message["bookmark"]).items():
                before = self.bookmark.get(log, {})
                assert all(position >= before.get(number, position) for number, position in positions.items())
                if len(positions) == 1 and message["command"] != "progress":
                    ((number, position),) = positions.items()
                    assert position > before.get(number, position._replace(offset=-2)), "sent twice"
                self.bookmark.setdefault(log, {}).update(positions)

    def _apply(self, message: Json) -> None:
        """Change what is held."""
        if message["command"] == "group_begin":
            self.has_snapshot = True
            if message.get("reset"):
                self.held.clear()
        for record in message["records"] if message["command"] == "sow" else ():
            self.held[record["sow_key"]] = record["data"]
        if message["command"] == "publish":
            if message.get("delta"):
                record = self.held.get(message["sow_key"], {}) | message["data"]
                gone = message.get("removed", ())
                self.held[message["sow_key"]] = {
                    name: one for name, one in record.items() if f"/{name}" not in gone
                }
            else:
                self.held[message["sow_key"]] = message["data"]
        if message["command"] == "oof" and (self.has_snapshot or message["sow_key"] in self.held):
            del self.held[message["sow_key"]]

    async def until(self, condition: Any, what: str = "") -> None:
        """Wait until a condition holds."""
        try:
            async with asyncio.timeout(SECONDS_MAX):
                while not condition():
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise AssertionError(f"{what}: {self.messages[-3:]}") from None

    def acks(self) -> list[tuple[str, str]]:
        """Return the type and the status of each acknowledgement."""
        return [(one["ack_type"], one.get("reason", "")) for one in self.messages if one["command"] == "ack"]


@asynccontextmanager
async def subscriber(made: Rig, rights: Rights = EVERYTHING, **request: Any) -> AsyncIterator[Subscriber]:
    """Lend a client of the gateway that has sent a command."""
    found = Subscriber(made.client(rights))
    reading = asyncio.create_task(found.read())
    try:
        if request:
            found.send(**request)
        yield found
    finally:
        reading.cancel()
        await asyncio.wait([reading])
        found.client.session.close()


def matching(made: Rig, test: Any = lambda record: True) -> dict[str, Json]:
    """Return the records that the one query service has, and that match."""
    records = {key.decode(): json.loads(body) for key, body in made.whole.bodies.items()}
    return {key: record for key, record in records.items() if test(record)}


def has_groups(mine: Subscriber, count: int) -> bool:
    """Return whether a client was sent so many groups."""
    return [one["command"] for one in mine.messages].count("group_end") == count


def holds(mine: Subscriber, count: int) -> bool:
    """Return whether a client holds so many records."""
    return len(mine.held) == count


def change(made: Rig, chance: random.Random, ids: int = 30, **to: Any) -> None:
    """Write or delete a record."""
    number = chance.randrange(ids)
    there = any(json.loads(body)["id"] == number for body in made.whole.bodies.values())
    if there and chance.random() < 0.2:
        made.put(None, number, **to)
    else:
        made.put({"id": number, "v": chance.randrange(10)}, **to)


def changes(made: Rig, chance: random.Random, count: int) -> None:
    """Write or delete records."""
    for _ in range(count):
        change(made, chance)


async def paced_changes(made: Rig, chance: random.Random, count: int) -> None:
    """Write or delete records, and let what follows from some of them arrive in between."""
    for _ in range(count):
        change(made, chance)
        if chance.random() < 0.3:
            await pace(0.002)
