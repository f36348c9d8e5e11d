"""What every service process does: stopping when asked to."""

import os
import signal
import socket
import threading
from collections.abc import Iterator

import pytest

from sowline.runtime.process import LISTENER, STOP_SIGNALS, listener, stop_signal
from tests.waiting import let_pass

SECONDS_MAX = 20


@pytest.fixture
def stop() -> Iterator[threading.Event]:
    """The event of this process, whose signals are as they were behind the test."""
    handlers = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    yield stop_signal()
    signal.set_wakeup_fd(-1)
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_signals_that_stop(stop: threading.Event, number: signal.Signals) -> None:
    """Either signal does, however often it comes."""
    assert not stop.is_set()
    for _ in range(3):
        os.kill(os.getpid(), number)
    assert stop.wait(SECONDS_MAX)


def test_signal_that_another_thread_is_given(stop: threading.Event) -> None:
    """It ends a wait of the main thread, which nothing else ends."""
    give_itself = threading.Timer(0.05, lambda: signal.pthread_kill(threading.get_ident(), signal.SIGTERM))
    give_itself.start()
    stop.wait()


def test_signal_during_a_wait(stop: threading.Event) -> None:
    """It may come while the main thread holds the lock that setting the event takes, too."""
    with stop._cond:  # type: ignore[attr-defined]
        signal.raise_signal(signal.SIGTERM)
    assert stop.wait(SECONDS_MAX)


def test_other_signals(stop: threading.Event) -> None:
    """A signal that the program handles otherwise does not stop it."""
    seen: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: seen.append(number))
    try:
        for _ in range(100):
            signal.raise_signal(signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)
    let_pass(0.05)
    assert not stop.is_set()
    assert len(seen) == 100
    signal.raise_signal(signal.SIGTERM)
    assert stop.wait(SECONDS_MAX)


@pytest.mark.parametrize("is_its_port", [True, False])
def test_a_service_takes_the_socket_that_was_bound_for_it(
    is_its_port: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is that of its port, or else a socket of another meaning, which stays as it is."""
    with socket.create_server(("127.0.0.1", 0)) as bound:
        monkeypatch.setenv(LISTENER, str(bound.fileno()))
        port = bound.getsockname()[1] if is_its_port else 0
        with listener("127.0.0.1", port) as found:
            assert (found.getsockname() == bound.getsockname()) is is_its_port
            socket.create_connection(found.getsockname(), timeout=5).close()
            found.accept()[0].close()
        assert bound.fileno() > 0


@pytest.mark.parametrize("left", ["", "x", "99999"])
def test_a_service_without_such_a_socket_binds_its_own(left: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the variable has."""
    monkeypatch.setenv(LISTENER, left)
    with listener("127.0.0.1", 0) as found:
        assert found.getsockname()[1] > 0
