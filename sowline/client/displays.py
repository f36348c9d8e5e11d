"""What the outputs of a notebook that show a widget are sent of its view. Pure: rows and times in, batches out.

Each output is a display. It asks for the rows that are on its screen, gets all of them in its first batch, then what
has changed, and answers each batch. There is no queue: each batch has the rows of its moment.
So a record that changes often is sent once a batch, and a slow display takes no more memory than a fast one.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from sowline.client.records import RowSlice, read_body
from sowline.model.body import write_body
from sowline.model.cell import cell_text, printed

BATCH_SECONDS_MIN = 0.1
"""Between two messages with batches: at most ten a second."""

UNANSWERED_BYTES_MAX = 4 << 20
"""Of the batches that a display has not answered. A kernel that runs a cell reads the answers after it."""

LEAVE_SECONDS = 5.0
"""How long a widget stays open after its last display has left: a cell may be moved, or run again."""

DISPLAYS_MAX = 8
ROWS_MAX = 200
COLUMNS_MAX = 50


class Show(msgspec.Struct, tag="show", tag_field="kind"):
    """A display asks for rows; if `fresh`, it holds none."""

    display: str
    first: int
    count: int
    fresh: bool


class Answer(msgspec.Struct, tag="answer", tag_field="kind"):
    """A display has drawn the batch with this number."""

    display: str
    number: int


class Leave(msgspec.Struct, tag="leave", tag_field="kind"):
    """The output of a display is gone."""

    display: str


class Screen(NamedTuple):
    """What a display shows, apart from the cells."""

    first: int
    total: int
    ended: str
    keys: list[str]


class Display:
    """One output: what it asks for, and what it holds after the last batch that was sent to it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.first = self.count = 0
        self.heard_at = 0.0
        self.is_asked = False
        """Whether it is sent a batch even if nothing has changed."""
        self._held: dict[str, bytes] = {}
        self._screen: Screen | None = None
        self._columns: dict[str, bool] = {}
        """The names of fields in the order in which they appeared; whether all their values are numbers."""
        self._is_cut = False
        self._sent = 0
        self._unanswered: deque[tuple[int, int]] = deque()
        """The numbers of batches, and their bytes."""
        self._unanswered_bytes = 0

    def show(self, asked: Show) -> None:
        """Take another range of rows."""
        self.first, self.count = max(asked.first, 0), min(max(asked.count, 0), ROWS_MAX)
        self.is_asked = True
        if asked.fresh:
            self._held, self._screen = {}, None
            self._sent = self._unanswered_bytes = 0
            self._unanswered.clear()

    def answer(self, number: int) -> None:
        """Note which batch it has drawn."""
        while self._unanswered and self._unanswered[0][0] <= number:
            self._unanswered_bytes -= self._unanswered.popleft()[1]

    @property
    def has_room(self) -> bool:
        """Whether it can be sent another batch."""
        return self._unanswered_bytes < UNANSWERED_BYTES_MAX

    def batch(self, rows: RowSlice) -> dict[str, Any] | None:
        """Return what it does not have yet of these rows; None if it has all of it."""
        changed = [(key, body) for key, body in rows.bodies if self._held.get(key) is not body]
        screen = Screen(self.first, rows.total, rows.ended, [key for key, _ in rows.bodies])
        if not (changed or self.is_asked) and screen == self._screen:
            return None
        cells = {key: self._cells(body) for key, body in changed}
        is_whole = self._screen is None
        self._held, self._screen, self.is_asked = dict(rows.bodies), screen, False
        self._sent += 1
        batch = screen._asdict() | {
            "display": self.name,
            "number": self._sent,
            "whole": is_whole,
            "cells": cells,
            "columns": [
                {"name": printed(name), "numeric": numeric} for name, numeric in self._columns.items()
            ],
            "cut": self._is_cut,
        }
        size_bytes = len(write_body(batch))
        self._unanswered.append((self._sent, size_bytes))
        self._unanswered_bytes += size_bytes
        return batch

    def _cells(self, body: bytes) -> list[str]:
        """Return the texts of a record, one for each column that is known so far; empty without the field."""
        record = read_body(body)
        for name, value in record.items():
            if name not in self._columns and len(self._columns) >= COLUMNS_MAX:
                self._is_cut = True
            elif value is not None:
                is_number = isinstance(value, int | float) and not isinstance(value, bool)
                self._columns[name] = self._columns.get(name, True) and is_number
            else:
                self._columns.setdefault(name, True)
        return [cell_text(record[name]) if name in record else "" for name in self._columns]


class Displays:
    """All displays of one widget, and when they are sent what."""

    def __init__(self) -> None:
        self._by_name: dict[str, Display] = {}
        self._next_at = 0.0
        self._left_at: float | None = None

    def take(self, content: object, now: float) -> None:
        """Take a message of a display. One that is malformed changes nothing."""
        try:
            message = msgspec.convert(content, Show | Answer | Leave)
        except msgspec.ValidationError:
            return
        if isinstance(message, Leave):
            self._leave(message.display, now)
            return
        if isinstance(message, Show) and message.display not in self._by_name:
            self._add(message.display)
        # A display that was dropped for others asks again when it is scrolled.
        if display := self._by_name.get(message.display):
            display.heard_at = now
            if isinstance(message, Show):
                display.show(message)
            else:
                display.answer(message.number)

    def _add(self, name: str) -> None:
        if len(self._by_name) >= DISPLAYS_MAX:
            oldest = min(self._by_name.values(), key=lambda display: display.heard_at)
            del self._by_name[oldest.name]
        self._by_name[name] = Display(name)

    def _leave(self, name: str, now: float) -> None:
        """Ask the others whether they are still there: a page that was reloaded has left without a word."""
        self._by_name.pop(name, None)
        self._left_at = now
        for display in self._by_name.values():
            display.is_asked = True

    def drop_silent(self, now: float) -> bool:
        """Drop displays that have not answered since one has left; return whether none is left since some time."""
        if self._left_at is None or now < self._left_at + LEAVE_SECONDS:
            return False
        left_at, self._left_at = self._left_at, None
        self._by_name = {name: one for name, one in self._by_name.items() if one.heard_at >= left_at}
        return not self._by_name

    def due_seconds(self, now: float) -> float | None:
        """Return the time until there is something to do even if nothing happens; None for never."""
        return None if self._left_at is None else max(self._left_at + LEAVE_SECONDS - now, 0.0)

    def pause_seconds(self, now: float) -> float:
        """Return the time until the next batches may be sent."""
        return max(self._next_at - now, 0.0)

    def batches(self, now: float, rows: Callable[[int, int], RowSlice]) -> list[dict[str, Any]]:
        """Return the batches that are due, which go into one message. `rows` reads the view."""
        ready = [display for display in self._by_name.values() if display.has_room]
        made = [display.batch(rows(display.first, display.count)) for display in ready]
        found = [batch for batch in made if batch is not None]
        if found:
            self._next_at = now + BATCH_SECONDS_MIN
        return found
