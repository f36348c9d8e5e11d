"""Requests within a process: they stream, and end when their client leaves."""

import asyncio
from typing import Any

import httpx2
import pytest
from starlette.types import Receive, Scope, Send

from sowline.agents.in_process import InProcessTransport
from tests.waiting import as_soon_as

OUTER: dict[str, Any] = {
    "headers": [(b"authorization", b"Bearer secret"), (b"user-agent", b"agent/1"), (b"cookie", b"a=b")],
    "client": ("10.0.0.1", 5),
    "state": {"identity": "ada", "credentials": "hers", "connection": object()},
}


class App:
    """An application that sends chunks without end, and notes what it is asked and how it ends."""

    def __init__(self) -> None:
        self.scope: Scope = {}
        self.body = b""
        self.sent = 0
        self.has_ended = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the client leaves."""
        self.scope = scope
        self.body = (await receive())["body"]
        try:
            await send({"type": "http.response.start", "status": 200, "headers": [(b"x-own", b"1")]})
            while True:
                await send({"type": "http.response.body", "body": b"%d," % self.sent, "more_body": True})
                self.sent += 1
        finally:
            self.has_ended = True


def client_of(app: Any) -> httpx2.AsyncClient:
    """Return a client of an application."""
    return httpx2.AsyncClient(transport=InProcessTransport(app, OUTER))


async def test_a_stream_ends_when_its_client_leaves() -> None:
    """The application works no faster than its client reads."""
    app = App()
    async with client_of(app) as client:
        async with client.stream("POST", "http://here/v1/a%2Fb?x=%20", content=b"body") as response:
            assert (response.status_code, response.headers["x-own"]) == (200, "1")
            chunks = response.aiter_raw()
            assert [await anext(chunks), await anext(chunks)] == [b"0,", b"1,"]
            assert app.sent <= 4
        await as_soon_as(lambda: app.has_ended)
    assert app.body == b"body"
    assert (app.scope["path"], app.scope["raw_path"]) == ("/v1/a/b", b"/v1/a%2Fb")
    assert app.scope["query_string"] == b"x=%20"


async def test_an_identity_and_no_credentials_are_passed_on() -> None:
    """Nor the connection, which would become a session."""
    app = App()
    async with client_of(app) as client, client.stream("GET", "http://here/") as response:
        assert response.status_code == 200
    assert app.scope["state"] == {"identity": "ada", "credentials": "hers"}
    names = {name for name, _ in app.scope["headers"]}
    assert (b"user-agent", b"agent/1") in app.scope["headers"]
    assert not names & {b"authorization", b"cookie"}


async def test_a_client_that_gives_up_before_the_response() -> None:
    """The application is cancelled."""
    is_cancelled = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            is_cancelled.set()

    async with client_of(app) as client:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await client.get("http://here/")
        await as_soon_as(is_cancelled.is_set)


@pytest.mark.parametrize("begins", [False, True])
async def test_an_application_that_fails(begins: bool) -> None:
    """Its error reaches the client: an answer that ends early must not look whole."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if begins:
            await send({"type": "http.response.start", "status": 200, "headers": []})
        raise RuntimeError("broken")

    async with client_of(app) as client:
        with pytest.raises(RuntimeError, match="broken"):
            await client.get("http://here/")


async def test_an_application_without_a_response() -> None:
    """It is an error of the request."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()

    async with client_of(app) as client:
        with pytest.raises(httpx2.RemoteProtocolError):
            await client.get("http://here/")
