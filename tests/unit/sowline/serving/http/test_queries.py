"""Queries over HTTP: they wait for their turns, and for clients that read."""

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from uvicorn.protocols.http import flow_control

from sowline.errors import SowlineError
from sowline.serving.access.authenticator import PresentedCredentials
from sowline.serving.authorization.identity import ANYBODY
from sowline.serving.backlogs import BACKLOG_BYTES_MIN, Backlogs
from sowline.serving.http.queries import PIECE_BYTES, HttpQueries, Turn
from sowline.serving.query_slots import Asker, QuerySlots, SlotLimits
from tests.waiting import as_soon_as, loop_turns


class Played:
    """One request, and the client that sent it."""

    def __init__(self) -> None:
        self.left = asyncio.Event()
        self.reads = asyncio.Event()
        self.received: list[dict[str, Any]] = []
        self.connection = SimpleNamespace(close=self.left.set)
        state = {
            "identity": ANYBODY,
            "credentials": PresentedCredentials(address="10.0.0.1"),
            "connection": self.connection,
        }
        self.scope = {"type": "http", "method": "GET", "path": "/", "headers": [], "state": state}

    async def receive(self) -> dict[str, Any]:
        """Leave, when it is time."""
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        """Read what is sent, if it reads at all."""
        self.received.append(message)
        await self.reads.wait()

    @property
    def body(self) -> bytes:
        """What it has read of a body."""
        return b"".join(message.get("body", b"") for message in self.received)


async def ask(queries: HttpQueries, played: Played, answer: Response) -> None:
    """Answer a request in its turn."""

    async def answering(request: Request, turn: Turn) -> Response:
        await turn.take()
        return answer

    request = Request(played.scope, played.receive)
    response = await queries.limited(answering)(request)
    await response(played.scope, played.receive, played.send)


async def test_a_large_answer_is_sent_in_pieces_that_count() -> None:
    """The next piece waits for the client; all that it has not read counts as unsent."""
    backlogs, played = Backlogs(1 << 30), Played()
    body = bytes(range(256)) * (PIECE_BYTES // 256) * 2 + b"end"
    task = asyncio.create_task(ask(HttpQueries(QuerySlots(), backlogs), played, Response(body)))
    await as_soon_as(lambda: played.received)
    played.received.clear()
    played.reads.set()
    await task
    assert [len(message["body"]) for message in played.received] == [PIECE_BYTES, PIECE_BYTES, 3]
    assert [message.get("more_body", False) for message in played.received] == [True, True, False]
    assert (played.body == body, backlogs.unsent_bytes) == (True, 0)


async def test_what_is_not_read_counts() -> None:
    """While an answer is not read, others that are as large are refused."""
    size = BACKLOG_BYTES_MIN + 1
    backlogs, played = Backlogs(size), Played()
    task = asyncio.create_task(ask(HttpQueries(QuerySlots(), backlogs), played, Response(b"x" * size)))
    played.reads.set()
    await task
    backlogs.require(size)
    backlogs.unsent_bytes += 1
    with pytest.raises(SowlineError, match="answers that clients have not read"):
        backlogs.require(size)


async def test_a_client_that_leaves_waits_no_longer() -> None:
    """Its query is not run, and nobody waits behind it."""
    slots, played = QuerySlots(SlotLimits(service=1)), Played()
    held = slots.new(Asker("x", 0))
    assert held.take_now()
    task = asyncio.create_task(ask(HttpQueries(slots, Backlogs(1)), played, JSONResponse({})))
    await as_soon_as(lambda: slots.waiting)
    played.left.set()
    await task
    assert (slots.waiting, slots.running, played.received) == (0, 1, [])


async def test_what_is_refused_has_a_reason() -> None:
    """If too many wait, the client gets the status and the reason."""
    slots, played = QuerySlots(SlotLimits(service=1, waiting=0)), Played()
    assert slots.new(Asker("x", 0)).take_now()
    played.reads.set()
    await ask(HttpQueries(slots, Backlogs(1)), played, JSONResponse({}))
    assert (played.received[0]["status"], json.loads(played.body)["reason"]) == (429, "busy")


async def test_a_client_that_reads_nothing_is_cut_off() -> None:
    """Its connection ends in the middle of the answer, so that another query can run."""
    backlogs, played = Backlogs(1 << 30), Played()
    slots = QuerySlots(SlotLimits(service=1, unread_seconds=0.01))
    task = asyncio.create_task(ask(HttpQueries(slots, backlogs), played, Response(b"x" * 100)))
    await as_soon_as(lambda: slots.running)
    await slots.new(Asker("bob", 0)).take()
    await task
    assert (played.left.is_set(), slots.ended, backlogs.unsent_bytes) == (True, 1, 0)


async def test_a_cut_ends_when_the_server_has_noticed_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long that takes: the server would report an answer without its end as an error."""
    played, loop, cut = Played(), asyncio.get_running_loop(), asyncio.Event()
    played.connection.close = cut.set
    slots = QuerySlots(SlotLimits(service=1, unread_seconds=0.01))
    task = asyncio.create_task(ask(HttpQueries(slots, Backlogs(1 << 30)), played, Response(b"x" * 100)))
    await as_soon_as(lambda: slots.running)
    await slots.new(Asker("bob", 0)).take()
    await cut.wait()
    now = loop.time
    monkeypatch.setattr(loop, "time", lambda: now() + 3600)
    await loop_turns(10)
    assert not task.done()
    played.left.set()
    await task


def test_a_piece_is_no_larger_than_what_the_server_buffers() -> None:
    """Each one that is sent shows that the client reads: also a client that takes seconds for so few bytes."""
    assert PIECE_BYTES <= flow_control.HIGH_WATER_LIMIT
