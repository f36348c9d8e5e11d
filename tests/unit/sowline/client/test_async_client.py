"""The asynchronous client over connections that a test holds in its hands."""

import asyncio
import errno
import gc
import itertools
import socket
import weakref
from typing import Any

import pytest

from sowline.client.async_client import AsyncClient
from sowline.client.writing import topics_of
from sowline.errors import SowlineError
from sowline.subscriptions.ask import Ask
from tests.held_connection import Connection
from tests.unit.sowline.client.accepted import REFUSED, Service, all_have_had_turns, service
from tests.waiting import until

__all__ = ["service"]


async def test_refused_request_is_sent_again(service: Service) -> None:
    """A service that is loading is asked again, over the same connection."""
    connection = service.accept()
    async with AsyncClient("http://x") as client:
        opening = asyncio.create_task(client.open(Ask("subscribe", "orders")))
        await all_have_had_turns()
        connection.give(command="ack", command_id="1", status="failure", reason="not ready")
        await all_have_had_turns()
        assert [request["command"] for request in connection.sent] == ["subscribe"] * 2
        connection.give(command="ack", command_id="1", status="success", ack_type="processed")
        await opening


async def test_who_gives_up_opening_unsubscribes(service: Service) -> None:
    """The service may have accepted it meanwhile: its messages would have no reader."""
    connection = service.accept()
    async with AsyncClient("http://x") as client:
        opening = asyncio.create_task(client.open(Ask("subscribe", "orders")))
        await all_have_had_turns()
        opening.cancel()
        await asyncio.gather(opening, return_exceptions=True)
        assert [request["command"] for request in connection.sent] == ["subscribe", "unsubscribe"]


class CloggedConnection(Connection):
    """A connection that takes what is sent only while it has room."""

    def __init__(self) -> None:
        super().__init__()
        self.room = asyncio.Event()
        self.room.set()

    async def send(self, text: str) -> None:
        """Wait for room; then take a request."""
        await self.room.wait()
        await super().send(text)


async def test_a_replacement_whose_caller_gives_up_is_sent(service: Service) -> None:
    """The stream takes it for sent: without an answer to it, it would never send another one."""
    connection = CloggedConnection()
    service.give(connection)
    async with AsyncClient("http://x") as client:
        opening = asyncio.create_task(client.open(Ask("sow_and_subscribe", "orders")))
        await all_have_had_turns()
        connection.give(command="ack", command_id="1", status="success", ack_type="processed")
        stream = await opening
        for message in GROUP:
            connection.give(**message)
        await stream.next_batch()
        connection.room.clear()
        given_up = asyncio.create_task(client.replace(stream, filter="/id = 1"))
        await all_have_had_turns()
        given_up.cancel()
        await asyncio.gather(given_up, return_exceptions=True)
        connection.room.set()
        replacing = asyncio.create_task(client.replace(stream, filter="/id = 2"))
        await all_have_had_turns()
        connection.give(command="ack", command_id="1.1", status="success", ack_type="processed")
        await all_have_had_turns()
        assert [request["filter"] for request in connection.sent[1:]] == ["/id = 1", "/id = 2"]
        replacing.cancel()


async def test_a_write_that_is_waited_for_has_no_delivery_report(service: Service) -> None:
    """The service writes it: the answer is the report."""
    service.accept()
    async with AsyncClient("http://x") as client:
        for write in (
            client.publish("orders", {"id": 1}, wait=True, on_delivery=print),
            client.delta_publish("orders", {"id": 1}, wait=True, on_delivery=print),
            client.delta("orders", "1", "{}", wait=True, on_delivery=print),
            client.deltas("orders", "1", "{}", wait=True, on_delivery=print),
        ):
            with pytest.raises(SowlineError, match="expected wait or on_delivery, got both") as error:
                await write
            assert error.value.reason == "bad request"


GROUP: list[dict[str, Any]] = [
    {"command": "group_begin", "query_id": "1", "topic": "orders"},
    {"command": "sow", "query_id": "1", "topic": "orders", "records": [{"sow_key": "1", "data": {"id": 1}}]},
    {"command": "group_end", "query_id": "1", "topic": "orders", "bookmark": "orders:0@7"},
]


@pytest.mark.parametrize(
    ("rights", "command"), [("all", "subscribe"), ("fewer", "sow_and_subscribe")], ids=["same", "other"]
)
async def test_other_rights_begin_afresh(service: Service, rights: str, command: str) -> None:
    """A client that may read other records than before does not go on from its bookmark: what it holds is void."""
    first = service.accept(Rights="all")
    async with AsyncClient("http://x") as client:
        opening = asyncio.create_task(client.open(Ask("sow_and_subscribe", "orders")))
        await all_have_had_turns()
        first.give(command="ack", command_id="1", status="success", ack_type="processed")
        stream = await opening
        for message in GROUP:
            first.give(**message)
        await all_have_had_turns()
        assert [one.command for one in await stream.next_batch()] == ["group_begin", "sow", "group_end"]
        first.lose()
        await all_have_had_turns()
        second = service.accept(Rights=rights)
        await all_have_had_turns()
        (asked,) = second.sent
        assert (asked["command"], asked.get("bookmark")) == (
            command,
            "orders:0@7" if rights == "all" else None,
        )
        if rights == "fewer":
            second.give(command="ack", command_id="1", status="success", ack_type="processed")
            for message in GROUP:
                second.give(**message)
            begin, *_ = await stream.next_batch()
            assert (begin.command, begin.reset) == ("group_begin", True)
        assert client.rights == rights


async def test_a_function_is_asked_for_each_token(service: Service) -> None:
    """For each connection, and to renew one in time; where that is refused, by a new connection."""
    numbers = itertools.count(1)

    async def token() -> str:
        return f"t{next(numbers)}"

    first = service.accept(**{"Rights": "all", "Expires-In": "0.01"})
    async with AsyncClient("http://x", token=token) as client:
        await until(lambda: first.sent)
        assert first.sent == [{"command": "logon", "command_id": "logon", "token": "t2"}]
        first.give(command="ack", command_id="logon", status="success", rights="all", expires_in=0.01)
        await until(lambda: len(first.sent) >= 2)
        second = service.accept(Rights="all")
        first.give(command="ack", command_id="logon", status="failure", reason="rights changed")
        first.lose()
        await all_have_had_turns()
        opening = asyncio.create_task(client.open(Ask("subscribe", "orders")))
        await until(lambda: second.sent)
        second.give(command="ack", command_id="1", status="success", ack_type="processed")
        await opening
    assert service.tokens == ["Bearer t1", "Bearer t4"]


NO_NAME, NO_ANSWER = socket.EAI_NONAME, socket.EAI_AGAIN
NOTHING = "nothing listens at {}: is `sowline up` running?"


@pytest.mark.parametrize(
    ("url", "failure", "message"),
    [
        ("http://127.0.0.1:1", REFUSED, NOTHING.format("http://127.0.0.1:1")),
        ("http://localhost:1", OSError("Multiple exceptions"), NOTHING.format("http://localhost:1")),
        (
            "http://db.example",
            socket.gaierror(NO_NAME, "no name"),
            f"expected a query service at http://db.example, got: [Errno {NO_NAME}] no name",
        ),
    ],
)
async def test_a_service_that_is_not_there_is_reported_at_once(
    service: Service, caplog: pytest.LogCaptureFixture, url: str, failure: Exception, message: str
) -> None:
    """The address is wrong, or the service is down: the user of a command should not wait for half a minute."""
    service.refuse(failure)
    with pytest.raises(SowlineError) as error:
        await AsyncClient(url).__aenter__()
    assert (error.value.reason, error.value.message) == ("not connected", message)
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("url", "failure"),
    [
        ("http://192.0.2.1", REFUSED),
        ("http://127.0.0.1:1", TimeoutError()),
        ("http://127.0.0.1:1", ConnectionResetError(errno.ECONNRESET, "reset")),
        ("http://127.0.0.1:1", ConnectionResetError()),
        ("http://db.example", socket.gaierror(NO_ANSWER, "no answer")),
    ],
)
async def test_a_service_that_may_be_starting_is_waited_for(
    service: Service, caplog: pytest.LogCaptureFixture, url: str, failure: Exception
) -> None:
    """Another machine refuses connections while its service restarts; a resolver may fail for a moment.

    Each attempt is logged, so that nobody waits for half a minute without knowing why.
    """
    service.refuse(failure)
    service.refuse(failure)
    service.accept()
    async with AsyncClient(url):
        assert len(service.tokens) == 3
    why = str(failure) or type(failure).__name__
    expected = f"expected a query service at {url}, got: {why}"
    assert caplog.messages == [f"{expected}; trying again in {pause} s" for pause in ("0.05", "0.1")]


async def test_what_a_failure_is_called_can_not_steer_a_terminal(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    """A program that is no service may have sent it."""
    service.refuse(OSError(1, "\x1b[2J"))
    service.accept()
    async with AsyncClient("http://192.0.2.1"):
        assert "\x1b" not in caplog.text


async def test_streams_that_have_ended_are_forgotten(service: Service) -> None:
    """Their messages stay readable until the caller has read or ended them."""
    connection = service.accept()
    async with AsyncClient("http://x") as client:
        for id in ("1", "2"):
            opening = asyncio.create_task(client.open(Ask("sow", "orders")))
            await all_have_had_turns()
            connection.give(command="ack", command_id=id, status="success", ack_type="processed")
            for message in GROUP:
                connection.give(**message | {"query_id": id})
            connection.give(command="ack", command_id=id, status="success", ack_type="completed")
            stream = await opening
            await all_have_had_turns()
            if id == "1":
                assert [message.command async for message in stream] == ["group_begin", "sow", "group_end"]
            else:
                await client.end(stream)
                assert await stream.next_batch() == []
            forgotten = weakref.ref(stream)
            del opening, stream
            gc.collect()
            assert forgotten() is None
        assert [request["command"] for request in connection.sent] == ["sow", "sow"]


@pytest.mark.parametrize("token", ["", "two\nlines", "é"])
async def test_what_can_be_no_token(token: str) -> None:
    """Is said without it."""
    with pytest.raises(SowlineError) as error:
        async with AsyncClient("http://x", token=lambda: token):
            pass
    assert error.value.reason == "bad request"
    assert not token or token not in error.value.message


def test_a_topic_without_a_key_is_one_without_a_sow() -> None:
    """A publisher needs no more than what the service says of its topics, of either kind."""
    common = {
        "message_type": "json",
        "partitions": 2,
        "record_bytes_max": 100,
        "preprocessing": [],
        "documents": False,
        "records": 0,
    }
    keyed = {**common, "name": "orders", "log": "o", "key": ["/id"], "key_domain": "d"}
    without = {**common, "name": "ticks", "log": "t", "key": [], "key_domain": ""}
    orders, ticks = topics_of({"topics": [keyed, without]}).topics
    assert (orders.has_sow, orders.key_paths, orders.declared.key_domain) == (True, (("id",),), "d")
    assert (ticks.has_sow, ticks.log, ticks.limits.record_bytes_max) == (False, "t", 100)


async def test_a_query_within_a_query_is_answered(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its answer comes behind the group that its caller is reading, however much of that is unread."""
    monkeypatch.setattr("sowline.client.stream.WAITING_MAX", 10)
    connection = service.accept()

    def give(id: str, *messages: dict[str, Any]) -> None:
        for message in messages:
            connection.give(query_id=id, **message)

    def answer(id: str, count: int) -> None:
        connection.give(command="ack", command_id=id, status="success", ack_type="processed")
        record = {"command": "sow", "records": [{"sow_key": "1", "data": {}}]}
        give(id, {"command": "group_begin"}, *[record] * count, {"command": "group_end", "records": count})
        connection.give(command="ack", command_id=id, status="success", ack_type="completed")

    async with AsyncClient("http://x") as client:
        outer, inner = client.sow("orders"), client.sow("trades")
        beginning = asyncio.ensure_future(anext(outer))
        await all_have_had_turns()
        answer("1", 50)
        assert (await beginning).command == "group_begin"
        await all_have_had_turns()
        assert len(client._streams.by_id["1"].machine.taken.inbox) == 10, "the reader waits for the caller"
        asking = asyncio.ensure_future(anext(inner))
        await all_have_had_turns()
        answer("2", 3)
        assert (await asking).command == "group_begin"
        assert [message.command async for message in inner] == ["sow"] * 3 + ["group_end"]
        assert [message.command async for message in outer] == ["sow"] * 50 + ["group_end"]


@pytest.mark.parametrize("is_lost", [False, True])
async def test_a_client_that_is_closed_opens_nothing(service: Service, is_lost: bool) -> None:
    """Who waits for a new connection, or asks after the end, gets the reason, and waits for nothing."""
    connection = service.accept()
    async with AsyncClient("http://x") as client:
        if is_lost:
            connection.lose()
            await all_have_had_turns()
            opening = asyncio.create_task(client.open(Ask("subscribe", "orders")))
            await all_have_had_turns()
    with pytest.raises(SowlineError, match="the client was closed") as closed:
        await (opening if is_lost else client.open(Ask("subscribe", "orders")))
    assert closed.value.reason == "disconnected"
