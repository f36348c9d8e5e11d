"""The asynchronous client loses its connection, and makes another one."""

import asyncio
import itertools
import ssl

import pytest

from sowline.client.async_client import AsyncClient
from sowline.errors import SowlineError
from sowline.subscriptions.ask import Ask
from tests.held_connection import Connection
from tests.unit.sowline.client.accepted import REFUSED, Service, all_have_had_turns, service
from tests.waiting import until

__all__ = ["service"]


async def test_refused_request_is_sent_once_over_a_new_connection(service: Service) -> None:
    """Where the connection is lost before the request is sent again, the new one has it once, not twice."""
    first = service.accept()
    async with AsyncClient("http://x") as client:
        opening = asyncio.create_task(client.open(Ask("subscribe", "orders")))
        await all_have_had_turns()
        first.give(command="ack", command_id="1", status="failure", reason="not ready")
        first.lose()
        await all_have_had_turns()
        second = service.accept()
        await all_have_had_turns()
        assert [request["command"] for request in second.sent] == ["subscribe"]
        second.give(command="ack", command_id="1", status="success", ack_type="processed")
        await opening
    assert len(first.sent) == 1


class SlowConnection(Connection):
    """A connection on which nothing that is sent goes out until the test lets it."""

    def __init__(self) -> None:
        super().__init__()
        self.goes_out = asyncio.Event()

    async def send(self, text: str) -> None:
        """Take a request, and keep its sender waiting."""
        await super().send(text)
        await self.goes_out.wait()


async def test_commands_while_a_connection_is_resumed_are_sent(service: Service) -> None:
    """A pause and a leave that come after the request that resumes are not lost with the connection before."""
    first, second = service.accept(), SlowConnection()
    async with AsyncClient("http://x") as client:
        opening = asyncio.create_task(client.open(Ask("subscribe", "orders")))
        await all_have_had_turns()
        first.give(
            command="ack", command_id="1", status="success", ack_type="processed", bookmark="orders:0@1"
        )
        stream = await opening
        first.lose()
        service.give(second)
        await all_have_had_turns()
        commands = [client.pause(stream), client.end(stream)]
        sending = [asyncio.create_task(command) for command in commands]
        await all_have_had_turns()
        assert [request["command"] for request in second.sent] == ["subscribe", "pause", "unsubscribe"]
        second.goes_out.set()
        await asyncio.gather(*sending)


class FullConnection(Connection):
    """A connection over which the service answers each request, and reads no other until the answer is read."""

    async def send(self, text: str) -> None:
        """Take a request."""
        await super().send(text)
        id = self.sent[-1]["command_id"]
        self.give(command="ack", command_id=id, status="success", ack_type="processed", bookmark="orders:0@4")
        for offset in range(10):
            self.give(
                command="publish", sids=[id], topic="orders", bookmark=f"orders:0@{5 + offset}", data={}
            )
        await until(self._frames.empty, "the client to read the answer")


async def test_a_client_that_resumes_reads_meanwhile(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With many requests or large ones: the service reads none while its messages are unread.

    Nor does a caller with many unread messages that asks for something else meanwhile stop it.
    """
    monkeypatch.setattr("sowline.client.stream.WAITING_MAX", 5)
    first, second = service.accept(), FullConnection()
    async with AsyncClient("http://x") as client:
        for id in ("1", "2"):
            opening = asyncio.create_task(client.open(Ask("subscribe", "orders")))
            await all_have_had_turns()
            first.give(command="ack", command_id=id, status="success", ack_type="processed")
            await opening
        first.lose()
        await all_have_had_turns()
        service.give(second)
        await until(lambda: second.sent)
        stream = await client.open(Ask("subscribe", "orders"))
        assert [request["command_id"] for request in second.sent] == ["1", "2", "3"]
        assert [(await anext(stream)).bookmark for _ in range(10)][-1] == "orders:0@14"


@pytest.mark.parametrize("is_resumed", [False, True])
async def test_a_frame_that_can_not_be_read_ends_the_client(service: Service, is_resumed: bool) -> None:
    """With its own reason, over a connection that was resumed too."""
    connection = service.accept()
    async with AsyncClient("http://x") as client:
        opening = asyncio.create_task(client.open(Ask("subscribe", "orders")))
        await all_have_had_turns()
        if is_resumed:
            connection.lose()
            connection = service.accept()
            await until(lambda: connection.sent)
        connection.give_frame(7)
        with pytest.raises(SowlineError) as error:
            await opening
    assert error.value.reason == "bad message"


async def test_a_connection_that_is_lost_is_made_again(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    """A service that was there restarts: on this machine too, a connected client does not give up.

    Both are logged: a user who watches a subscription sees why it is silent.
    """
    service.accept().lose()
    service.refuse(REFUSED)
    service.accept()
    async with AsyncClient("http://127.0.0.1:1"):
        await until(lambda: len(service.tokens) >= 3)
    assert caplog.messages == [
        "lost the connection to the query service at http://127.0.0.1:1; trying again",
        "nothing listens at http://127.0.0.1:1: is `sowline up` running?; trying again in 0.05 s",
        "connected to the query service again",
    ]


async def test_a_handshake_that_is_cut_short(service: Service) -> None:
    """A service that stops during a handshake is waited for; a certificate that is refused ends the client."""
    service.accept().lose()
    service.refuse(ssl.SSLEOFError(8, "unexpected end"))
    last = service.accept()
    async with AsyncClient("https://x") as client:
        await until(lambda: len(service.tokens) >= 3)
        service.refuse(ssl.SSLCertVerificationError(1, "certificate has expired"))
        last.lose()
        await all_have_had_turns()
        with pytest.raises(SowlineError, match="certificate has expired"):
            await client.open(Ask("subscribe", "orders"))


async def test_a_function_that_returns_no_token_once(service: Service) -> None:
    """A client that reconnects asks it again: it may have read a file that was being written."""
    tokens = iter(["t1", "", "t2"])
    service.accept().lose()
    service.accept()
    async with AsyncClient("http://x", token=lambda: next(tokens)):
        await until(lambda: len(service.tokens) >= 2)
    assert service.tokens == ["Bearer t1", "Bearer t2"]


async def test_a_client_without_a_token_does_not_try_for_ever(
    service: Service, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What can be no token counts as a refusal. A function that fails is asked on; each reason is logged once."""
    monkeypatch.setattr("sowline.client.connection.BACK_OFF_SECONDS", (0.0,) * 6)
    asked = itertools.count()

    def token() -> str:
        number = next(asked)
        if 0 < number < 20:
            raise OSError
        return "" if number else "t1"

    service.accept().lose()
    async with AsyncClient("http://x", token=token) as client:
        with pytest.raises(SowlineError, match="expected a token of printable") as error:
            await client.open(Ask("subscribe", "orders"))
    assert (error.value.reason, next(asked)) == ("bad request", 26)
    assert caplog.messages[1:] == [
        "the token function raised OSError; trying again in 0 s",
        "expected a token of printable ASCII characters, got other characters; trying again in 0 s",
    ]
