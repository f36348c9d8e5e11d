"""The widget with a front end that the test plays: what it sends, its thread, and its end."""

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import comm
import pytest
from comm.base_comm import BaseComm

import sowline
from sowline.client import grid_widget
from sowline.client.grid_widget import GridWidget
from sowline.errors import SowlineError
from tests.unit.sowline.client.played import Threaded, group, live, refused, taken, threaded
from tests.waiting import wait_for

__all__ = ["threaded"]

Json = dict[str, Any]
SHOW = {"kind": "show", "display": "page", "first": 0, "count": 10, "fresh": True}


class FrontEnd(BaseComm):
    """A connection of a widget; it keeps what is sent."""

    def __init__(self, *given: Any, **named: Any) -> None:
        self.sent: list[tuple[str, Json]] = []
        super().__init__(*given, **named)

    def publish_msg(self, msg_type: str, data: Any = None, *given: Any, **named: Any) -> None:
        """Keep a message."""
        self.sent.append((msg_type, data or {}))

    def hear(self, content: Json) -> None:
        """Let a message of the page arrive."""
        self.handle_msg({"content": {"data": {"method": "custom", "content": content}}, "buffers": []})

    @property
    def batches(self) -> list[Json]:
        """All batches."""
        contents = [data["content"] for kind, data in self.sent if kind == "comm_msg"]
        return [batch for content in contents for batch in content["batches"]]


@pytest.fixture(autouse=True)
def _front_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comm, "create_comm", FrontEnd)


@pytest.fixture
def grid(threaded: Threaded) -> Iterator[GridWidget]:
    """A widget that shows one record."""
    threaded.hear_once_asked(1, taken(), *group(k1={"a": 1}))
    widget = sowline.widget(threaded.view)
    yield widget
    widget.close()
    wait_for(lambda: not threads(), "the thread of the widget to end")


def threads() -> list[threading.Thread]:
    """The threads of widgets."""
    return [one for one in threading.enumerate() if one.name == "sowline-widget"]


def sent(grid: GridWidget, count: int) -> list[Json]:
    """Wait for so many batches."""
    front_end: FrontEnd = grid.comm
    wait_for(lambda: len(front_end.batches) >= count, "batches")
    return front_end.batches


def test_records_travel_in_messages_alone(grid: GridWidget, threaded: Threaded) -> None:
    """A display gets the rows when it asks, then changes; the state of the widget and its text have neither."""
    assert grid.comm.batches == []
    grid.comm.hear(SHOW)
    threaded_rows = sent(grid, 1)[0]
    assert (threaded_rows["keys"], threaded_rows["cells"]) == (["1"], {"1": ["1"]})
    threaded.hear(live("publish", "1", 2, data={"a": "a secret"}))
    assert sent(grid, 2)[1]["cells"] == {"1": ["a secret"]}
    assert "a secret" not in repr((grid.get_state(), grid, grid._repr_mimebundle_()))
    assert repr(grid) == "<GridWidget of orders>"


def leaves(grid: GridWidget) -> None:
    """The last output of the widget is deleted."""
    grid.comm.hear({"kind": "leave", "display": "page"})


ENDS: tuple[Callable[[GridWidget], object], ...] = (
    leaves,
    GridWidget.close,
    lambda grid: grid.comm.handle_close({}),
)


@pytest.mark.parametrize("end", ENDS, ids=["leave", "close", "comm"])
def test_the_end_of_a_widget(
    grid: GridWidget,
    threaded: Threaded,
    end: Callable[[GridWidget], object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However it ends, its subscription and its thread do, too. The records stay readable."""
    monkeypatch.setattr("sowline.client.displays.LEAVE_SECONDS", 0.01)
    grid.comm.hear(SHOW)
    sent(grid, 1)
    assert len(threaded.client.open_ids) == len(threads()) == 1
    end(grid)
    wait_for(lambda: not threads(), "the thread of the widget to end")
    assert threaded.client.open_ids == []
    assert threaded.view == {"1": {"a": 1}}
    assert grid.comm is None


def test_a_view_that_ends(grid: GridWidget, threaded: Threaded) -> None:
    """The display shows why, and can still be scrolled."""
    grid.comm.hear(SHOW)
    sent(grid, 1)
    threaded.view.close()
    assert sent(grid, 2)[1]["ended"] == "disconnected"
    grid.comm.hear(SHOW | {"first": 1, "fresh": False})
    assert sent(grid, 3)[2]["keys"] == []


def test_a_failure_is_logged(
    grid: GridWidget, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The widget does not stay open without a thread."""
    monkeypatch.setattr(grid, "send", lambda content: 1 / 0)
    grid.comm.hear(SHOW)
    wait_for(lambda: not threads(), "the thread of the widget to end")
    assert "ZeroDivisionError" in caplog.text
    assert grid.comm is None


def test_a_refusal_is_raised(threaded: Threaded) -> None:
    """The cell shows it, and nothing is left open."""
    threaded.hear_once_asked(1, refused("not entitled", command_id="1"))
    with pytest.raises(SowlineError) as raised:
        sowline.widget(threaded.view)
    assert (raised.value.reason, threads(), threaded.client.open_ids) == ("not entitled", [], [])


def test_without_anywidget(threaded: Threaded, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error has the command that installs it."""
    monkeypatch.setitem(sys.modules, grid_widget.__name__, None)
    with pytest.raises(SowlineError, match=r"sowline\[notebook\]"):
        sowline.widget(threaded.view)
