"""Telling a client the outcome of each interval, not sooner than it has room for that."""

import asyncio
from collections.abc import Callable, Iterable

from fanout.conflation import Conflation, adapted, by_values_of
from fanout.subscription import Delivery, Sighting
from fanout.telling import Deltas, Form
from query_service.outbox import Outbox
from query_service.state import TopicState
from query_service.step import put_step
from sowline.bookmark import Positions
from sowline.difference import Keys
from sowline.errors import SowlineError
from sowline.options import AUTO, Options
from sowline.path import Path


class Conflated:
    """A subscription's messages of the interval that runs.

    `place` tells where the subscription stands, with all that it has taken; all messages of an interval but
    the last name the place at its beginning and say that there is more.
    """

    def __init__(
        self,
        outbox: Outbox,
        sub_id: str,
        topic: TopicState,
        form: Form,
        pending: Conflation,
        interval: int,
        place: Callable[[], Positions],
    ) -> None:
        self._outbox = outbox
        self._sub_id = sub_id
        self._topic = topic
        self._form = form
        self._pending = pending
        self._is_auto = interval == AUTO
        self._interval = interval
        self._place = place
        self._before: Positions = {}
        self._begun = asyncio.Event()

    @property
    def is_large(self) -> bool:
        """Whether more waits to be told than may wait for the client to take it."""
        return self._pending.bytes > self._outbox.bytes_max

    def relieve(self) -> int:
        """Tell at once what is too much to keep; return how many messages that took."""
        return self.flush() if self.is_large else 0

    @property
    def told(self) -> Positions:
        """Up to where the client is told everything."""
        return self._before if self._pending else self._place()

    def take(self, partition: int, seen: Sighting, due: Iterable[tuple[bytes, Delivery, Deltas]]) -> None:
        """Take what a change means to records, or to groups, by their SOW keys."""
        if not self._pending:
            self._before = self._place() | {partition: seen.after}
            self._begun.set()
        for sow_key, delivery, deltas in due:
            self._pending.take(sow_key, delivery, deltas, seen.change.time)

    def forget(self) -> None:
        """Tell nothing of what waits to be told: the client will be told it otherwise."""
        self._pending.flush()

    async def run(self, count: Callable[[int], None]) -> None:
        """Tell the outcome of each interval; `count` is told how many messages that took."""
        while True:
            await self._begun.wait()
            await asyncio.sleep(self._interval / 1000)
            backlog = self._outbox.bytes
            await self._outbox.wait_drained()
            if self._is_auto:
                self._interval = adapted(self._interval, backlog)
            count(self.flush())

    def flush(self) -> int:
        """Tell what has become of everything since the last time; return how many messages that took."""
        self._begun.clear()
        before, now = self.told, self._place()
        told = self._pending.flush()
        if told:
            bookmarks = self._topic.bookmark(before), self._topic.bookmark(now)
            put_step(self._outbox, self._sub_id, self._topic.definition.name, self._form, told, *bookmarks)
        return len(told)


def pending_of(options: Options, form: Form, keys: Keys, *, of_each: bool) -> Conflation:
    """Return where the messages of an interval are kept; `keys` name a record, or a group.

    Raises `invalid options` where the subscriber has to be told `of_each`, and messages of several would be one.
    """
    asked = options.conflation_key
    if not asked or set(asked) == {Path(names) for names in keys}:
        return Conflation(form, keys)
    if of_each:
        named = ",".join(str(Path(names)) for names in keys)
        raise SowlineError(
            "invalid options",
            f"expected conflation_key=[{named}], or none, with oof, deltas, pages and groups: there each record"
            " is told of",
        )
    return Conflation(form, keys, by_values_of(asked))
