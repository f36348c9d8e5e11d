"""Server-Sent Events of a subscription: the messages of the WebSocket API, each with its bookmark. Pure.

The id of an event is the bookmark of the subscription after it, over all partitions: what a browser sends as
`Last-Event-ID` when it reconnects. While a group is being sent there is no new id: an interrupted group starts again.
"""

import msgspec

from sowline.errors import SowlineError
from sowline.wire.server_message import message, one_line

FAILURE = "failure"
END = " end"
"""Ends the last event id when the stream has reached its requested end, so that the client does not reconnect."""

GONE = ("bookmark_expired", "history expired", "rights changed")
"""Failures after which the last bookmark is invalid: the client starts again without it."""

_GROUP = ("group_begin", "sow")


class _EventFields(msgspec.Struct, gc=False):
    """The fields of a message that determine its event."""

    command: str
    ack_type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    bookmark: str = ""


_read = msgspec.json.Decoder(_EventFields).decode


def failure_of(text: bytes) -> SowlineError | None:
    """Return the failure in a message of the service, or None."""
    fields = _read(text)
    return SowlineError(fields.reason, fields.message) if fields.status == FAILURE else None


class BookmarkTracker:
    """A bookmark of all partitions, as text; the bookmarks of messages update it."""

    def __init__(self) -> None:
        self._logs: dict[str, dict[str, str]] = {}

    def lay(self, bookmark: str) -> None:
        """Update the partitions that a bookmark names."""
        for section in bookmark.split(";"):
            log, _, parts = section.rpartition(":")
            held = self._logs.setdefault(log, {})
            for part in parts.split(","):
                number, _, at = part.partition("@")
                held[number] = at

    def __str__(self) -> str:
        return ";".join(
            f"{log}:{','.join(f'{number}@{at}' for number, at in parts.items())}"
            for log, parts in self._logs.items()
        )


class Events:
    """Turns the messages of one subscription into events.

    `begins_now`: it has no replay and no group, so a client can resume at its start. `has_end`: it is over when it is
    completed.
    """

    def __init__(self, *, begins_now: bool, has_end: bool) -> None:
        self._begins_now = begins_now
        self._has_end = has_end
        self._tracker = BookmarkTracker()
        self.is_over = False
        """Whether the stream has ended."""

    def take(self, text: bytes) -> bytes:
        """Return the event of a message."""
        fields = _read(text)
        if fields.status == FAILURE:
            return self.fail(SowlineError(fields.reason, fields.message))
        if fields.command in _GROUP:
            # With an id, a client that loses its connection here would go on behind a group of which it has a part
            # (test_a_group_has_no_id_until_its_end).
            return _event(fields.command, text, None)
        if "@" in fields.bookmark:
            self._tracker.lay(fields.bookmark)
        name, id = fields.command, str(self._tracker)
        if fields.command == "ack":
            name = fields.ack_type
            if name == "completed" and self._has_end:
                self.is_over = True
                # A browser reconnects at the end of every answer. This id gets it a 204, after which it stops
                # (test_the_id_marks_the_end).
                id += END
            # A group or a replay follows: with this id, a client that reconnects could miss it.
            elif name == "processed" and not self._begins_now:
                id = ""
        return _event(name, text, id or None)

    def fail(self, error: SowlineError) -> bytes:
        """Return the last event, which has the error. An empty id makes the client forget its bookmark."""
        self.is_over = True
        text = message(FAILURE, reason=error.reason, message=error.message)
        return _event(FAILURE, text, "" if error.reason in GONE else None)


def _event(name: str, text: bytes, id: str | None) -> bytes:
    id_line = b"" if id is None else b"id: %b\n" % id.encode()
    return b"event: %b\n%bdata: %b\n" % (name.encode(), id_line, one_line(text))
