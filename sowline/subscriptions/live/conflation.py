"""Conflation: sends a client the outcome of each interval, once its outbox has room."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol, Self

from sowline.config.topic_definition import TopicDefinition
from sowline.model.bookmark import Positions, format_bookmark
from sowline.model.difference import Keys
from sowline.model.position import Position
from sowline.serving.outbox.outbox import Outbox
from sowline.subscriptions.engine.conflation import Conflation, adapted, pending_of
from sowline.subscriptions.engine.delivery import Deltas, Form
from sowline.subscriptions.engine.subscription import Delivery
from sowline.subscriptions.live.put_payload import RankOf, Recipient, put_step
from sowline.wire.options import AUTO, Options


class SlowRecipient(Recipient, Protocol):
    """A recipient that may read slower than its messages come: its outbox says when it has room."""

    @property
    def outbox(self) -> Outbox:
        """The outbox of its client."""
        ...


class Conflated:
    """The messages of a subscription's current interval.

    `positions` returns the subscription's position after all changes that were taken. All messages of an interval but
    the last have the bookmark of the interval's start, and are marked with `more`.
    """

    def __init__(  # noqa: PLR0913 - its destination, its form and its pace, which a subscription decides
        self,
        outbox: Outbox,
        sub_id: str,
        topic: TopicDefinition,
        form: Form,
        pending: Conflation,
        interval_ms: int,
        positions: Callable[[], Positions],
        turn: Callable[[], Awaitable[None]] | None = None,
        *,
        rank_of: RankOf | None = None,
    ) -> None:
        """Prepare an interval; `turn` waits until messages may be sent, by default until the outbox has room."""
        self.outbox = outbox
        self.sub_id = sub_id
        self._topic = topic
        self._turn = outbox.wait_turn if turn is None else turn
        self.form = form
        self._pending = pending
        self._is_auto = interval_ms == AUTO
        self._interval_ms = interval_ms
        self._positions = positions
        self._rank_of = rank_of
        self._before: Positions = {}
        self._begun = asyncio.Event()

    @classmethod
    def of(
        cls,
        to: SlowRecipient,
        topic: TopicDefinition,
        keys: Keys,
        options: Options,
        positions: Callable[[], Positions],
        *,
        of_each: bool,
        rank_of: RankOf | None = None,
    ) -> Self | None:
        """Return what the options of a subscription ask for, None without conflation; raise `invalid options`.

        `keys` and `of_each` are as in `pending_of`. With `rank_of`, each `publish` has its rank when it is sent.
        """
        if options.conflation is None:
            return None
        pending = pending_of(options, to.form, keys, of_each=of_each)
        return cls(
            to.outbox,
            to.sub_id,
            topic,
            to.form,
            pending,
            options.conflation,
            positions,
            rank_of=rank_of,
        )

    @property
    def is_large(self) -> bool:
        """Whether the messages held back are larger than an outbox may hold."""
        return self._pending.bytes > self.outbox.bytes_max

    def relieve(self) -> int:
        """Send the messages held back if they are too large; return how many were sent."""
        return self.flush() if self.is_large else 0

    @property
    def sent(self) -> Positions:
        """The positions up to which the client was sent everything."""
        return self._before if self._pending else self._positions()

    def take(
        self, partition: int, after: Position, time: int, due: Iterable[tuple[bytes, Delivery, Deltas]]
    ) -> None:
        """Add the messages of a change; each has the SOW key of its record or group.

        `after` is the position of the partition before the change, and `time` the change's log time in ms.
        """
        # Check this once for a change, not for each of its messages. A record enters a new group b, then moves to c:
        # the `oof` of b cancels b's pending message, so nothing is pending when c's message arrives. Later, the
        # interval would start where b existed, but the client never received b
        # (test_an_interval_begins_before_all_messages_of_a_change).
        if not self._pending:
            self._before = self._positions() | {partition: after}
            self._begun.set()
        for sow_key, delivery, deltas in due:
            self._pending.take(sow_key, delivery, deltas, time)
        assert self._begun.is_set(), "what is held back is sent at the end of an interval"

    def forget(self) -> None:
        """Drop the messages held back; the client gets the same changes in another way."""
        self._pending.flush()

    async def run(self, count: Callable[[int], None]) -> None:
        """Send the outcome of each interval, until cancelled; call `count` with the number of messages."""
        while True:
            # An interval begins with its first change: idle subscriptions, of which a service has thousands, need no
            # timer.
            await self._begun.wait()
            await asyncio.sleep(self._interval_ms / 1000)
            # Read the backlog before waiting for room. Afterwards the outbox is at least half empty, and a slow
            # client would look like a fast one.
            backlog = self.outbox.unsent_bytes
            await self._turn()
            if self._is_auto:
                self._interval_ms = adapted(self._interval_ms, backlog)
            count(self.flush())

    def flush(self) -> int:
        """Send the outcome of the interval so far; return how many messages were sent."""
        self._begun.clear()
        # Before the pending messages are cleared: `sent` is the interval's start only while there are some.
        before, now = self.sent, self._positions()
        payloads = self._pending.flush()
        assert not self._pending, "an interval begins without messages"
        if payloads:
            log = self._topic.log
            bookmarks = format_bookmark({log: before}), format_bookmark({log: now})
            put_step(self, self._topic.name, payloads, *bookmarks, self._rank_of)
        return len(payloads)
