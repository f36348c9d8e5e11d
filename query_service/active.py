"""One client's subscription while it is served, and how a change is put into the outboxes of those it is due to."""

import asyncio
from dataclasses import dataclass, field
from typing import NamedTuple

from fanout.subscription import PUBLISH, Delivery, Sighting, Subscription
from query_service.outbox import Outbox
from query_service.state import TopicState
from sowline.bookmark import Positions, format_position
from sowline.difference import Delta, Keys, difference
from sowline.options import Options
from sowline.select import Select
from sowline.wire import change_head, change_tail


class Form(NamedTuple):
    """What differs in the messages of one change."""

    no_sowkey: bool
    timestamp: bool
    select: Select | None


class Active:
    """One session's subscription to one topic, and where it stands unless it is live."""

    def __init__(
        self,
        outbox: Outbox,
        sub_id: str,
        topic: TopicState,
        engine: Subscription,
        options: Options,
        *,
        delta: bool = False,
    ) -> None:
        self.outbox = outbox
        self.sub_id = sub_id
        self.topic = topic
        self.engine = engine
        self.form = Form(options.no_sowkey, options.timestamp, options.select)
        self.delta = delta
        self.no_empties = options.no_empties
        self.positions: Positions = {}
        self._behind = asyncio.Event()

    @property
    def log(self) -> str:
        """The Kafka topic that its bookmarks name."""
        return self.topic.definition.log

    def fall_behind(self) -> None:
        """Note that the client is too slow for live messages: it goes on from here at its own pace."""
        self.positions = self.topic.positions
        self._behind.set()

    async def fell_behind(self) -> None:
        """Wait until the subscription is no longer live."""
        self._behind.clear()
        await self._behind.wait()


@dataclass(slots=True)
class _Due:
    """A message for one client, and those of its subscriptions that it is for."""

    outbox: Outbox
    delivery: Delivery
    sids: list[str] = field(default_factory=list)
    delta: Delta | None = None
    """None as soon as one of them needs the whole record."""


class _Deltas:
    """What a change did to its record, worked out at most once for each select list."""

    def __init__(self, seen: Sighting, keys: Keys) -> None:
        self._seen = seen
        self._keys = keys
        self._deltas: dict[Select | None, Delta] = {}

    def due_to(self, active: Active) -> Delta | None:
        """The delta, if the subscription holds the record as it was before and it can be told so."""
        change = self._seen.change
        if not active.delta or change.previous is None or change.body is None:
            return None
        if not self._seen.matched_before(active.engine.filter):
            return None
        select = active.form.select
        delta = self._deltas.get(select)
        if delta is None:
            delta = self._deltas[select] = difference(change.previous, change.body, self._keys, select)
        return None if delta.whole else delta


def deliver(topic: TopicState, partition: int, seen: Sighting, found: list[tuple[Active, Delivery]]) -> int:
    """Put what a change means into the outboxes, and return how many messages that took.

    Subscriptions of one client share a message of the same form. If one of them needs the whole record, all
    get that: it tells a delta subscriber just as much.
    """
    deltas = _Deltas(seen, topic.definition.key_paths)
    due: dict[tuple[int, str, Form], _Due] = {}
    for active, delivery in found:
        delta = deltas.due_to(active) if delivery.command == PUBLISH else None
        if delta is not None and active.no_empties and not delta.changed:
            continue
        slot = (id(active.outbox), delivery.command, active.form)
        message = due.get(slot)
        if message is None:
            message = due[slot] = _Due(active.outbox, delivery, delta=delta)
        elif delta is None:
            message.delta = None
        message.sids.append(active.sub_id)
    tails: dict[tuple[str, Form, bool], bytes] = {}
    for (_, command, form), message in due.items():
        kind = command, form, message.delta is None
        tail = tails.get(kind)
        if tail is None:
            tail = tails[kind] = _tail(topic, partition, seen, message, form)
        removed = None if message.delta is None else message.delta.removed
        message.outbox.put(
            change_head(command, message.sids, message.delivery.reason, removed=removed) + tail
        )
    return len(due)


def _tail(topic: TopicState, partition: int, seen: Sighting, message: _Due, form: Form) -> bytes:
    change = seen.change
    bookmark = format_position(topic.definition.log, partition, change.position)
    if message.delta is not None:
        body = message.delta.body
    else:
        body = message.delivery.body if form.select is None else form.select.apply(message.delivery.body)
    key = None if form.no_sowkey else change.sow_key
    return change_tail(topic.definition.name, key, bookmark, body, change.time if form.timestamp else None)
