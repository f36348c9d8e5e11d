"""Writes the history of a workload while it runs, and keeps it for the judge."""

from collections.abc import Callable
from typing import IO

from sowline.check.history import Event, MessageRead, event_line
from sowline.wire.client_message import Message


class Recorder:
    """Notes events in the order in which they happen in this process."""

    def __init__(self, clock: Callable[[], float], file: IO[bytes] | None = None) -> None:
        """Begin now; `clock` returns the seconds of a monotonic clock."""
        self.events: list[Event] = []
        self._file = file
        self._clock, self._begun = clock, clock()

    @property
    def now(self) -> float:
        """The seconds since the history began."""
        return round(self._clock() - self._begun, 6)

    def note(self, event: Event) -> None:
        """Note an event."""
        self.events.append(event)
        if self._file is not None:
            self._file.write(event_line(event) + b"\n")

    def note_message(self, read: str, message: Message) -> None:
        """Note a message that a read received."""
        self.note(
            MessageRead(
                read,
                message.command,  # type: ignore[arg-type]
                self.now,
                message.bookmark or "",
                message.sow_key or "",
                message.data if message.body else None,
                message.delta,
                message.removed,
                message.reason or "",
                message.timestamp or "",
                message.updated_at or "",
                message.correlation_id or "",
                message.records,
                message.hash or "",
                message.more,
            )
        )
