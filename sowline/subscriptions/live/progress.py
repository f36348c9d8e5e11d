"""Messages about what the client of a subscription has: its bookmark, and the checksum of its view."""

from sowline.model.bookmark import PositionsByLog, format_bookmark
from sowline.serving.outbox.outbox import Outbox
from sowline.serving.sessions.status import TICKS
from sowline.wire.request import Heartbeat
from sowline.wire.server_message import message


class ProgressTimer:
    """Decides, at regular checks, when the client of an idle subscription gets a progress message."""

    def __init__(self) -> None:
        self._ticks = 0
        self._sent: PositionsByLog = {}

    def look(self, was_sent: bool, positions: PositionsByLog) -> bool:
        """Return whether to send the bookmark; `was_sent`: a message was sent since the last check."""
        self._ticks = 0 if was_sent else self._ticks + 1
        if self._ticks < TICKS or positions == self._sent:
            return False
        self._ticks = 0
        self._sent = positions
        return True


def put_progress(outbox: Outbox, sub_id: str, positions: PositionsByLog) -> None:
    """Put the bookmark of an idle subscription."""
    outbox.put_behind(message("progress", sids=[sub_id], bookmark=format_bookmark(positions)), (sub_id,))


def put_window_checksum(outbox: Outbox, request: Heartbeat, bookmark: str, records: int, hash: int) -> None:
    """Put the checksum of what the client of a subscription should hold at this bookmark."""
    assert records >= 0 <= hash < 1 << 64, "a checksum is a count and a hash of 64 bits"
    outbox.put_behind(
        message(
            "progress",
            command_id=request.command_id,
            sids=[request.sub_id],
            bookmark=bookmark,
            records=records,
            hash=f"{hash:016x}",
        ),
        (request.sub_id,),
    )
