"""One client's subscription to one topic, and the delivery of a change to its subscribers' outboxes."""

import asyncio
import time
from typing import NamedTuple

from sowline.changes.change import Change
from sowline.model.bookmark import Positions, format_position
from sowline.model.select import Select
from sowline.serving.outbox.outbox import Outbox
from sowline.subscriptions.engine.delivery import Deltas, Form, selected
from sowline.subscriptions.engine.shown import as_sent
from sowline.subscriptions.engine.subscription import ChangeView, Delivery, Subscription
from sowline.subscriptions.live.change_message import change_message
from sowline.subscriptions.live.conflation import Conflated
from sowline.subscriptions.live.relayed_change import relayed_message
from sowline_query_service.query.selection import Selection
from sowline_query_service.topics.topic_state import TopicState


class Addressee(NamedTuple):
    """The subscriptions of one client that share a message, and the form that serves all of them."""

    sids: tuple[str, ...]
    form: Form
    selects: frozenset[Select | None]

    def with_(self, other: "Addressee") -> "Addressee":
        """Return an addressee for the subscriptions of both."""
        return Addressee(self.sids + other.sids, self.form | other.form, self.selects | other.selects)


class LiveSubscription:
    """One session's subscription to one topic. It has a position of its own only while it is not live."""

    def __init__(
        self, outbox: Outbox, sub_id: str, topic: TopicState, engine: Subscription, selection: Selection
    ) -> None:
        options = selection.options
        self.outbox = outbox
        self.sub_id = sub_id
        self.topic = topic
        self.engine = engine
        self._entitled = selection.entitled.get(topic.definition.name)
        self._is_of_conflated = topic.definition.is_conflated
        self.form = Form.live(options, topic.definition, delta=engine.delta)
        # Whether empty messages are left out decides who gets a message, not what is in it. With the option in the
        # form, a gateway's subscriptions with it and without it would not share their messages
        # (test_deltas_with_and_without_empty_ones_share_a_message).
        form = self.form._replace(no_empties=False)
        self.as_deltas = Addressee((sub_id,), form, frozenset({options.select}))
        self.whole = self.as_deltas._replace(form=form._replace(delta=False))
        self.relays = selection.relays
        self.shares = selection.shares
        self.readable = selection.readable
        self.positions: Positions = {}
        self.was_sent = False
        """Whether it was sent a message since this was last set to False."""
        self.live = asyncio.Event()
        """Whether it has reached its topic's position, and gets each change when it is applied."""
        self.level_at = time.monotonic()
        """When it was last live, if it is not live now; of the monotonic clock."""
        self.conflated: Conflated | None = None
        if not self.relays:
            definition, of_each = topic.definition, engine.looks_back
            self.conflated = Conflated.of(
                self,
                definition,
                definition.identified_by,
                options,
                lambda: self.current_positions,
                of_each=of_each,
            )
        self._behind = asyncio.Event()

    def as_sent(self, delivery: Delivery) -> Delivery:
        """Return the message as this user may see it."""
        # Most subscriptions are of neither kind, and this is called for each message of each of them.
        if self._entitled is None and not self._is_of_conflated:
            return delivery
        return as_sent(delivery, self._entitled, is_conflated=self._is_of_conflated)

    def put_relayed(self, partition: int, seen: ChangeView, delivery: Delivery) -> None:
        """Send a change to a gateway that makes the client's messages itself."""
        self.was_sent = True
        bookmark = format_position(self.log, partition, seen.change.position)
        name = self.topic.definition.name
        message = relayed_message(self.sub_id, name, self.readable, seen, delivery, bookmark)
        self.outbox.put_behind(message, (self.sub_id,))

    @property
    def log(self) -> str:
        """The Kafka topic that its bookmarks name."""
        return self.topic.definition.log

    @property
    def current_positions(self) -> Positions:
        """Its position: that of its topic while it is live."""
        return self.topic.positions if self.live.is_set() else dict(self.positions)

    @property
    def sent(self) -> Positions:
        """The positions up to which its client was sent everything."""
        return self.current_positions if self.conflated is None else self.conflated.sent

    def stand_at(self, positions: Positions) -> None:
        """Continue from these positions."""
        self.positions = dict(positions)
        if self.conflated is not None:
            self.conflated.forget()

    def go_live(self) -> None:
        """Follow the topic from now on."""
        # Here, not where its task begins to wait: in between it may fall behind again, and would wait for ever
        # (test_who_falls_behind_at_once_catches_up_again).
        self._behind.clear()
        self.live.set()

    def stay_behind(self) -> None:
        """Take the topic's current position, if live, and stop following it."""
        self.positions = self.current_positions
        if self.live.is_set():
            self.level_at = time.monotonic()
        self.live.clear()

    @property
    def is_too_slow(self) -> bool:
        """Whether the client is too slow for live messages; conflated ones may wait longer."""
        return self.outbox.full and (self.conflated is None or self.conflated.is_large)

    def fall_behind(self) -> None:
        """Note that the client is too slow: it continues at its own pace from the last message."""
        self.stand_at(self.sent)
        self._behind.set()

    async def wait_behind(self) -> None:
        """Wait until the subscription has fallen behind since it became live."""
        await self._behind.wait()
        # A proof lets a subscription fall behind that may be live again: its task must wait then, not run in circles
        # (test_who_falls_behind_while_live_waits_again).
        self._behind.clear()


_Due = tuple[LiveSubscription, Delivery, Addressee]


def deliver(
    topic: TopicState, partition: int, seen: ChangeView, found: list[tuple[LiveSubscription, Delivery]]
) -> int:
    """Put the messages of a change into the outboxes, and return their number.

    Subscriptions of one client share a message. It has the fields that any of them selects; if one of them needs the
    whole record, all get it. Subscriptions of a gateway are those of many clients: there only equal messages are one.
    """
    change = seen.change
    deltas = Deltas(topic.definition.key_fields)
    due: list[_Due] = []
    relayed = 0
    for live_subscription, meant in found:
        delivery = live_subscription.as_sent(meant)
        if live_subscription.conflated is not None:
            each = [(change.sow_key, delivery, deltas)]
            live_subscription.conflated.take(partition, seen.after, change.time, each)
            live_subscription.was_sent = True
            continue
        if live_subscription.relays:
            live_subscription.put_relayed(partition, seen, delivery)
            relayed += 1
            continue
        one = live_subscription.whole
        if live_subscription.form.delta:
            delta = deltas.of(delivery, live_subscription.form)
            if delta is not None:
                if live_subscription.form.no_empties and not delta.changed:
                    continue
                one = live_subscription.as_deltas
        live_subscription.was_sent = True
        due.append((live_subscription, delivery, one))
    if len(due) == 1:
        # By far the most frequent case: there is nothing to share.
        ((live_subscription, delivery, one),) = due
        message = _shared_message(topic, partition, change, delivery, one, deltas)
        live_subscription.outbox.put_behind(message, one.sids)
        return relayed + 1
    return relayed + _put_shared(topic, partition, change, due, deltas)


def _put_shared(topic: TopicState, partition: int, change: Change, due: list[_Due], deltas: Deltas) -> int:
    """Put the messages of a change to several subscriptions, and return their number."""
    shared: dict[tuple[Outbox, str, Form | None], tuple[Delivery, Addressee]] = {}
    for live_subscription, delivery, one in due:
        slot = (
            live_subscription.outbox,
            delivery.command,
            one.form if live_subscription.shares else None,
        )
        other = shared.get(slot)
        shared[slot] = (delivery, one) if other is None else (delivery, other[1].with_(one))
    messages: dict[tuple[str, str | None, Addressee], bytes] = {}
    for (outbox, command, _), (delivery, addressee) in shared.items():
        # The reason is part of the key: a user who may not see the new record gets `oof` with reason `entitlement`
        # and the previous body. Shared by the command alone, the message of another user would reveal the new one.
        kind = command, delivery.reason, addressee
        message = messages.get(kind)
        if message is None:
            message = messages[kind] = _shared_message(topic, partition, change, delivery, addressee, deltas)
        outbox.put_behind(message, addressee.sids)
    return len(shared)


def _shared_message(
    topic: TopicState, partition: int, change: Change, delivery: Delivery, to: Addressee, deltas: Deltas
) -> bytes:
    form = to.form
    delta = deltas.shared(delivery, form, to.selects) if form.delta else None
    body = selected(delivery.body, form) if delta is None else delta.body
    removed = None if delta is None else delta.removed
    bookmark = format_position(topic.definition.log, partition, change.position)
    return change_message(
        to.sids,
        topic.definition.name,
        form,
        delivery,
        change.sow_key,
        body,
        change.time,
        bookmark,
        removed=removed,
    )
