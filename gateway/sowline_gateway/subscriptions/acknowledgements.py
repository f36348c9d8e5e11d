"""What the client of a subscription to records is owed: each acknowledgement once."""

from sowline.model.bookmark import PositionsByLog, format_bookmark
from sowline.serving.outbox.group import acknowledge_completed, acknowledge_processed
from sowline.serving.outbox.outbox import Outbox
from sowline.serving.result import Result
from sowline.wire.request import Subscribe
from sowline.wire.server_message import ack


class Acknowledgements:
    """The acknowledgements of one subscription."""

    def __init__(self, outbox: Outbox, request: Subscribe) -> None:
        self._outbox = outbox
        self._request = request
        self._owed = {"processed", *(one for one in ("completed", "stats") if one in request.acks)}

    @property
    def has_begun(self) -> bool:
        """Whether the subscription has begun: its command was acknowledged, if requested."""
        return "processed" not in self._owed

    def begin(self, bookmark: str, up_to: str = "") -> None:
        """Acknowledge that it begins at this bookmark; `up_to` is that of its end, if it has one."""
        self._owed.remove("processed")
        fields = {"up_to": up_to, "sub_id": self._request.id_of_subscription}
        acknowledge_processed(self._outbox, self._request, bookmark=bookmark, **fields)

    def complete(self, sent: PositionsByLog) -> None:
        """Acknowledge that the client was sent everything from before it began."""
        if self._pays("completed"):
            self._outbox.put(self.completed(sent), (self._request.id_of_subscription,))

    def complete_group(self, bookmark: str) -> None:
        """Acknowledge the same of a group with this bookmark."""
        if self._pays("completed"):
            acknowledge_completed(self._outbox, self._request, bookmark)

    def count(self, result: Result) -> None:
        """Acknowledge the counts of what it began with."""
        if self._pays("stats"):
            stats = ack("stats", self._request.command_id, **result.stats)
            self._outbox.put(stats, (self._request.id_of_subscription,))

    def completed(self, sent: PositionsByLog) -> bytes:
        """Return the acknowledgement that the client was sent everything up to these positions."""
        request = self._request
        return ack(
            "completed",
            request.command_id,
            bookmark=format_bookmark(sent),
            sub_id=request.id_of_subscription,
        )

    def _pays(self, kind: str) -> bool:
        is_owed = kind in self._owed
        self._owed.discard(kind)
        return is_owed
