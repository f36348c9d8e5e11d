"""The departures board: what a subscription's messages make of it, and how it is shown."""

import io
from datetime import UTC

import orjson
import pytest
from rich.console import Console

from examples.flights.board import Board, board_filter, by_departure, date_line, picture
from examples.flights.screen import LINES_MAX, Screen
from sowline import Message

FLIGHT = {
    "carrier": "B6",
    "flight": 725,
    "time_hour": "2013-01-01T10:00:00Z",
    "origin": "JFK",
    "dest": "BQN",
    "sched_dep_local": "05:45",
    "status": "late",
}
DEPARTED = {**FLIGHT, "status": "departed late", "dep_delay_min": 38}
LANDED = {**DEPARTED, "status": "landed", "arr_delay_min": -4}


def message(command: str, flight: dict[str, object], reason: str | None = None) -> Message:
    """Return a message about a flight."""
    key = str(flight["flight"])
    return Message(command, "flights", sow_key=key, body=orjson.dumps(flight), reason=reason)


def shown(board: Board, rows_max: int = 10) -> str:
    """Return the board as a terminal shows it."""
    out = io.StringIO()
    Console(file=out, width=100).print(picture(board, "Tue 01 Jan 2013 06:30 EST", "3 facts fed", rows_max))
    return out.getvalue()


def test_filter() -> None:
    """The board asks for the late flights of one airport."""
    assert board_filter("LGA") == "/origin = 'LGA' AND /status IN ('late', 'departed late')"


def test_flight_enters_changes_and_leaves() -> None:
    """A flight enters the board, changes on it, and leaves it by OOF; each is counted and said."""
    board = Board("JFK")
    assert board.take(message("publish", FLIGHT)) == "enters   B6  725  to BQN  due 05:45  late"
    assert board.take(message("publish", DEPARTED)) == (
        "changes  B6  725  to BQN  due 05:45  departed late +38 min"
    )
    assert list(board.flights.values()) == [DEPARTED]
    left = board.take(message("oof", LANDED, "match"))
    assert left == "leaves   B6  725  to BQN  due 05:45  landed -4 min"
    assert (board.flights, board.entered, board.changed, board.left) == ({}, 1, 1, 1)


def test_deleted_flight() -> None:
    """A flight that leaves because it was deleted was cancelled, whatever its last state says."""
    board = Board("JFK")
    board.take(message("publish", FLIGHT))
    assert board.take(message("oof", FLIGHT, "deleted")) == "leaves   B6  725  to BQN  due 05:45  cancelled"


def test_new_group() -> None:
    """A new group is the whole: what the board held before it is gone."""
    board = Board("JFK")
    board.take(message("publish", FLIGHT))
    assert board.take(Message("group_begin")) is None
    assert not board.flights
    assert not board.complete
    board.take(message("sow", DEPARTED))
    assert board.take(Message("group_end")) is None
    assert board.complete
    assert len(board.flights) == 1


def test_picture() -> None:
    """The picture has the airport, the clock, each flight's line, and the counts."""
    board = Board("JFK")
    board.take(message("publish", DEPARTED))
    text = shown(board)
    assert "JFK: late and not yet landed    Tue 01 Jan 2013 06:30 EST" in text
    assert [cell.strip() for cell in text.splitlines()[4].split("│")[1:-1]] == [
        "05:45",
        "B6  725",
        "BQN",
        "departed late",
        "+38 min",
    ]
    assert "1 on the board: 1 came, 0 changed, 0 left (OOF)" in text


def test_crowded_board() -> None:
    """A board that does not fit shows the flights that are due first, and says how many more there are."""
    board = Board("JFK")
    for number in range(5):
        board.take(message("publish", {**FLIGHT, "flight": number, "sched_dep_local": f"08:{50 - number}"}))
    text = shown(board, rows_max=2)
    assert "08:46" in text
    assert "09:00" not in text
    assert "… and 3 more" in text


def test_order() -> None:
    """Flights stand in the order in which they were due, across midnight too."""
    late = {**FLIGHT, "time_hour": "2013-01-02T04:00:00Z", "sched_dep_local": "23:59"}
    early = {**FLIGHT, "time_hour": "2013-01-02T10:00:00Z", "sched_dep_local": "05:00"}
    assert by_departure([early, late]) == [late, early]


def test_date_line() -> None:
    """The clock names the day and its time zone."""
    assert date_line(1357036200, UTC) == "Tue 01 Jan 2013 10:30 UTC"


@pytest.mark.parametrize(("lines", "reported"), [(3, []), (LINES_MAX + 7, ["… 7 more"])])
def test_plain_lines(lines: int, reported: list[str]) -> None:
    """Without a terminal the newest lines are printed as they are, and the number of the others."""
    out = io.StringIO()
    console = Console(file=out, width=40)
    with Screen(console, lambda: "never shown") as screen:
        for number in range(lines):
            screen.add(f"[line] {number} " + "x" * 50)
        screen.refresh()
        screen.refresh()
    printed = out.getvalue().splitlines()
    kept = range(max(0, lines - LINES_MAX), lines)
    assert printed == reported + [f"[line] {number} " + "x" * 50 for number in kept]


def test_live_picture() -> None:
    """In a terminal the picture is shown, and lines are not."""
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=40)
    with Screen(console, lambda: "the picture") as screen:
        screen.add("a line")
    text = out.getvalue()
    assert "the picture" in text
    assert "a line" not in text
