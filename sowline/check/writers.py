"""The writers of the workload: random commands, straight to Kafka or through the service that answers."""

import asyncio
import contextlib
import itertools
import json
import random
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Literal

from sowline.check.history import DeltaParts, WriteAnswered, WriteSent
from sowline.check.patience import Patience, UnansweredError
from sowline.check.recorder import Recorder
from sowline.check.topics import STATUSES, WorkloadTopics
from sowline.client.async_client import AsyncClient
from sowline.client.write_options import DeliveryReport
from sowline.errors import SowlineError
from sowline.model.bookmark import format_bookmark, parse_bookmark
from sowline.model.position import Position

KEYS: Final = 40
"""Records of a topic: few, so that writers meet at each of them again and again."""
LIFETIMES_SECONDS: Final = (0.0, 0.0, 1.0, 3.0)

Command = Literal["publish", "delta_publish", "sow_delete"]


def delta_text(delta: DeltaParts) -> str:
    """Return a delta in the language of documents."""
    parts = {name: json.dumps(value) for name, value in delta.fields.items()}
    parts |= dict.fromkeys(delta.removed, "~")
    parts |= {name: f"(..,{','.join(map(json.dumps, added))})" for name, added in delta.added.items()}
    text = f"{{..,{','.join(f'{json.dumps(name)}:{part}' for name, part in parts.items())}}}"
    if delta.condition is None:
        return text
    held = ",".join(f"{json.dumps(name)}:{json.dumps(value)}" for name, value in delta.condition.items())
    return f"if {{..,{held}}} then {text} end"


class Effects:
    """What all writers together have written: how much of it is unanswered, and the bookmark of what is answered."""

    def __init__(self) -> None:
        self._positions: dict[str, dict[int, Position]] = {}
        self.unknown = 0
        """The writes of which nobody knows whether they took effect."""

    def add(self, bookmark: str) -> None:
        """Lay the effect of a write over those before it."""
        for log, positions in parse_bookmark(bookmark).items():
            held = self._positions.setdefault(log, {})
            for partition, position in positions.items():
                held[partition] = max(position, held.get(partition, position))

    def bookmark(self, topic: str) -> str:
        """Return the bookmark of everything answered in a topic; empty if there is nothing."""
        return format_bookmark({topic: self._positions[topic]}) if topic in self._positions else ""


class WorkloadWriter:
    """One writer, which sends its commands in order."""

    def __init__(
        self,
        name: str,
        client: AsyncClient,
        topics: WorkloadTopics,
        dice: random.Random,
        recorder: Recorder,
        effects: Effects,
        patience: Patience,
        *,
        waits: bool,
    ) -> None:
        self._name = name
        self._client = client
        self._topics = topics
        self._dice = dice
        self._recorder = recorder
        self._effects = effects
        self._patience = patience
        self._waits = waits
        self._numbers = itertools.count(1)

    async def write(self) -> tuple[str, str]:
        """Send a random command; return its topic, and its effect if it was answered, else an empty string."""
        dice = self._dice
        topic = dice.choices(self._topics.written, (55, 25, 20))[0]
        kind = dice.random()
        if topic == self._topics.documents and kind > 0.4:
            return topic, await self._write_delta(topic)
        if self._waits and kind < 0.03:
            return topic, await self._delete_some(topic)
        command: Command = "sow_delete" if kind < 0.12 else "delta_publish" if kind < 0.5 else "publish"
        data: dict[str, Any] = {"id": f"k{dice.randrange(KEYS)}"}
        number = next(self._numbers)
        if command != "sow_delete":
            data |= {"status": dice.choice(STATUSES), "qty": dice.randrange(100)}
            more = {
                "batch": f"b{dice.randrange(8)}",
                "note": {"by": self._name, "number": number},
                "late": number,
            }
            data |= {name: more[name] for name in more if command == "publish" or dice.random() < 0.5}
            if dice.random() < 0.3:
                data.pop("late", None)
        lifetime = (
            dice.choice(LIFETIMES_SECONDS)
            if topic == self._topics.expiring and command != "sow_delete"
            else 0.0
        )
        write = WriteSent(
            f"{self._name}-{number}", topic, command, self._name, self._recorder.now, data, "", lifetime
        )
        return topic, await (self._write_waiting(write) if self._waits else self._write_to_kafka(write))

    async def _delete_some(self, topic: str) -> str:
        """Delete the records of one batch."""
        filter = f"/batch = 'b{self._dice.randrange(8)}'"
        number = next(self._numbers)
        id = f"{self._name}-{number}"
        self._recorder.note(WriteSent(id, topic, "sow_delete", self._name, self._recorder.now, None, filter))
        try:
            deleted = await self._patience.answered(
                f"the answer to the delete {id}",
                self._client.sow_delete(topic, filter=filter, correlation=id),
            )
        except SowlineError as error:
            return self._lost(id, error)
        return self._answered(id, "", self._client.effect, deleted)

    async def _write_delta(self, topic: str) -> str:
        """Change a document: some fields, a set, or nothing unless a condition holds."""
        dice, number, key = self._dice, next(self._numbers), f"k{self._dice.randrange(KEYS)}"
        delta = DeltaParts(
            {"id": key, "status": dice.choice(STATUSES), "qty": dice.randrange(3)},
            ("late",) if dice.random() < 0.3 else (),
            {"tags": (f"t{dice.randrange(4)}",)} if dice.random() < 0.4 else {},
            {"status": dice.choice(STATUSES)} if dice.random() < 0.5 else None,
        )
        id, now = f"{self._name}-{number}", self._recorder.now
        write = WriteSent(id, topic, "delta", self._name, now, {"id": key}, delta=delta)
        if not self._waits:
            return await self._write_to_kafka(write)
        self._recorder.note(write)
        try:
            outcome = await self._patience.answered(
                f"the answer to the delta {id}",
                self._client.delta(topic, key, delta_text(delta), wait=True, correlation=id),
            )
        except SowlineError as error:
            return self._lost(id, error)
        return self._answered(id, "", self._client.effect, None, outcome or "")

    async def _write_waiting(self, write: WriteSent) -> str:
        client, data, answered = self._client, write.data or {}, self._patience.answered
        expected = f"the answer to the {write.command} {write.id}"
        self._recorder.note(write)
        try:
            if write.command == "sow_delete":
                deleted = await answered(
                    expected, client.sow_delete(write.topic, data=data, correlation=write.id)
                )
                return self._answered(write.id, "", client.effect, deleted)
            send = client.publish if write.command == "publish" else client.delta_publish
            lifetime = write.expiration if write.topic == self._topics.expiring else None
            effect = await answered(
                expected, send(write.topic, data, wait=True, correlation=write.id, expiration=lifetime)
            )
        except SowlineError as error:
            return self._lost(write.id, error)
        return self._answered(write.id, effect or "", effect or "", None)

    async def _write_to_kafka(self, write: WriteSent) -> str:
        data = write.data or {}
        publisher = await self._patience.until_answered(
            "the address of Kafka", partial(self._client.publisher, write.topic)
        )
        self._recorder.note(write)
        report = self._reporter(write.id)
        try:
            if write.command == "sow_delete":
                publisher.sow_delete(write.topic, data=data, correlation=write.id, on_delivery=report)
                return ""
            if write.delta is not None:
                text = delta_text(write.delta)
                publisher.delta(write.topic, data["id"], text, correlation=write.id, on_delivery=report)
                return ""
            send = publisher.publish if write.command == "publish" else publisher.delta_publish
            lifetime = write.expiration if write.topic == self._topics.expiring else None
            send(write.topic, data, correlation=write.id, expiration=lifetime, on_delivery=report)
        except SowlineError as error:
            self._lost(write.id, error)
        return ""

    def _reporter(self, id: str) -> Callable[[DeliveryReport], None]:
        loop = asyncio.get_running_loop()

        def report(delivered: DeliveryReport) -> None:
            # A flush calls it in another thread, and events are noted in this one.
            loop.call_soon_threadsafe(self._note_delivery, id, delivered)

        return report

    def _note_delivery(self, id: str, delivered: DeliveryReport) -> None:
        if delivered.error is not None:
            self._lost(id, delivered.error)
        else:
            position = f"{delivered.topic}:{delivered.partition}@{delivered.position}"
            self._answered(id, position, position, None)

    async def flush(self) -> None:
        """Wait until Kafka has everything; what it refused has been noted as unknown."""
        with contextlib.suppress(SowlineError):
            await self._client.flush()

    def _answered(self, id: str, position: str, effect: str, deleted: int | None, outcome: str = "") -> str:
        now = self._recorder.now
        self._recorder.note(
            WriteAnswered(id, "acknowledged", now, position, effect, deleted, outcome=outcome)
        )
        if effect:
            self._effects.add(effect)
        return effect

    def _lost(self, id: str, error: SowlineError) -> str:
        self._effects.unknown += 1
        self._recorder.note(WriteAnswered(id, "unknown", self._recorder.now, reason=error.reason))
        if isinstance(error, UnansweredError):
            raise error
        return ""
