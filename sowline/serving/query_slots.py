"""Limits how many queries of a service, a user and a connection run at once. The others wait for their turn.

A query holds references to all records of its topic until its answer has been read. If hundreds of clients asked for
everything at once, the service would run out of memory, and each step of all their queries would delay everyone.
"""

import asyncio
import time
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import NamedTuple, Protocol, Self, TypeVar

from sowline.errors import SowlineError
from sowline.serving.cooperative import wait_next_turn

LOOKS = 4
"""How often the service checks, within the time that a client has to read something, whether it did."""

READ_BYTES_MIN = 1 << 18
"""The bytes that a client has to read in that time: reading a byte now and then must not keep the turn forever."""


class SlotLimits(NamedTuple):
    """The numbers of queries that run at once, and how long one may wait for its client while others wait for it."""

    service: int = 32
    user: int = 16
    connection: int = 8
    waiting: int = 10_000
    """Connections whose queries wait."""
    unread_seconds: float = 10.0


class QueryTurn(Protocol):
    """The turn of a query among those that run at once."""

    @property
    def is_taken(self) -> bool:
        """Whether the query runs."""

    async def take(self) -> bool:
        """Wait for the turn, and return whether it had to."""

    def free(self) -> None:
        """Let another query run."""


@asynccontextmanager
async def lent(turn: QueryTurn | None) -> AsyncIterator[None]:
    """Let other queries run during the block, which only waits; then take the turn again.

    Work that has no turn, or has not taken it, just waits.
    """
    # Without a turn before, there must be none afterwards: nobody would free it
    # (test_work_without_a_turn_gets_none_by_waiting).
    if turn is None or not turn.is_taken:
        yield
        return
    turn.free()
    yield
    await turn.take()


class Reader(Protocol):
    """How much of the answers to its queries a client has read."""

    @property
    def is_blocked(self) -> bool:
        """Whether its queries wait until it reads."""

    @property
    def sent_bytes(self) -> int:
        """The bytes that were sent to it, which waits until it has read most of those before."""


class Asker(NamedTuple):
    """The client of a query."""

    user: str
    connection: Hashable
    reader: Reader | None = None
    """None for work that waits for no client."""
    is_limited: bool = True
    """Whether the query may have to wait. A gateway's may not: it would hold up its parts at other query services."""


class QuerySlot:
    """The turn of one query at a time. Within `async with`, `take` it; it is free again after the block.

    A query that waits for a client which reads too little, while others wait for its turn, ends with `not read`.
    """

    __slots__ = ("_deadline", "_slots", "asker", "is_taken", "sent_before", "unread_since")

    def __init__(self, slots: "QuerySlots", asker: Asker) -> None:
        self._slots = slots
        self.asker = asker
        self._deadline: asyncio.Timeout | None = None
        self.is_taken = False
        self.unread_since: float | None = None
        """Since when its client has read too little; None if it does not wait for its client."""
        self.sent_before = 0
        """The bytes that were sent to the client until then."""

    async def __aenter__(self) -> Self:
        """Begin the block of the query."""
        self._deadline = asyncio.timeout(None)
        await self._deadline.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Free the slot; raise `not read` if the query was ended because of that."""
        deadline, self._deadline = self._deadline, None
        self.free()
        assert deadline is not None
        try:
            await deadline.__aexit__(kind, error, trace)
        except TimeoutError:
            raise self._slots.not_read() from None

    def take_now(self) -> bool:
        """Take the slot if nothing has to be waited for; return whether it is taken."""
        self.is_taken = self.is_taken or not self.asker.is_limited or self._slots.take_now(self)
        return self.is_taken

    def begin_now(self, begin: Callable[[], object]) -> None:
        """Begin a query if its turn has come; if that raises, the slot is free: nothing will run within it."""
        if self.take_now():
            try:
                begin()
            # Whatever it is: the slot would be taken forever (test_a_query_that_can_not_begin_leaves_its_slot).
            except BaseException:
                self.free()
                raise

    async def take(self) -> bool:
        """Wait until the query may run, and return whether it had to; raise `busy` if too many wait."""
        if self.take_now():
            return False
        await self._slots.wait(self)
        self.is_taken = True
        return True

    def free(self) -> None:
        """Let another query run; do nothing if the slot was not taken."""
        if self.is_taken:
            self.is_taken = False
            if self.asker.is_limited:
                self._slots.free(self)

    def end(self) -> bool:
        """End the query with `not read`; return False if that was done before, or its block has not begun."""
        # The deadline is the memory of it: one that has passed can't be set again, and the task may take its time to
        # end (test_who_takes_long_to_end_is_ended_once).
        if self._deadline is None or self._deadline.when() is not None:
            return False
        self._deadline.reschedule(asyncio.get_running_loop().time())
        return True


class _Waiter(NamedTuple):
    slot: QuerySlot
    turn: "asyncio.Future[None]"


_Queues = OrderedDict[Hashable, deque[_Waiter]]
"""The waiting queries by connection; the connection whose turn is next is first."""


class QuerySlots:
    """The queries of a service that run, and those that wait. Users take turns, and so do a user's connections."""

    def __init__(self, limits: SlotLimits = SlotLimits()) -> None:
        self._limits = limits
        self._running: dict[QuerySlot, None] = {}
        self._of_user: Counter[str] = Counter()
        self._of_connection: Counter[Hashable] = Counter()
        self._waiting: OrderedDict[str, _Queues] = OrderedDict()
        """The waiting connections by user; the user whose turn is next is first."""
        self._look: asyncio.TimerHandle | None = None
        self.refused = 0
        """Queries that were refused because too many waited."""
        self.ended = 0
        """Queries that were ended because their clients read too little."""

    @property
    def running(self) -> int:
        """The number of queries that run."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """The number of queries that wait for their turn."""
        return sum(len(queue) for queues in self._waiting.values() for queue in queues.values())

    def new(self, asker: Asker) -> QuerySlot:
        """Return a slot for the queries of a client, which run one after the other."""
        return QuerySlot(self, asker)

    def take_now(self, slot: QuerySlot) -> bool:
        """Let a query run if there is room; return whether it runs. Those that wait have none: `free` has looked."""
        if not self._has_room(slot.asker):
            return False
        self._run(slot)
        return True

    async def wait(self, slot: QuerySlot) -> None:
        """Wait for the turn of a query; raise `busy` if too many wait."""
        user, connection = slot.asker.user, slot.asker.connection
        of_user = self._waiting.get(user, _Queues())
        if connection not in of_user:
            self._make_room(len(of_user))
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiter = _Waiter(slot, turn)
        self._waiting.setdefault(user, OrderedDict()).setdefault(connection, deque()).append(waiter)
        self._look_later()
        try:
            await turn
            # To begin is one step, long for a large topic. Were the clients of 200 queries gone at once, each query
            # that ends would let the next begin, dozens in one turn of the loop.
            await wait_next_turn()
        except BaseException:
            # The turn came before the cancellation: give it back, or no query would ever have it again
            # (test_a_query_that_waits_no_longer_is_passed_over).
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self.free(slot)
            else:
                self._forget(waiter)
            raise

    def free(self, slot: QuerySlot) -> None:
        """Note that a query has ended, and let those run that have room now."""
        del self._running[slot]
        asker = slot.asker
        _decrease(self._of_user, asker.user)
        _decrease(self._of_connection, asker.connection)
        while (waiter := self._next()) is not None:
            # Its task was cancelled and has not run since: the query waits no longer.
            if not waiter.turn.done():
                self._run(waiter.slot)
                waiter.turn.set_result(None)

    def not_read(self) -> SowlineError:
        """Return the error for a query whose client has read too little for too long."""
        return SowlineError(
            "not read",
            f"expected the client to read at least {READ_BYTES_MIN >> 10} KiB of its answers in"
            f" {self._limits.unread_seconds:g} seconds while other queries wait, got less; read faster, or ask for"
            " less at once",
        )

    def _run(self, slot: QuerySlot) -> None:
        self._running[slot] = None
        self._of_user[slot.asker.user] += 1
        self._of_connection[slot.asker.connection] += 1
        slot.unread_since = None

    def _has_room(self, asker: Asker) -> bool:
        limits = self._limits
        return (
            len(self._running) < limits.service
            and self._of_user[asker.user] < limits.user
            and self._of_connection[asker.connection] < limits.connection
        )

    def _next(self) -> _Waiter | None:
        """Remove and return the next query that has room; None if there is none."""
        for user, queues in self._waiting.items():
            # Skip a user at its limit as a whole: it may have thousands of connections.
            if not self._has_room(Asker(user, None)):
                continue
            for connection, queue in queues.items():
                if self._has_room(Asker(user, connection)):
                    waiter = queue.popleft()
                    # Both to the end: who asked first and for most would have all turns (test_users_take_turns,
                    # test_the_connections_of_a_user_take_turns).
                    queues.move_to_end(connection)
                    self._waiting.move_to_end(user)
                    self._drop_empty(user, connection)
                    return waiter
        return None

    def _forget(self, waiter: _Waiter) -> None:
        """Remove a query that waits no longer."""
        user, connection = waiter.slot.asker.user, waiter.slot.asker.connection
        queues = self._waiting.get(user)
        if queues is not None and waiter in queues.get(connection, ()):
            queues[connection].remove(waiter)
            self._drop_empty(user, connection)

    def _drop_empty(self, user: str, connection: Hashable) -> None:
        queues = self._waiting[user]
        if not queues[connection]:
            del queues[connection]
        if not queues:
            del self._waiting[user]

    def _make_room(self, of_user: int) -> None:
        """Make room for another connection with queries that wait, or raise `busy`.

        If all places are taken, the newest connection of the user with the most of them gives way.
        """
        if sum(map(len, self._waiting.values())) < self._limits.waiting:
            return
        self.refused += 1
        error = SowlineError(
            "busy",
            f"expected at most {self._limits.waiting} connections with queries that wait for their turn, the limit;"
            " try again later, or use another query service",
        )
        user, most = max(self._waiting.items(), key=lambda item: len(item[1]), default=("", {}))
        # The place of one who has no more than this user would only go to and fro between the two
        # (test_if_too_many_wait_the_one_with_most_gives_way).
        if len(most) <= of_user + 1:
            raise error
        _, queue = self._waiting[user].popitem()
        for waiter in queue:
            if not waiter.turn.done():
                waiter.turn.set_exception(error)

    # clients that read too little

    def _look_later(self) -> None:
        if self._look is None:
            seconds = self._limits.unread_seconds / LOOKS
            self._look = asyncio.get_running_loop().call_later(seconds, self._end_unread)

    def _end_unread(self) -> None:
        """End queries whose clients have read too little for too long, as long as others wait for their turns."""
        self._look, now = None, time.monotonic()
        if self._waiting:
            self._look_later()
        for slot in list(self._running):
            reader = slot.asker.reader
            # The time counts only while others wait for it: a look of long ago would end it at once
            # (test_the_time_begins_when_others_begin_to_wait).
            if reader is None or not reader.is_blocked or not self._keeps_others(slot.asker):
                slot.unread_since = None
            elif slot.unread_since is None or reader.sent_bytes - slot.sent_before >= READ_BYTES_MIN:
                slot.unread_since, slot.sent_before = now, reader.sent_bytes
            elif now - slot.unread_since >= self._limits.unread_seconds:
                self.ended += slot.end()

    def _keeps_others(self, asker: Asker) -> bool:
        """Whether another connection waits for what this query holds."""
        limits, is_full = self._limits, len(self._running) >= self._limits.service
        return any(
            (user == asker.user or (is_full and self._of_user[user] < limits.user))
            and any(
                one != asker.connection and self._of_connection[one] < limits.connection for one in queues
            )
            for user, queues in self._waiting.items()
        )


Name = TypeVar("Name", bound=Hashable)


def _decrease(counts: Counter[Name], name: Name) -> None:
    counts[name] -= 1
    if not counts[name]:
        del counts[name]
