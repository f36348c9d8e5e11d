"""One client's subscription to one topic, and the delivery of a change to its subscribers' outboxes."""

import asyncio
import time

from sowline.model.bookmark import Positions, format_position
from sowline.serving.outbox.outbox import Outbox
from sowline.subscriptions.engine.deliver import MessageTerms, deliver
from sowline.subscriptions.engine.delivery import Deltas, Form
from sowline.subscriptions.engine.shown import as_sent
from sowline.subscriptions.engine.subscription import ChangeView, Delivery, Subscription
from sowline.subscriptions.live.conflation import Conflated
from sowline.subscriptions.live.relayed_change import relayed_message
from sowline_query_service.query.selection import Selection
from sowline_query_service.topics.topic_state import TopicState


class LiveSubscription:
    """One session's subscription to one topic. It has its own position only while it is not live."""

    # As in an outbox: a message to one of thousands fetches it from memory.
    __slots__ = (
        "_behind",
        "_entitled",
        "_is_of_conflated",
        "conflated",
        "engine",
        "form",
        "level_at",
        "live",
        "outbox",
        "positions",
        "readable",
        "relays",
        "sub_id",
        "terms",
        "topic",
        "was_sent",
    )

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
        self.terms = MessageTerms.of(outbox, sub_id, self.form, shares=selection.shares)
        self.relays = selection.relays
        self.readable = selection.readable
        self.positions: Positions = {}
        self.was_sent = False
        """Whether it was sent a message since this was last set to False."""
        self.live = asyncio.Event()
        """Whether it has reached its topic's position, and gets each change when it is applied."""
        self.level_at = time.monotonic()
        """When it was last live, by the monotonic clock, if it is not live now."""
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

    @property
    def is_plain(self) -> bool:
        """Whether it gets each message at once, as `deliver` makes it."""
        return self.conflated is None and not self.relays

    @property
    def is_restricted(self) -> bool:
        """Whether its user may see only some of the records."""
        return self._entitled is not None

    def as_sent(self, delivery: Delivery) -> Delivery:
        """Return the message as this user may see it."""
        # Most subscriptions are of neither kind, and this is called for each message of each of them.
        if self._entitled is None and not self._is_of_conflated:
            return delivery
        return as_sent(delivery, self._entitled, is_conflated=self._is_of_conflated)

    def put_relayed(self, partition: int, seen: ChangeView, delivery: Delivery) -> None:
        """Send a change to a gateway that makes the client's messages itself."""
        assert self.relays, "only a gateway gets relayed changes"
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
        # Here, not where its task begins to wait: in between it may fall behind again, and would wait forever
        # (test_who_falls_behind_at_once_catches_up_again).
        assert not self.live.is_set(), "it begins to follow once"
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


def put_change(
    topic: TopicState, partition: int, seen: ChangeView, found: list[tuple[LiveSubscription, Delivery]]
) -> int:
    """Put the messages of a change into the outboxes, and return their number."""
    change, deltas = seen.change, Deltas(topic.definition.key_fields)
    plain: list[tuple[LiveSubscription, Delivery]] = []
    relayed = 0
    for live_subscription, meant in found:
        delivery = live_subscription.as_sent(meant)
        if live_subscription.conflated is not None:
            each = [(change.sow_key, delivery, deltas)]
            live_subscription.conflated.take(partition, seen.after, change.time, each)
            live_subscription.was_sent = True
        elif live_subscription.relays:
            live_subscription.put_relayed(partition, seen, delivery)
            relayed += 1
        else:
            plain.append((live_subscription, delivery))
    outgoing, reached = deliver(topic.definition, partition, change, plain, deltas)
    assert len(outgoing) <= len(reached) <= len(plain), "messages are for some, or shared"
    for live_subscription in reached:
        live_subscription.was_sent = True
    for outbox, message, sids in outgoing:
        outbox.put_behind(message, sids)
    return relayed + len(outgoing)
