"""Wrong traces of query services, gateways and clients.

Each function changes one event, and returns None if a trace has no such event.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise

from tests.simulation.events import Line

FAR = [0, 30_000, 0]
"""A position that no log reaches."""


def replaced(lines: list[Line], at: int, line: Line) -> list[Line]:
    """Return a trace with another event instead of one."""
    return [*lines[:at], line, *lines[at + 1 :]]


def moved(lines: list[Line], at: int, to: int) -> list[Line]:
    """Return a trace in which an event is earlier."""
    return [*lines[:to], lines[at], *lines[to:at], *lines[at + 1 :]]


def told_in_turn(
    lines: list[Line], event: str, name: str, commands: tuple[str, ...] = ("publish", "oof")
) -> Iterator[tuple[int, int]]:
    """Yield the indices of two messages about a partition to one client or stream, one directly after the other.

    The first of them is one of these commands.
    """
    ends = {"subscribe", "disconnect", "restart", "end", "stop", "follow"}
    found: dict[tuple[object, ...], list[int]] = {}
    life = 0
    for at, line in enumerate(lines):
        if line["event"] in ends:
            life += 1
        elif line["event"] == event and line["message"]["command"] in ("publish", "oof"):
            found.setdefault((line[name], line["message"]["partition"], life), []).append(at)
    for of in found.values():
        yield from ((one, other) for one, other in pairwise(of) if _command(lines[one]) in commands)


def _command(line: Line) -> str:
    return str(line["message"]["command"])


def _without_one(
    event: str, name: str, commands: tuple[str, ...]
) -> Callable[[list[Line]], list[Line] | None]:
    def change(lines: list[Line]) -> list[Line] | None:
        pair = next(told_in_turn(lines, event, name, commands), None)
        return None if pair is None else [*lines[: pair[0]], *lines[pair[0] + 1 :]]

    return change


def message_left_out(lines: list[Line]) -> list[Line] | None:
    """Let a client not receive a change."""
    return _without_one("receive", "by", ("publish",))(lines)


def out_of_focus_left_out(lines: list[Line]) -> list[Line] | None:
    """Let a client not receive that a record matches no more."""
    return _without_one("receive", "by", ("oof",))(lines)


def message_repeated(lines: list[Line]) -> list[Line] | None:
    """Let a client receive a change twice."""
    pair = next(told_in_turn(lines, "receive", "by"), None)
    return None if pair is None else [*lines[: pair[0]], lines[pair[0]], *lines[pair[0] :]]


def message_before_its_change_is_applied(lines: list[Line]) -> list[Line] | None:
    """Let a client receive a change as soon as it is written."""
    for at, line in enumerate(lines):
        if line["event"] == "receive" and _command(line) in ("publish", "oof"):
            where = line["message"]["partition"], line["message"]["position"]
            written = next(
                at
                for at, line in enumerate(lines)
                if line["event"] == "change" and (line["partition"], line["position"]) == where
            )
            between = lines[written + 1 : at]
            if all(other["event"] not in ("subscribe", "disconnect") for other in between):
                return moved(lines, at, written + 1)
    return None


def row_of_another_state(lines: list[Line]) -> list[Line] | None:
    """Let a row of a snapshot have the body of no state of its record."""
    for at, line in enumerate(lines):
        if line["event"] == "receive" and _command(line) == "sow":
            return replaced(lines, at, line | {"message": line["message"] | {"body": "{}"}})
    return None


def group_without_a_row(lines: list[Line]) -> list[Line] | None:
    """Leave out a row of a snapshot that is received to its end."""
    row: dict[str, int] = {}
    for at, line in enumerate(lines):
        if line["event"] == "receive" and _command(line) == "sow":
            row[line["by"]] = at
        elif line["event"] == "receive" and _command(line) == "group_end" and line["by"] in row:
            return [*lines[: row[line["by"]]], *lines[row[line["by"]] + 1 :]]
        elif line["event"] in ("subscribe", "disconnect"):
            row.pop(line["by"], None)
    return None


def bookmark_ahead(lines: list[Line]) -> list[Line] | None:
    """Let a client come back with a bookmark of what it has not read."""
    last = [at for at, line in enumerate(lines) if line["event"] == "change"]
    for at, line in enumerate(lines):
        if line["event"] == "subscribe" and line["bookmark"] and last and last[0] < at:
            behind = _not_read(lines[:at], line)
            if behind is not None:
                ahead = [(of, FAR if of == behind else position) for of, position in line["bookmark"]]
                return replaced(lines, at, line | {"bookmark": ahead})
    return None


def _not_read(lines: list[Line], subscribed: Line) -> int | None:
    """Return a partition with changes after a bookmark."""
    for line in lines:
        if line["event"] == "change":
            for number, position in subscribed["bookmark"]:
                if number == line["partition"] and position < line["position"]:
                    return int(number)
    return None


WRONG_HANDOFF = [
    message_left_out,
    out_of_focus_left_out,
    message_repeated,
    message_before_its_change_is_applied,
    row_of_another_state,
    group_without_a_row,
    bookmark_ahead,
]


def passed_message_left_out(lines: list[Line]) -> list[Line] | None:
    """Let a stream not pass a change on."""
    return _without_one("pass", "stream", ("publish", "oof"))(lines)


def read_message_left_out(lines: list[Line]) -> list[Line] | None:
    """Let a program not read a change."""
    return _without_one("read", "by", ("publish", "oof"))(lines)


def message_read_twice(lines: list[Line]) -> list[Line] | None:
    """Let a program read a change twice."""
    pair = next(told_in_turn(lines, "read", "by"), None)
    return None if pair is None else [*lines[: pair[0]], lines[pair[0]], *lines[pair[0] :]]


def snapshot_before_the_stream(lines: list[Line]) -> list[Line] | None:
    """Let a snapshot be older than what the stream has passed on already."""
    passed: set[int] = set()
    for at, line in enumerate(lines):
        if line["event"] == "pass" and _command(line) != "progress":
            passed.add(line["message"]["partition"])
        elif line["event"] in ("end", "stop"):
            passed.clear()
        elif line["event"] == "snapshot" and passed:
            old = [
                (of, [0, -1, 0] if of in passed else position) for of, position in line["bookmark"]
            ]
            return replaced(lines, at, line | {"bookmark": old})
    return None


def stream_that_skips(lines: list[Line]) -> list[Line] | None:
    """Let a stream go on at another node behind messages that it has not passed on."""
    begun: set[tuple[int, int]] = set()
    written = {line["partition"] for line in lines if line["event"] == "change"}
    for at, line in enumerate(lines):
        if line["event"] == "follow":
            again = [number for number, _ in line["bookmark"] if (line["stream"], number) in begun]
            if set(again) & written:
                far = [(of, FAR) for of, _ in line["bookmark"]]
                return replaced(lines, at, line | {"bookmark": far})
            begun |= {(line["stream"], number) for number, _ in line["bookmark"]}
    return None


def left_after_the_message(lines: list[Line]) -> list[Line] | None:
    """Let a client that leaves a stream count a message that it was not sent."""
    for at, line in enumerate(lines):
        if line["event"] == "leave" and line["bookmark"]:
            far = [(of, FAR) for of, _ in line["bookmark"]]
            if any(other["event"] == "change" for other in lines[:at]):
                return replaced(lines, at, line | {"bookmark": far})
    return None


WRONG_STREAMS = [
    passed_message_left_out,
    read_message_left_out,
    message_read_twice,
    snapshot_before_the_stream,
    stream_that_skips,
    left_after_the_message,
]
