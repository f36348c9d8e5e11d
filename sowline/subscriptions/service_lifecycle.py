"""The lifecycle of a subscription for the service that serves it: states, events, actions, and what is legal when.

Pure data. `ServiceMachine` gives the events their effects. Query service and gateway use it for records and windows.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Literal

import msgspec

from sowline.subscriptions.machine import Legal, SignalEvent, StructAction, StructEvent, read_table
from sowline.wire.request import Subscribe


class ServiceState(Enum):
    """What the client is sent now."""

    BEGINNING = "beginning"
    """Nothing: it waits for its turn, its start, its window; or it begins again."""
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
    """What is known of the records that the client holds: what a replacement can start from."""

    UNKNOWN = "unknown"
    PART = "part"
    """Part of a group that is to be all: it is owed a whole one."""
    ALL = "all"
    """All that match, at the positions that were sent."""
    CHANGED = "changed"
    """Those that have changed since it began, at the positions that were sent."""


class Duty(Enum):
    """What the client is owed, once."""

    PROCESSED = "processed"
    """That it has begun."""
    STATS = "stats"
    """The counts of what it began with."""
    CAUGHT_UP = "caught_up"
    """For a gateway: that it was sent everything from before it began."""
    COMPLETED = "completed"
    """The same for any client, or that the end is reached."""


_REQUESTED = (Duty.COMPLETED, Duty.STATS)


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
    """Behind what was sent."""


class Opening(Enum):
    """What is sent at the start, before changes."""

    NOTHING = "nothing"
    GROUP = "group"
    """A group, to a client that holds nothing."""
    RESET = "reset"
    """A group that replaces whatever the client holds."""
    REPLACE = "replace"
    """What leaves the client's records, and a group of those that it lacks."""
    LEAVE = "leave"
    """What leaves the client's records."""

    @property
    def mark(self) -> Literal["reset", "replace"] | None:
        """The mark of its group."""
        match self:
            case Opening.RESET:
                return "reset"
            case Opening.REPLACE:
                return "replace"
        return None


class BeginAt(msgspec.Struct, frozen=True, gc=False):
    """Find a start; report `begun` there, or `gone`."""

    start: Start
    opening: Opening = Opening.NOTHING


AFRESH = BeginAt(Start.NOW, Opening.RESET)


class LifeTerms(msgspec.Struct, frozen=True, kw_only=True):
    """What a request demands of the life of its subscription."""

    begin: BeginAt
    replays: bool = False
    """Whether it has to catch up with changes from before it began."""
    has_snapshot: bool = False
    has_end: bool = False
    is_paced: bool = False
    """Whether it has an end or a rate."""
    is_paused: bool = False
    owed: frozenset[Duty] = frozenset({Duty.PROCESSED})
    instead: BeginAt | None = None
    """How it begins if the requested start is gone; None if it fails then."""
    resets: bool = False
    """Whether a client that was sent something gets a new group if what follows is gone; otherwise it fails."""
    holds: Held = Held.ALL
    """What its client holds once it has begun."""
    inherits: Held = Held.UNKNOWN
    """What its client holds before: what that of the replaced subscription does."""
    parts: frozenset[str] = frozenset({""})
    """What catches up by itself."""

    @classmethod
    def of(
        cls,
        request: Subscribe,
        *,
        begins_now: bool,
        replaced: Held | None = None,
        is_certain: bool = True,
        owed: frozenset[Duty] = frozenset(),
        parts: frozenset[str] = frozenset({""}),
    ) -> "LifeTerms":
        """Return the terms of a request. Its service knows whether it `begins_now`.

        `replaced` is what is known of what the client of the replaced subscription holds. If not `is_certain`, that
        will not be known of its own client. `owed` is owed besides what any client may request.
        """
        options, bookmark_range, has_snapshot = request.options, request.bookmark_range, request.has_snapshot
        is_window = request.skip_n is not None or bool(options.projection)
        has_group = has_snapshot and not bookmark_range.is_return
        first = BeginAt(Start.REQUESTED, Opening.GROUP if has_group else Opening.NOTHING)
        if replaced is not None:
            first = _replacing(replaced, has_snapshot=has_snapshot, oof=options.oof)
        return cls(
            begin=first,
            replays=not begins_now,
            has_snapshot=has_snapshot,
            has_end=bookmark_range.end is not None,
            is_paced=bookmark_range.end is not None or options.rate is not None,
            is_paused=options.pause,
            owed=owed | {Duty.PROCESSED, *(one for one in _REQUESTED if one.value in request.acks)},
            instead=_instead(options.bookmark_not_found, first.opening, is_window=is_window),
            resets=options.reset,
            holds=_held_by(has_all=has_snapshot or bookmark_range.is_return, is_certain=is_certain),
            inherits=replaced or Held.UNKNOWN,
            parts=parts,
        )


def _held_by(*, has_all: bool, is_certain: bool) -> Held:
    if not is_certain:
        return Held.UNKNOWN
    return Held.ALL if has_all else Held.CHANGED


def _replacing(held: Held, *, has_snapshot: bool, oof: bool) -> BeginAt:
    """Return how a subscription begins that replaces another one."""
    if held is Held.PART:
        # It may have dropped everything at the beginning of a reset, and waits for the end of that
        # (test_client_and_service_agree).
        return AFRESH
    if has_snapshot:
        # Without a snapshot, a client was sent only the records that changed. A group of those that it lacks can't be
        # computed, so it gets the whole group (test_plain_subscriptions).
        return BeginAt(Start.HELD, Opening.REPLACE) if held is Held.ALL else AFRESH
    return BeginAt(Start.NOW) if held is Held.UNKNOWN or not oof else BeginAt(Start.HELD, Opening.LEAVE)


def _instead(not_found: str, opening: Opening, *, is_window: bool) -> BeginAt | None:
    """Return how a subscription begins whose start is gone, as its client chose."""
    match not_found:
        case "reset":
            return AFRESH
        case "now":
            # A page or groups can't be brought from an unknown state to the current one by changes.
            return AFRESH if is_window else BeginAt(Start.NOW, opening)
        case "epoch" if not is_window and opening is Opening.NOTHING:
            return BeginAt(Start.OLDEST)
    return None


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
"""By event and state, what becomes of the event."""


class ServiceSignal(SignalEvent):
    """The events that say no more than their name."""

    BEGUN = "begun"
    """The start is found."""
    COUNTED = "counted"
    """The counts of what it began with are known."""
    SENT = "sent"
    """What the start sends was sent."""
    GONE = "gone"
    """What it needs next is no longer kept."""
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
    """Send what the start sends, then report `sent`."""

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
