"""The commands of clients, each a type whose values are checked as far as possible without its topics. Pure.

`request_parser` makes them, once, where a request enters a service. A field takes the value of the field of
`RequestFields` with the same name, or the value that the parser's table defines.
"""

from typing import ClassVar, TypeVar

import msgspec

from sowline.commands.command import Origin
from sowline.language.expressions.order import Order
from sowline.model.bookmark import EPOCH, PositionsByLog, format_bookmark
from sowline.model.bookmark_range import BookmarkRange, range_text, split_range
from sowline.wire.options import Options
from sowline.wire.request_fields import (
    FETCH,
    OUTCOME,
    WATCH_OUTCOMES,
    SowKeys,
)

Bookmark = str | tuple[str, ...]
"""A bookmark, a range, or a list of bookmarks, in its written form."""


class Request(msgspec.Struct, frozen=True):
    """A command, with its name and the acknowledgements that the client requests."""

    command: ClassVar[str]
    acks: frozenset[str] = frozenset()
    command_id: str = ""

    @property
    def id_of_subscription(self) -> str:
        """`sub_id`; the command's id, if the command has no `sub_id` or the client gives none."""
        return getattr(self, "sub_id", "") or self.command_id

    @property
    def id_of_query(self) -> str:
        """`query_id`; the command's id, if the command has no `query_id` or the client gives none."""
        return getattr(self, "query_id", "") or self.command_id


class OfTopic(Request, frozen=True):
    """A command about a topic, or about several."""

    topic: str = ""


class QueryRequest(OfTopic, frozen=True):
    """A command whose answer is a group: of the records of topics, or of the writes to one record."""

    query_id: str = ""
    batch_size: int = 1
    bookmark: Bookmark = ""
    up_to: str = ""
    bookmark_range: BookmarkRange = BookmarkRange()
    """The range from `bookmark` to `up_to`."""
    at_least: PositionsByLog = {}
    """The positions that the state must have reached."""
    staleness_seconds_max: float | None = None

    @property
    def demands_fresh(self) -> bool:
        """Whether the service must wait until its state is fresh enough."""
        return bool(self.at_least) or self.staleness_seconds_max is not None


class OfGateway(msgspec.Struct, frozen=True):
    """The demands on a query service that only a gateway makes."""

    merges: bool = False
    """Whether the gateway merges the answer with those of other query services."""
    relays: bool = False
    """Whether the gateway makes the messages of its client's subscription itself."""
    shares: bool = False
    """Whether the gateway passes the messages of the subscription on to several clients."""
    user: str = ""
    """The user, or the address, of the gateway's client: the client's live views count as those of this user."""
    sample_n: int = 0
    """If not 0, each `sample_n`-th of the skipped records is a sample."""
    replaces: "Sow | None" = None
    """The query at a bookmark that finds the records that the client holds."""


class Read(QueryRequest, frozen=True):
    """A command that reads records, or explains how they are found."""

    sub_id: str = ""
    filter: str = ""
    condition: str = ""
    options: Options = Options()
    options_text: str = ""
    """The options as they were written, for the list of clients."""
    order: Order = Order()
    order_text: str = ""
    """The order as it was written, for messages."""
    top_n: int | None = None
    skip_n: int | None = None
    sow_keys: SowKeys = SowKeys()
    of_gateway: OfGateway = OfGateway()

    has_snapshot: ClassVar[bool] = False
    """Whether a subscription starts with the current records, unless it resumes from a bookmark."""
    is_delta: ClassVar[bool] = False
    """Whether the service sends only the changed fields of records that the subscription holds."""

    @property
    def is_sorted(self) -> bool:
        """Whether the records have an order, and so each a rank. With a limit alone, they are in that of SOW keys."""
        return bool(self.order.terms) or self.top_n is not None


class Sow(Read, frozen=True):
    """Reads matching records."""

    command = "sow"


class Explain(Read, frozen=True):
    """Explains how a `sow` would find its records."""

    command = "explain"


class Subscribe(Read, frozen=True):
    """Subscribes to changes."""

    command = "subscribe"

    @property
    def is_window(self) -> bool:
        """Whether it subscribes to a page or to groups rather than to single records."""
        return self.skip_n is not None or bool(self.options.projection)

    @property
    def is_sorted(self) -> bool:
        """Whether it subscribes to a page: only that stays in its order."""
        return self.skip_n is not None and self.top_n is not None


class SowAndSubscribe(Subscribe, frozen=True):
    """Reads matching records, and subscribes to their changes."""

    command = "sow_and_subscribe"
    has_snapshot = True


class DeltaSubscribe(Subscribe, frozen=True):
    """Subscribes to changes as deltas."""

    command = "delta_subscribe"
    is_delta = True


class SowAndDeltaSubscribe(SowAndSubscribe, frozen=True):
    """Reads matching records, and subscribes to their changes as deltas."""

    command = "sow_and_delta_subscribe"
    is_delta = True


class ReadTimeline(QueryRequest, frozen=True):
    """Lists the writes to one record."""

    command = "timeline"
    bookmark_range: BookmarkRange = BookmarkRange((EPOCH,))
    """The range from `bookmark` to `up_to`; without a bookmark it begins at `epoch`."""
    key: str = ""
    limit: int = 100
    reversed: bool = True


class Write(OfTopic, frozen=True):
    """A command for the log. Each field becomes a header; its check refuses a field that the command doesn't take."""

    data: msgspec.Raw = msgspec.Raw(b"")
    filter: str = ""
    sow_keys: SowKeys = SowKeys()
    expiration: float | None = None
    correlation_id: str = ""
    sow_key: str = ""
    tags: str | tuple[str, ...] = ()
    change_id: str = ""
    traceparent: str = ""


class Publish(Write, frozen=True):
    """Writes a record."""

    command = "publish"


class DeltaPublish(Write, frozen=True):
    """Merges fields into a record."""

    command = "delta_publish"


class DeltaRequest(Write, frozen=True):
    """Applies a delta to a document."""

    command = "delta"
    key: str = ""


class SowDelete(Write, frozen=True):
    """Deletes records."""

    command = "sow_delete"


class FlushRequest(Request, frozen=True):
    """Waits for the outcome of each earlier write on the connection."""

    command = "flush"


class OfSubscriptions(Request, frozen=True):
    """A command about subscriptions."""

    sub_id: str = ""


class Unsubscribe(OfSubscriptions, frozen=True):
    """Ends subscriptions, or a query."""

    command = "unsubscribe"
    query_id: str = ""


class Pause(OfSubscriptions, frozen=True):
    """Pauses subscriptions."""

    command = "pause"


class Resume(OfSubscriptions, frozen=True):
    """Resumes paused subscriptions."""

    command = "resume"


class Heartbeat(OfSubscriptions, frozen=True):
    """Requests a heartbeat, or the checksum of a subscription's view."""

    command = "heartbeat"


class Logon(Request, frozen=True):
    """Logs a user on, or renews a token."""

    command = "logon"
    token: str = ""


class OutcomeRequest(msgspec.Struct, frozen=True):
    """The partition and offset of a command, and the partitions whose reports about it are awaited."""

    origin: Origin
    partitions: tuple[int, ...]


class WatchOutcomes(OfTopic, frozen=True):
    """Keeps the reports about commands to a topic, for a gateway."""

    command = WATCH_OUTCOMES
    query_id: str = ""


class Outcome(OfTopic, frozen=True, kw_only=True):
    """Waits for the reports of some partitions about a command of a gateway."""

    command = OUTCOME
    query_id: str = ""
    asked: OutcomeRequest


class Fetch(Request, frozen=True):
    """Lets a query of a gateway that has sent its samples send a range of its records."""

    command = FETCH
    query_id: str = ""
    top_n: int | None = None
    skip_n: int | None = None


SUBSCRIPTIONS = (Subscribe, SowAndSubscribe, DeltaSubscribe, SowAndDeltaSubscribe)
WRITES = (Publish, DeltaPublish, DeltaRequest, SowDelete)

R = TypeVar("R", bound=Request)
Q = TypeVar("Q", bound=QueryRequest)


def from_now(request: Q) -> Q:
    """Return the same command with the current records as its start."""
    # The end of a range is written in the bookmark, and goes with it. An `up_to` stays
    # (test_a_subscription_may_begin_now_instead).
    end = request.bookmark_range.end if request.up_to else None
    return msgspec.structs.replace(request, bookmark="", bookmark_range=BookmarkRange(end=end))


def returned(request: Q, positions: PositionsByLog, end: PositionsByLog | None) -> Q:
    """Return the command of a client that returns with these positions; `end` is the end of its range, if known."""
    bookmark, asked = format_bookmark(positions), request.bookmark_range
    # Until the service knows where a range ends, it stays a range: with its start alone, the subscription would never
    # end (test_a_client_returns_into_a_range).
    is_range = asked.end is not None and not request.up_to and end is None
    ranged = split_range(request.bookmark) if is_range and isinstance(request.bookmark, str) else None
    found = asked._replace(starts=(positions,), takes_start=False)
    return msgspec.structs.replace(
        request,
        bookmark=bookmark if ranged is None else range_text(bookmark, ranged),
        up_to=request.up_to if end is None else format_bookmark(end),
        bookmark_range=found if end is None else found._replace(end=end, takes_end=True),
        # Demands on the start: a service that is a little behind must not refuse a client that only reconnects
        # (test_a_client_returns_after_what_it_has).
        at_least={},
        staleness_seconds_max=None,
    )


def staleness_text(request: QueryRequest) -> str:
    """Return the `max_staleness` of a command in its written form; empty if it has none."""
    seconds = request.staleness_seconds_max
    # Rounded: 1.001 s are 1000.9999999999999 ms, and a node would be asked for 1000.
    return "" if seconds is None else f"{round(seconds * 1000)}ms"


def with_snapshot(request: Subscribe) -> SowAndSubscribe:
    """Return the same subscription with a snapshot."""
    kind = SowAndDeltaSubscribe if request.is_delta else SowAndSubscribe
    return kind(**msgspec.structs.asdict(request))
