"""Wrong traces of materializers: each function changes one event, and returns None if a trace has no such event."""

from collections.abc import Iterator
from itertools import pairwise

from tests.simulation.events import Line


def changes(lines: list[Line]) -> Iterator[int]:
    """Yield the indices of the changes that a live owner has written, without repairs."""
    return (
        at for at, line in enumerate(lines) if line["event"] == "change" and line["by"] and not line["again"]
    )


def commits(lines: list[Line]) -> Iterator[int]:
    """Yield the indices of the commits."""
    return (at for at, line in enumerate(lines) if line["event"] == "commit")


def replaced(lines: list[Line], at: int, **fields: object) -> list[Line]:
    """Return a trace with other fields of one event."""
    return [*lines[:at], lines[at] | fields, *lines[at + 1 :]]


def is_same_writer(one: Line, other: Line) -> bool:
    """Whether two events were written by one owner of one partition."""
    return (one.get("by"), one.get("partition")) == (other.get("by"), other.get("partition"))


def commit_before_emit(lines: list[Line]) -> list[Line] | None:
    """Commit a state before the last change that leads to it is written."""
    for at in commits(lines):
        for change in reversed([one for one in changes(lines) if one < at]):
            is_its_change = lines[change]["position"] == lines[at]["position"]
            if is_same_writer(lines[change], lines[at]) and is_its_change:
                return [*lines[:change], lines[at], *lines[change:at], *lines[at + 1 :]]
    return None


def neighbors(lines: list[Line]) -> tuple[int, int] | None:
    """Return the indices of two changes that one owner has written one after the other."""
    pairs = pairwise(changes(lines))
    return next((pair for pair in pairs if is_same_writer(*(lines[at] for at in pair))), None)


def change_left_out(lines: list[Line]) -> list[Line] | None:
    """Write the change after the next one instead of the next one."""
    if (pair := neighbors(lines)) is None:
        return None
    first, second = pair
    return replaced(lines, first, **(lines[second] | {"offset": lines[first]["offset"]}))


def change_repeated(lines: list[Line]) -> list[Line] | None:
    """Write a change again instead of the next one."""
    if (pair := neighbors(lines)) is None:
        return None
    first, second = pair
    return replaced(lines, second, **(lines[first] | {"offset": lines[second]["offset"]}))


def change_of_another_key(lines: list[Line]) -> list[Line] | None:
    """Write a change under the key of another record."""
    keys = {lines[at]["key"] for at in changes(lines)}
    for at in changes(lines):
        for key in sorted(keys - {lines[at]["key"]}):
            return replaced(lines, at, key=key)
    return None


def change_with_a_gap(lines: list[Line]) -> list[Line] | None:
    """Name a change before it that was never written."""
    at = next(changes(lines), None)
    return None if at is None else replaced(lines, at, after=[0, 30_000, 0])


def change_without_a_writer(lines: list[Line]) -> list[Line] | None:
    """Write a change that no process has sent."""
    at = next(changes(lines), None)
    return None if at is None else replaced(lines, at, by="")


def commit_ahead(lines: list[Line]) -> list[Line] | None:
    """Commit a position that the owner has not reached."""
    at = next(commits(lines), None)
    return None if at is None else replaced(lines, at, position=[0, 30_000, 0])


def commit_that_forgets(lines: list[Line]) -> list[Line] | None:
    """Commit without the stale keys."""
    at = next((at for at in commits(lines) if lines[at]["stale"]), None)
    return None if at is None else replaced(lines, at, stale=[])


def commit_that_skips(lines: list[Line]) -> list[Line] | None:
    """Commit an end of the changes behind events that the owner has not read."""
    at = next((at for at in commits(lines) if lines[at]["changes_end"]), None)
    return None if at is None else replaced(lines, at, changes_end=lines[at]["changes_end"] + 1)


WRONG = [
    commit_before_emit,
    change_left_out,
    change_repeated,
    change_of_another_key,
    change_with_a_gap,
    change_without_a_writer,
    commit_ahead,
    commit_that_forgets,
    commit_that_skips,
]
