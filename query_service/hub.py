"""Live subscriptions: each change, as it is applied, goes to all that it means something to."""

import asyncio

from fanout.subscription import Sighting, Subscription
from query_service.outbox import Outbox
from query_service.state import TopicState
from sowline.bookmark import Positions, format_position
from sowline.change import Change
from sowline.options import Options
from sowline.select import Select
from sowline.wire import change_head, change_tail

Form = tuple[bool, bool, Select | None]
"""What differs in the tail of a message: without SOW key, with timestamp, with which fields."""


class Active:
    """One session's subscription to one topic, and where it stands unless it is live."""

    def __init__(
        self, outbox: Outbox, sub_id: str, topic: TopicState, engine: Subscription, options: Options
    ) -> None:
        self.outbox = outbox
        self.sub_id = sub_id
        self.topic = topic
        self.engine = engine
        self.form: Form = (options.no_sowkey, options.timestamp, options.select)
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


class Hub:
    """Who is live, by topic; told of every batch of changes at the instant it is applied."""

    def __init__(self) -> None:
        self._live: dict[str, dict[int, Active]] = {}
        self.messages_sent = 0

    def add(self, active: Active) -> None:
        """Make a subscription live: it stands exactly where its topic stands now."""
        self._live.setdefault(active.topic.definition.name, {})[id(active)] = active

    def remove(self, active: Active) -> None:
        """Take a subscription out, if it is in."""
        self._live.get(active.topic.definition.name, {}).pop(id(active), None)

    @property
    def live(self) -> int:
        """The number of live subscriptions."""
        return sum(len(subscriptions) for subscriptions in self._live.values())

    def on_changes(self, topic: TopicState, partition: int, changes: list[Change]) -> None:
        """Send what a batch of changes means to each live subscription; those too slow for it fall behind."""
        subscriptions = self._live.get(topic.definition.name)
        if not subscriptions:
            return
        live = list(subscriptions.values())
        for change in changes:
            self.messages_sent += deliver(topic, partition, change, live)
        for active in live:
            if active.outbox.full:
                self.remove(active)
                active.fall_behind()


def deliver(topic: TopicState, partition: int, change: Change, subscriptions: list[Active]) -> int:
    """Put what the change means into the outboxes; subscriptions of one client share a message if it is the same."""
    seen = Sighting(change)
    due: dict[tuple[int, str, Form], tuple[Outbox, list[str], str | None, bytes]] = {}
    for active in subscriptions:
        delivery = active.engine.on_change(seen)
        if delivery is not None:
            slot = (id(active.outbox), delivery.command, active.form)
            entry = due.setdefault(slot, (active.outbox, [], delivery.reason, delivery.body))
            entry[1].append(active.sub_id)
    tails: dict[tuple[Form, str], bytes] = {}
    for (_, command, form), (outbox, sids, reason, body) in due.items():
        tail = tails.get((form, command))
        if tail is None:
            tail = tails[form, command] = _tail(topic, partition, change, body, form)
        outbox.put(change_head(command, sids, reason) + tail)
    return len(due)


def _tail(topic: TopicState, partition: int, change: Change, body: bytes, form: Form) -> bytes:
    no_sowkey, timestamp, select = form
    bookmark = format_position(topic.definition.log, partition, change.position)
    key = None if no_sowkey else change.sow_key
    body = body if select is None else select.apply(body)
    return change_tail(topic.definition.name, key, bookmark, body, change.time if timestamp else None)
