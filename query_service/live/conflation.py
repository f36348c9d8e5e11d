"""Conflation: a client is sent the outcome of each interval, not sooner than its outbox has room."""

import asyncio
from collections.abc import Callable, Iterable

from fanout.engine.conflation import Conflation, adapted, by_values_of
from fanout.engine.delivery import Deltas, Form
from fanout.engine.subscription import ChangeView, Delivery
from query_service.outbox.change_message import put_step
from query_service.outbox.outbox import Outbox
from query_service.topics.state import TopicState
from sowline.errors import SowlineError
from sowline.model.bookmark import Positions
from sowline.model.difference import Keys
from sowline.model.path import Path
from sowline.protocol.options import AUTO, Options


class Conflated:
    """A subscription's messages of the interval that runs.

    `positions` tells where the subscription stands, with all that it has taken; all messages of an interval but
    the last name the bookmark at its beginning and say that there is more.
    """

    def __init__(
        self,
        outbox: Outbox,
        sub_id: str,
        topic: TopicState,
        form: Form,
        pending: Conflation,
        interval: int,
        positions: Callable[[], Positions],
    ) -> None:
        self.outbox = outbox
        self.sub_id = sub_id
        self._topic = topic
        self.form = form
        self._pending = pending
        self._is_auto = interval == AUTO
        self._interval = interval
        self._positions = positions
        self._before: Positions = {}
        self._begun = asyncio.Event()

    @property
    def is_large(self) -> bool:
        """Whether more is held back than may wait for the client to take it."""
        return self._pending.bytes > self.outbox.bytes_max

    def relieve(self) -> int:
        """Send at once what is too much to keep; return how many messages that took."""
        return self.flush() if self.is_large else 0

    @property
    def sent(self) -> Positions:
        """Up to where the client was sent everything."""
        return self._before if self._pending else self._positions()

    def take(self, partition: int, seen: ChangeView, due: Iterable[tuple[bytes, Delivery, Deltas]]) -> None:
        """Take what a change means to records, or to groups, by their SOW keys."""
        if not self._pending:
            self._before = self._positions() | {partition: seen.after}
            self._begun.set()
        for sow_key, delivery, deltas in due:
            self._pending.take(sow_key, delivery, deltas, seen.change.time)

    def forget(self) -> None:
        """Drop what is held back: the client will be sent it in another way."""
        self._pending.flush()

    async def run(self, count: Callable[[int], None]) -> None:
        """Send the outcome of each interval; `count` is called with how many messages that took."""
        while True:
            await self._begun.wait()
            await asyncio.sleep(self._interval / 1000)
            backlog = self.outbox.unsent_bytes
            await self.outbox.wait_turn()
            if self._is_auto:
                self._interval = adapted(self._interval, backlog)
            count(self.flush())

    def flush(self) -> int:
        """Send the outcome of everything since the last time; return how many messages that took."""
        self._begun.clear()
        before, now = self.sent, self._positions()
        payloads = self._pending.flush()
        if payloads:
            bookmarks = self._topic.bookmark(before), self._topic.bookmark(now)
            put_step(self, self._topic.definition.name, payloads, *bookmarks)
        return len(payloads)


def pending_of(options: Options, form: Form, keys: Keys, *, of_each: bool) -> Conflation:
    """Return where the messages of an interval are kept; `keys` name a record, or a group.

    Raises `invalid options` where the subscriber is sent messages `of_each` record, and several would become one.
    """
    asked = options.conflation_key
    if not asked or set(asked) == {Path(names) for names in keys}:
        return Conflation(form, keys)
    if of_each:
        named = ",".join(str(Path(names)) for names in keys)
        raise SowlineError(
            "invalid options",
            f"expected conflation_key=[{named}], or none, with oof, deltas, pages and groups: these need a message"
            " for each record",
        )
    return Conflation(form, keys, by_values_of(asked))
