"""The lifecycle of a subscription or query for its subscriber: states, events, actions, and what is legal when.

Pure data. `ClientMachine` gives the events their effects. The TypeScript client has the same machine:
`tests/conformance/lifecycle/` drives both.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any

from sowline.errors import SowlineError
from sowline.subscriptions.ask import Ask
from sowline.subscriptions.machine import Legal, SignalEvent, StructAction, StructEvent, read_table
from sowline.wire.client_message import Message


class State(Enum):
    """How far the service is with the subscription."""

    UNSENT = "unsent"
    """No connection carries the request: there was none yet, or it was lost."""
    ASKED = "asked"
    """The request is sent, and has no answer yet."""
    LEAVING = "leaving"
    """The service has ended it for now, but takes a replacement on its way for a new subscription; it was sent
    `leave` after that, and has not answered.
    """
    POSTPONED = "postponed"
    """The service could not serve the request yet; it is to be sent again after a pause."""
    SNAPSHOT = "snapshot"
    """It is accepted, and a group is due: the first one, or that of a replacement or a reset."""
    CATCHING_UP = "catching up"
    """The changes since its bookmark arrive."""
    LIVE = "live"
    """Changes arrive as they happen. A query has received all records."""
    ENDED = "ended"
    """It has reached its end, or its subscriber has left."""
    FAILED = "failed"

    # The table is asked for each message, and the hash of an Enum is computed in Python.
    __hash__ = object.__hash__


class Proving(Enum):
    """The state of the checksum that the subscriber has asked for."""

    NONE = "none"
    """It has asked for none, or has it."""
    WANTED = "wanted"
    """The service is yet to be asked."""
    ASKED = "asked"
    ARRIVED = "arrived"
    """The checksum, or why there is none, waits to be taken."""


_TABLE = """
                  unsent  asked  leaving  postponed  snapshot  catching_up  live  ended  failed
    connected       +       .       .         .         .           .         .     -      -
    lost            -       +       +         +         +           +         +     -      -
    again           -       -       -         +         +           +         +     -      -
    fail            +       +       +         +         +           +         +     -      -
    accepted        .       +       -         .         .           .         .     -      -
    refused         .       +       -         .         +           +         +     -      -
    replaced        .       .       -         .         +           +         +     -      -
    not_replaced    .       -       -         -         +           +         +     -      -
    not_proven      .       -       -         -         +           +         +     -      -
    left            .       .       +         .         .           .         .     -      -
    completed       .       .       -         .         +           +         +     -      -
    group_begin     .       .       -         .         +           +         +     -      -
    sow             .       .       -         .         +           .         .     -      -
    group_end       .       .       -         .         +           .         .     -      -
    publish         .       .       -         .         +           +         +     -      -
    oof             .       .       -         .         +           +         +     -      -
    progress        .       .       -         .         +           +         +     -      -
    take            +       +       +         +         +           +         +     +      +
    replace         +       +       +         +         +           +         +     .      .
    pause           +       +       +         +         +           +         +     -      -
    unpause         +       +       +         +         +           +         +     -      -
    full            -       -       -         -         -           +         +     -      -
    room            -       -       -         -         +           +         +     -      -
    prove           +       +       +         +         +           +         +     -      -
    leave           +       +       +         +         +           +         +     +      +
"""


LEGAL: Mapping[str, Mapping[State, Legal]] = read_table(_TABLE, State)
"""The outcome of each event in each state. A message of a group or of a change is an event by its command."""


class Signal(SignalEvent):
    """The events without data."""

    LOST = "lost"
    """The connection is lost."""
    LEFT = "left"
    """The service has answered `leave`."""
    COMPLETED = "completed"
    """Everything up to now, or up to the end, has arrived."""
    PAUSE = "pause"
    """The subscriber wants no messages for now."""
    UNPAUSE = "unpause"
    FULL = "full"
    """Too many messages wait for the subscriber."""
    ROOM = "room"
    """Few messages wait."""
    PROVE = "prove"
    """The subscriber asks for the checksum of what it should hold."""
    LEAVE = "leave"
    """The subscriber wants no more."""


class ConnectionMade(StructEvent, frozen=True, tag="connected"):
    """The connection is made; after `rights_changed`, the records that the subscriber holds are no longer valid."""

    rights_changed: bool = False


class Again(StructEvent, frozen=True, tag="again"):
    """The pause after `AskLater` is over."""

    number: int = 0


class Fail(StructEvent, frozen=True, tag="fail"):
    """No connection will be made again."""

    reason: str
    message: str = ""


class Accepted(StructEvent, frozen=True, tag="accepted"):
    """The service has accepted the request, at a bookmark; `end` is the position where it ends, if it has one."""

    bookmark: str | None = None
    end: str = ""


class Refused(StructEvent, frozen=True, tag="refused"):
    """The service has refused the request, or has ended the subscription."""

    reason: str
    message: str = ""


class Replaced(StructEvent, frozen=True, tag="replaced"):
    """The service has accepted the replacement with a number."""

    number: int


class NotReplaced(StructEvent, frozen=True, tag="not_replaced"):
    """The service has refused the replacement with a number; it may also have ended the subscription."""

    number: int
    reason: str
    message: str = ""
    ends: bool = False


class NotProven(StructEvent, frozen=True, tag="not_proven"):
    """The service has no checksum."""

    reason: str


_KEPT = ("command", "bookmark", "reset", "replace", "more", "hash", "reason")


class Arrived(StructEvent, frozen=True, tag="arrived"):
    """Messages of one command arrived; with `more`, the next ones belong to the same step."""

    command: str
    messages: tuple[Message, ...]
    more: bool = False

    @property
    def row(self) -> str:
        """The row of the table."""
        return self.command

    @property
    def kept(self) -> Any:
        """The part that a record keeps; as JSON, it describes the event."""
        # Without bodies: a record of a thousand batches would hold all of their records.
        parts = [{name: getattr(message, name) for name in _KEPT} for message in self.messages]
        messages = [{name: value for name, value in part.items() if value} for part in parts]
        more = {"more": True} if self.more else {}
        return {"type": "arrived", "command": self.command, "messages": messages, **more}


class Take(StructEvent, frozen=True, tag="take"):
    """The subscriber takes messages, up to a limit and up to the next `group_end`."""

    limit: int


class Replace(StructEvent, frozen=True, tag="replace"):
    """The subscriber asks for something else; what it does not name stays as it is."""

    changes: dict[str, Any]


Answer = Accepted | Refused | Replaced | NotReplaced | NotProven | Arrived
Event = Signal | ConnectionMade | Again | Fail | Answer | Take | Replace


class SendAsk(StructAction, frozen=True):
    """Send the request, or the one that resumes."""

    ask: Ask


class ReplaceBy(StructAction, frozen=True):
    """Send the replacement with a number."""

    number: int
    ask: Ask


class Send(StructAction, frozen=True):
    """Send a command about the subscription: `pause`, `resume`, `prove` or `leave`."""

    what: str


class AskLater(StructAction, frozen=True):
    """Report `Again` with this number after a pause: that of a replacement, or 0 for the request."""

    number: int


class Started(StructAction, frozen=True):
    """Tell the subscriber that the service has accepted its request."""


class Settled(StructAction, frozen=True):
    """Tell the subscriber the outcome of its first replacement without an answer."""

    error: SowlineError | None = None


class Give(StructAction, frozen=True):
    """Give messages to the subscriber."""

    messages: list[Message]


class Over(StructAction, frozen=True):
    """Tell the subscriber that the subscription is over; with an error, why."""

    error: SowlineError | None = None


Action = SendAsk | ReplaceBy | Send | AskLater | Started | Settled | Give | Over
