"""Local views for threads: callers that wait may be interrupted at any moment."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest

from sowline.client.local_view import LocalView
from sowline.client.record_view import Callbacks
from sowline.errors import SowlineError
from sowline.runtime.loop_thread import LoopThread
from tests.interrupts import Interrupted
from tests.unit.sowline.client.played import Never, Threaded, group, live, taken, threaded
from tests.waiting import let_pass

__all__ = ["threaded"]


@pytest.fixture(autouse=True)
def _interrupting() -> Iterator[None]:
    def interrupt(number: int, frame: FrameType | None) -> None:
        raise Interrupted

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGUSR1, signal.SIGVTALRM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_view_for_threads(threaded: Threaded) -> None:
    """It is entered, waited for, replaced and left; what it shows stays."""
    view = threaded.enter()
    assert view == {"1": {"a": 1}}
    threaded.hear(live("publish", "1", 2, data={"a": 2}))
    view.wait_for(lambda view: view["1"]["a"] == 2, timeout=5)
    never = Never()
    for seconds in (0, 0.01):
        with pytest.raises(TimeoutError, match=f"waited {seconds} s"):
            view.wait_for(never, seconds)
    with pytest.raises(KeyError, match="9"):
        view.wait_for(lambda view: view["9"])
    threaded.hear_once_asked(2, taken("1.1"), live("oof", "1", 2, more=True), *group(3, "replace", k2={}))
    view.replace(filter="/b = 1")
    assert (list(view), view.bookmark, never.asked) == (["2"], "orders:0@3", 2)
    with pytest.raises(RuntimeError, match="once"):
        view.__enter__()
    assert view.error is None
    view.__exit__(None, None, None)
    assert (list(view), view.error and view.error.reason) == (["2"], "disconnected")
    with pytest.raises(SowlineError, match="closed"):
        view.wait_for(lambda view: False)
    view.wait_for(lambda view: "2" in view)


def interrupt_once_waiting(view: LocalView, ended: threading.Event) -> None:
    """Take a signal in another thread than the one that waits; if that goes on waiting, end it after a while."""
    waiting = False
    while not waiting and not ended.wait(0.01):
        waiting = bool(view._waiting)
    let_pass(0.05)
    signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
    if not ended.wait(5):
        view._fail(SowlineError("internal", "the signal was missed"))


@contextlib.contextmanager
def interrupted(view: LocalView) -> Iterator[None]:
    """What is done within is interrupted as soon as it waits for the view."""
    ended = threading.Event()
    thread = threading.Thread(target=interrupt_once_waiting, args=(view, ended))
    thread.start()
    try:
        with pytest.raises(Interrupted):
            yield
    finally:
        ended.set()
        thread.join()
    assert view.error is None or view.error.reason == "disconnected"


def test_interrupted_on_entering(threaded: Threaded) -> None:
    """A signal that another thread is given ends the wait for the first group; the view is left."""
    threaded.hear_once_asked(1, taken(), *group(k1={})[:2])
    with interrupted(threaded.view):
        threaded.view.__enter__()
    assert (threaded.client.open_ids, threaded.view.error is not None) == ([], True)


def test_an_interrupted_entry_leaves_no_subscription() -> None:
    """Also just after the service has accepted it: nobody would take its messages, and the client would stop."""
    loop = LoopThread("tested")
    made = Threaded(loop)
    made.hear_once_asked(1, taken())

    def run(function: Any, *given: Any, **named: Any) -> Any:
        result = loop.run(function, *given, **named)
        if function.__name__ == "_subscribe":
            raise Interrupted
        return result

    with pytest.raises(Interrupted):
        LocalView(run, made.client, "orders", Callbacks(), None, delta=True).__enter__()
    assert made.client.open_ids == []
    loop.stop()


@pytest.mark.parametrize(
    "wait",
    [lambda view: view.wait_for(lambda _: False), lambda view: view.replace(filter="/b = 1")],
    ids=["wait_for", "replace"],
)
def test_interrupted_while_waiting(threaded: Threaded, wait: Callable[[LocalView], None]) -> None:
    """A signal that another thread is given ends the wait; the view goes on."""
    view = threaded.enter()
    threaded.hear_once_asked(2, taken("1.1"))
    with interrupted(view):
        wait(view)
    assert view._waiting == []
    if len(threaded.client.sent) == 1:
        threaded.hear(live("publish", "2", 2))
    else:
        threaded.hear(*group(3, "replace", k2={}))
    view.wait_for(lambda view: "2" in view, timeout=5)


def wait_again_and_again(view: LocalView) -> None:
    """Wait for what is so."""
    while True:
        view.wait_for(lambda view: "1" in view)


@pytest.mark.usefixtures("uncollected")
def test_interrupted_at_any_moment(threaded: Threaded) -> None:
    """Wherever a signal meets somebody who waits, the view goes on."""
    view = threaded.enter()
    try:
        for number in range(150):
            signal.setitimer(signal.ITIMER_VIRTUAL, 0.0001)
            with pytest.raises(Interrupted):
                wait_again_and_again(view)
            if number % 10 == 0:
                threaded.hear(live("publish", "1", number + 2, data={"n": number}, delta=True))
                view.wait_for(lambda view, number=number: view["1"].get("n") == number, timeout=5)  # type: ignore[misc]
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
