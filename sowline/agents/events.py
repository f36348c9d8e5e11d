"""Server-Sent Events and lines of an answer, as its bytes arrive. Pure."""

from typing import NamedTuple


class Event(NamedTuple):
    """One event; `id` is empty if it has none."""

    name: str
    data: bytes
    id: str


class Pieces:
    """Cuts bytes at each separator."""

    def __init__(self, separator: bytes) -> None:
        self._separator = separator
        self._rest = bytearray()

    def take(self, chunk: bytes) -> list[bytes]:
        """Return the pieces that are whole now."""
        # The rest has no separator: searched again with each chunk, a large record would take quadratic time.
        searched = max(len(self._rest) - len(self._separator) + 1, 0)
        self._rest += chunk
        if self._rest.find(self._separator, searched) < 0:
            return []
        *pieces, rest = bytes(self._rest).split(self._separator)
        self._rest = bytearray(rest)
        return pieces


class EventReader:
    """Reads a stream of events."""

    def __init__(self) -> None:
        self._pieces = Pieces(b"\n\n")

    def take(self, chunk: bytes) -> list[Event]:
        """Return the events that are whole now; comments and other fields are left out."""
        events = map(_event, self._pieces.take(chunk))
        return [event for event in events if event.name]


def _event(text: bytes) -> Event:
    fields = dict(line.partition(b": ")[::2] for line in text.split(b"\n"))
    name, id = fields.get(b"event", b""), fields.get(b"id", b"")
    return Event(name.decode(), fields.get(b"data", b""), id.decode())
