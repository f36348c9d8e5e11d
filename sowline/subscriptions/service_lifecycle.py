"""The lifecycle of a subscription for the service that serves it: states, events, actions, and what is legal when.

Pure data. `ServiceMachine` gives the events their effects. Query service and gateway use it for records and windows.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Literal

import msgspec

from sowline.subscriptions.machine import Legal, SignalEvent, StructAction, StructEvent, read_table


class ServiceState(Enum):
    """The messages that the client is sent now."""

    BEGINNING = "beginning"
    """Nothing: it waits for its turn, its start or its window, or begins again."""
    SNAPSHOT = "snapshot"
    """A group, or what leaves the records that it holds. It waits for its turn, or is being sent."""
    CATCHING_UP = "catching up"
    """Changes since its position."""
    LIVE = "live"
    """Changes as they happen."""
    PACED = "paced"
    """Changes one by one: it has an end or a rate."""
    ENDED = "ended"
    """Nothing more: it has reached its end, or it can't continue."""
    STOPPED = "stopped"
    """Nothing more: the client has left, or has replaced it."""


class Pausing(Enum):
    """Whether the client wants messages."""

    RUNNING = "running"
    PAUSED = "paused"


class Held(Enum):
    """The known part of the records that the client holds; a replacement starts from them."""

    UNKNOWN = "unknown"
    PART = "part"
    """Part of a group that must be complete: the client is owed a whole group."""
    ALL = "all"
    """All that match, at the positions that were sent."""
    CHANGED = "changed"
    """The records that have changed since it began, at the positions that were sent."""


class Duty(Enum):
    """An acknowledgement that the client is owed, once."""

    PROCESSED = "processed"
    """That it has begun."""
    STATS = "stats"
    """The counts of what it began with."""
    CAUGHT_UP = "caught_up"
    """For a gateway: that it was sent everything from before it began."""
    COMPLETED = "completed"
    """The same for any client, or that the end is reached."""


class Start(Enum):
    """Where it begins or continues."""

    REQUESTED = "requested"
    """Where the request says."""
    HELD = "held"
    """At what the client of the replaced subscription holds."""
    NOW = "now"
    """At the current records."""
    OLDEST = "oldest"
    """At the oldest positions that are left."""
    SENT = "sent"
    """After the messages that were sent."""


class Opening(Enum):
    """The messages that are sent at the start, before changes."""

    NOTHING = "nothing"
    GROUP = "group"
    """A group, to a client that holds nothing."""
    RESET = "reset"
    """A group that replaces whatever the client holds."""
    REPLACE = "replace"
    """`oof` for records that the client must drop, and a group of those that it lacks."""
    LEAVE = "leave"
    """`oof` for records that the client must drop."""

    @property
    def mark(self) -> Literal["reset", "replace"] | None:
        """The mark of its group."""
        match self:
            case Opening.RESET:
                return "reset"
            case Opening.REPLACE:
                return "replace"
            case _:
                return None


class BeginAt(msgspec.Struct, frozen=True, gc=False):
    """Find a start; report `begun` there, or `gone`."""

    start: Start
    opening: Opening = Opening.NOTHING


# What is late in `ended` and `stopped` was on its way when the subscription ended. A heartbeat alone has an answer:
# its client waits for one (test_after_its_end_a_subscription_only_proves_what_it_sent).
_TABLE = """
                 beginning  snapshot  catching_up  live  paced  ended  stopped
    begun            +         .           .        .      .      -       -
    counted          .         +           +        +      +      -       -
    sent             .         +           .        .      .      -       -
    caught_up        .         +           +        -      +      -       -
    behind           -         -           +        +      -      -       -
    gone             +         +           +        +      +      -       -
    renewed          +         .           +        +      +      -       -
    lost             +         +           +        +      +      -       -
    reached          .         .           .        .      +      -       -
    failed           +         +           +        +      +      -       -
    pause            +         +           +        +      +      -       -
    resume           +         +           +        +      +      -       -
    prove            +         +           +        +      +      +       +
    leave            +         +           +        +      +      -       -
"""

LEGAL: Mapping[str, Mapping[ServiceState, Legal]] = read_table(_TABLE, ServiceState)
"""The outcome of each event in each state."""


class ServiceSignal(SignalEvent):
    """The events without data."""

    BEGUN = "begun"
    """The start is found."""
    COUNTED = "counted"
    """The counts of what it began with are known."""
    SENT = "sent"
    """The messages of the start were sent."""
    GONE = "gone"
    """The changes that it needs next are no longer kept."""
    LOST = "lost"
    """A service that it was fed by is lost."""
    REACHED = "reached"
    """Everything up to its end was sent."""
    FAILED = "failed"
    """It can't continue."""
    PAUSE = "pause"
    """The client wants no messages for now."""
    RESUME = "resume"
    PROVE = "prove"
    """The client asks for the checksum of what it should hold."""
    LEAVE = "leave"
    """The client wants no more, or something else instead."""


class CaughtUp(StructEvent, frozen=True, tag="caught_up"):
    """The client was sent everything of a part up to now; without a name, of all."""

    part: str = ""


class FellBehind(StructEvent, frozen=True, tag="behind"):
    """The client was too slow for live messages of a part; without a name, of all."""

    part: str = ""


class Renewed(StructEvent, frozen=True, tag="renewed"):
    """A service that it is fed by can't continue, and begins with a new group."""

    is_reset: bool = False


Event = ServiceSignal | CaughtUp | FellBehind | Renewed


class Acknowledge(StructAction, frozen=True):
    """Acknowledge something, once; with the bookmark of the group if it is about that."""

    duty: Duty
    of_group: bool = False


class SendOpening(StructAction, frozen=True):
    """Send the messages of the start, then report `sent`."""

    opening: Opening


class GoOn(StructAction, frozen=True):
    """Send changes from the position up to which the client was sent everything."""


class Halt(StructAction, frozen=True):
    """Send no changes, from now on; what is held back is dropped, and read again."""


class Finish(StructAction, frozen=True):
    """Acknowledge, as the last message, that everything up to the end was sent."""


class Refuse(StructAction, frozen=True):
    """End it with the reason for which it can't continue."""


Action = BeginAt | Acknowledge | SendOpening | GoOn | Halt | Finish | Refuse
