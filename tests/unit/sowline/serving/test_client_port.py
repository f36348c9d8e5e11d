"""Which settings limit what clients may use of a service."""

import asyncio
import socket
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sowline.config.settings import Settings
from sowline.errors import SowlineError
from sowline.runtime.ports import free_port
from sowline.serving import client_port
from sowline.serving.client_port import ClientPort, query_limits, slot_limits, view_limits
from sowline.serving.query_slots import Asker, QuerySlots
from sowline.serving.window_memory import WindowHolder, WindowMemory
from tests.waiting import loop_turns

HOST = "127.0.0.1"


@pytest.mark.parametrize(
    ("settings", "second"),
    [
        (Settings(queries_max=1), Asker("bob", 2)),
        (Settings(queries_per_user_max=1), Asker("ann", 2)),
        (Settings(queries_per_connection_max=1), Asker("ann", 1)),
    ],
)
def test_a_query_above_a_limit_waits(settings: Settings, second: Asker) -> None:
    """Of the service, of one user, and of one connection; by default the query runs."""
    for limits, runs in ((Settings(), True), (settings, False)):
        slots = QuerySlots(slot_limits(limits))
        assert slots.new(Asker("ann", 1)).take_now()
        assert slots.new(second).take_now() is runs


async def test_as_many_connections_wait_as_the_setting_says() -> None:
    """The next one is refused."""
    slots = QuerySlots(slot_limits(Settings(queries_max=1, queries_waiting_max=1)))
    assert slots.new(Asker("ann", 1)).take_now()
    waits = asyncio.ensure_future(slots.new(Asker("ann", 2)).take())
    await loop_turns(5)
    with pytest.raises(SowlineError) as refused:
        await slots.new(Asker("ann", 3)).take()
    assert (refused.value.reason, slots.refused) == ("busy", 1)
    waits.cancel()


@pytest.mark.parametrize(
    ("settings", "whose"),
    [
        (Settings(view_bytes_max=10), "of one service"),
        (Settings(view_bytes_per_user_max=10), "of one user"),
        (Settings(view_bytes_per_connection_max=10), "on one connection"),
    ],
)
def test_live_views_above_a_limit_are_refused(settings: Settings, whose: str) -> None:
    """Of the service, of one user, and of one connection."""
    memory, holder = WindowMemory(view_limits(settings)), WindowHolder("ann", 1)
    memory.count(holder, 10)
    assert memory.excess(holder) is None
    memory.count(holder, 1)
    found = memory.excess(holder)
    assert found is not None
    assert (found.reason, whose in found.message) == ("views too large", True)


@pytest.mark.parametrize(
    ("settings", "unit"), [({"result_records_max": 2}, "records"), ({"result_bytes_max": 1024}, "bytes")]
)
def test_a_result_above_a_limit_is_refused(settings: dict[str, int], unit: str) -> None:
    """In records and in bytes."""
    (most,) = settings.values()
    limits, found = query_limits(Settings(**cast("Any", settings))), SimpleNamespace(returned=0, bytes=0)
    setattr(found, "returned" if unit == "records" else unit, most)
    limits.check(cast("Any", found))
    setattr(found, "returned" if unit == "records" else unit, most + 1)
    with pytest.raises(SowlineError, match=f"expected at most {most} {unit}, got more"):
        limits.check(cast("Any", found))


async def test_the_server_of_a_port_drops_silent_clients_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is given the two times of the settings."""
    given: list[Any] = []

    def refuse(*arguments: Any) -> None:
        given.extend(arguments[2:])
        raise InterruptedError

    monkeypatch.setattr(client_port, "HttpServer", refuse)
    port = ClientPort(Settings(request_seconds_max=5, silent_seconds_max=7), 0)
    server = SimpleNamespace(
        app=None, authenticator=SimpleNamespace(is_open=False), sessions=SimpleNamespace(sessions_max=1 << 20)
    )
    with pytest.raises(InterruptedError):
        await port.serve(cast("Any", server), lambda: True)
    assert given == [5, 7]


async def test_no_client_comes_back_to_a_service_that_stops() -> None:
    """When clients get to know that they are to leave, nothing listens any more."""
    refused: list[bool] = []
    port = free_port()

    def close_all() -> None:
        with socket.socket() as client:
            refused.append(client.connect_ex((HOST, port)) != 0)

    server = SimpleNamespace(
        app=None,
        authenticator=SimpleNamespace(is_open=False),
        sessions=SimpleNamespace(sessions_max=1 << 20, close_all=close_all),
        watch_access=asyncio.Event().wait,
    )

    # It has begun to listen before the second look.
    looks = iter((False, True))
    async with asyncio.timeout(60):
        await ClientPort(Settings(host=HOST, port=port), 0).serve(cast("Any", server), lambda: next(looks))
    assert refused == [True]
