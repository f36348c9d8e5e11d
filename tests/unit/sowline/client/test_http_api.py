"""The errors of a client whose request gets no answer."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

from sowline.cli import http
from sowline.client import http_api
from sowline.client.absence import CARRIED_OUT
from sowline.client.http_api import HttpClient
from sowline.config.credentials import Credentials
from sowline.errors import SowlineError
from sowline.runtime.ports import free_port


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test waits for long; within a second, a busy machine lets a client connect."""
    for module, name in (
        (http_api, "HTTP_SECONDS_MAX"),
        (http_api, "CONNECT_SECONDS_MAX"),
        (http, "ANSWER_SECONDS_MAX"),
    ):
        monkeypatch.setattr(module, name, 1.0)


@pytest.fixture
async def silent() -> AsyncIterator[str]:
    """The URL of a service that takes requests, and answers none."""
    over = asyncio.Event()

    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await over.wait()
        writer.close()

    async with await asyncio.start_server(wait, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        over.set()


def asks_of(client: HttpClient, url: str) -> dict[str, Callable[[], Coroutine[Any, Any, object]]]:
    """Return requests by their names."""
    return {
        "topics": client.topics,
        "publish": lambda: client.post("orders", "publish", {}, b"{}"),
        "explain": lambda: client.post("orders", "explain", {}, b"{}"),
        "command": lambda: asyncio.to_thread(http.get, url),
    }


async def refusal(url: str, ask: str) -> SowlineError:
    """Return the error of a request."""
    client = HttpClient(url, Credentials(), lambda: None)
    with pytest.raises(SowlineError) as refused:
        await asks_of(client, url)[ask]()
    await client.close()
    return refused.value


@pytest.mark.parametrize("ask", ["topics", "publish", "command"])
async def test_a_service_that_does_not_answer_is_there(ask: str, silent: str) -> None:
    """The error says for how long it was waited, and that a write may be carried out."""
    error = await refusal(silent, ask)
    assert error.reason == "request timeout"
    assert "to continue its answer within 1 s, got nothing" in error.message
    assert ("; it may still carry out the request" in error.message) is (ask == "publish")


@pytest.mark.parametrize("ask", ["publish", "topics", "explain", "command"])
async def test_a_service_that_is_killed_may_have_carried_out_the_request(ask: str) -> None:
    """Its connection ends before the answer: who just repeats a write may write twice. A read may be repeated."""

    async def end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(end, "127.0.0.1", 0) as server:
        error = await refusal(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", ask)
    assert error.reason == "not connected"
    assert (CARRIED_OUT in error.message) is (ask == "publish")


@pytest.mark.parametrize("ask", ["topics", "publish"])
async def test_a_client_that_is_closed_while_it_waits_for_an_answer(ask: str) -> None:
    """The error is not one of the service; a write may have been carried out all the same."""

    async def close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        client.send_no_more()
        writer.close()

    async with await asyncio.start_server(close, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        client = HttpClient(url, Credentials(), lambda: None)
        with pytest.raises(SowlineError, match="the client was closed") as closed:
            await asks_of(client, url)[ask]()
        assert closed.value.reason == "disconnected"
        assert (CARRIED_OUT in closed.value.message) is (ask == "publish")
    await client.close()
    with pytest.raises(SowlineError, match="the client was closed") as closed:
        await asks_of(client, url)[ask]()
    assert CARRIED_OUT not in closed.value.message


@pytest.mark.parametrize("ask", ["topics", "publish", "command"])
async def test_no_service_is_there(ask: str) -> None:
    """The error says so, and what the user of a command probably forgot."""
    url = f"http://127.0.0.1:{free_port()}"
    error = await refusal(url, ask)
    assert error.reason == "not connected"
    assert error.message == f"nothing listens at {url}: is `sowline up` running?"
