"""The longest turn of a query service's event loop over commands that are designed to take long, in CPU time.

RE2 holds Python's global lock while it compiles: compilation in a worker thread counts as if it were in the loop. It
releases the lock while it searches.
"""

import asyncio
import random
import selectors
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

import orjson
import re2  # type: ignore[import-untyped,unused-ignore]

from bench.hostile import Command, commands
from bench.table import table
from sowline.changes.change import Change
from sowline.config.topics import parse_topics
from sowline.model.key import sow_key
from sowline.model.position import Position
from sowline.runtime.process import spare_the_collector
from sowline.serving.access.login_session import LoginSession
from sowline.serving.authorization.identity import ANYBODY
from sowline.serving.outbox.outbox import Outbox
from sowline_query_service.context import ServiceContext
from sowline_query_service.live.dispatcher import Dispatcher
from sowline_query_service.replica.plain_run import EventAtOffset
from sowline_query_service.topics.state import ServedTopics
from tests.sessions import session_of

TOPICS = "topics: [{name: orders, key: /id}]"
RECORDS = 20
TEXT_CHARS = 20_000
SETTLING_TURNS = 20
"""Turns of the loop in which a command is answered."""

GOAL_SECONDS = 0.05
LISTED = 5


class Turn(NamedTuple):
    """The cost of a command: its longest turn, RE2's share of it in other threads, and its answer."""

    seconds: float
    re2_seconds: float
    answer: str


def run(records: int, runs: int) -> str:
    """Measure every command `runs` times, and return a table of those with the longest turns."""
    del records
    spare_the_collector()
    best: dict[str, Turn] = {}
    for _ in range(runs):
        for name, turn in turns():
            best[name] = min(turn, best.get(name, turn))
    longest = sorted(best.items(), key=lambda one: -one[1].seconds)
    over = sum(turn.seconds > GOAL_SECONDS for turn in best.values())
    rows = [
        [name, turn.seconds * 1e3, turn.re2_seconds * 1e3, turn.answer] for name, turn in longest[:LISTED]
    ]
    listed = table(["command", "ms", "of which RE2", "answer"], [_row(row) for row in rows])
    return f"{listed}\n\n{len(best)} commands; {over} above {GOAL_SECONDS * 1e3:.0f} ms"


def _row(row: list[Any]) -> list[str]:
    return [f"{cell:.1f}" if isinstance(cell, float) else str(cell) for cell in row]


def turns() -> Iterator[tuple[str, Turn]]:
    """The cost of each command, by name."""
    measured = _Measured()
    loop = asyncio.SelectorEventLoop(measured)
    try:
        context = _loaded()
        for name, command in commands():
            yield name, loop.run_until_complete(_turn(measured, context, command))
    finally:
        loop.close()


async def _turn(measured: "_Measured", context: ServiceContext, command: Command) -> Turn:
    outbox = Outbox(1 << 24)
    session = session_of(context, outbox, LoginSession(ANYBODY))
    frame = orjson.dumps({"command_id": "1", "topic": "orders"} | command)
    re2.purge()
    with _compiling() as compiled:
        await asyncio.sleep(0)
        measured.longest = 0.0
        await session.receive(frame)
        for _ in range(SETTLING_TURNS):
            await asyncio.sleep(0)
    session.close()
    return Turn(measured.longest + compiled.re2_seconds, compiled.re2_seconds, await _answer(outbox))


async def _answer(outbox: Outbox) -> str:
    """The reason of the refusal, if it was refused."""
    sent = [orjson.loads(text) for text in await outbox.take()] if outbox.unsent_bytes else []
    return next((message["reason"] for message in sent if "reason" in message), "taken")


class _Compiled:
    """CPU seconds of RE2's compiler in other threads than the loop's."""

    re2_seconds = 0.0


@contextmanager
def _compiling() -> Iterator[_Compiled]:
    """Time what RE2 compiles in other threads."""
    compiled, untimed, home = _Compiled(), re2.compile, threading.get_ident()

    def timed(*given: Any) -> Any:
        began = time.thread_time()
        try:
            return untimed(*given)
        finally:
            if threading.get_ident() != home:
                compiled.re2_seconds += time.thread_time() - began

    with patch.object(re2, "compile", timed):
        yield compiled


class _Measured(selectors.DefaultSelector):
    """Measures the CPU time of the loop between two looks at what is ready."""

    longest = 0.0
    _began = 0.0

    def select(self, timeout: float | None = None) -> Any:
        """Look what is ready; the work since the last look is a turn."""
        self.longest = max(self.longest, time.thread_time() - self._began)
        ready = super().select(timeout)
        self._began = time.thread_time()
        return ready


def _loaded() -> ServiceContext:
    """A state with some records, whose texts need many states of an automaton."""
    state, dispatcher = ServedTopics(parse_topics(TOPICS), 1000), Dispatcher()
    state.listen(dispatcher.on_changes)
    state.loaded([("orders.changes", 0)])
    chance = random.Random(7)
    placed = []
    for number in range(RECORDS):
        body = orjson.dumps({"id": number, "text": "".join(chance.choices("ab", k=TEXT_CHARS))})
        key = sow_key(b"orders\0", str(number))
        before = Position(0, number - 1)
        change = Change(key, body, None, Position(0, number), before, "publish", 1000 + number)
        placed.append(EventAtOffset(number, change))
    state.take({("orders.changes", 0): placed})
    return ServiceContext(state, dispatcher, {})
