"""The requests of a gateway to query services, its nodes: made from its clients' commands, and encoded. Pure.

A gateway makes the messages of some subscriptions itself. It then asks for other options than its client.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import msgspec

from sowline.commands.command import Origin
from sowline.model.bookmark import PositionsByLog, format_bookmark
from sowline.wire.options import RATE_MAX, Options, ReplayRate, options_text
from sowline.wire.request import (
    Fetch,
    Outcome,
    OutcomeRequest,
    Read,
    Sow,
    SowAndSubscribe,
    Subscribe,
    Unsubscribe,
    WatchOutcomes,
    staleness_text,
)
from sowline.wire.request_fields import NO_KEYS, RequestFields

SUB_ID = "s"
"""The id of the one subscription of a connection."""

COMMAND_ID = "1"
"""The id of the command that a connection carries out; other commands are about its subscription."""

SAMPLE_SECONDS = 0.5
"""The time between two samples of the ends of logs. With few partitions, a lag is at most this much too long."""

SAMPLED_MAX = 100
"""The number of partitions in a sample, unless more are needed to sample every log in time."""

SAMPLE_TURN_SECONDS_MAX = 15.0
"""Within this time a node samples the end of each log partition, however many there are."""

BATCH = 1000
"""The number of records in a message of a node."""


def sampled_at_once(partitions: int) -> int:
    """Return how many of its log partitions a node samples each time."""
    return max(SAMPLED_MAX, math.ceil(partitions * SAMPLE_SECONDS / SAMPLE_TURN_SECONDS_MAX))


def sample_turn_seconds(partitions: int) -> float:
    """Return the time in which a node samples each of its log partitions: its reported lag may be this old."""
    return max(1, math.ceil(partitions / sampled_at_once(partitions))) * SAMPLE_SECONDS


# Without defaults: nodes refuse unknown fields, so a field that is new and says nothing would make each request fail
# at a node of an earlier version (test_a_node_of_version_0_1_knows_each_field).
class NodeQuery(RequestFields, frozen=True, omit_defaults=True):
    """One request of a gateway, as it is on the wire."""

    def named(self, command_id: str) -> "NodeQuery":
        """Return the same request with this id."""
        return msgspec.structs.replace(self, command_id=command_id)


encode = msgspec.json.Encoder().encode


# queries


def read_of(request: Read, command: str, floor: PositionsByLog, ack_type: str) -> NodeQuery:
    """Return a client's read as a read of all records rather than of a page, from a state at `floor` or later."""
    return NodeQuery(
        command=command,
        command_id=COMMAND_ID,
        topic=request.topic,
        filter=request.filter,
        condition=request.condition,
        # The rank among the records of a node is not that among all: the gateway adds it.
        options=options_text(replace(request.options, rank=False)),
        order_by=request.order.text,
        sow_keys=request.sow_keys or NO_KEYS,
        bookmark=request.bookmark,
        up_to=request.up_to,
        at_least=format_bookmark(floor) if floor else "",
        max_staleness=staleness_text(request),
        ack_type=ack_type,
    )


def records_of(request: Read, floor: PositionsByLog) -> NodeQuery:
    """Return a query whose answers are merged."""
    sow = read_of(request, Sow.command, floor, "processed,stats")
    return msgspec.structs.replace(sow, batch_size=BATCH, merges=True)


def difference_of(query: NodeQuery, held: NodeQuery) -> NodeQuery:
    """Return a query whose answers are the differences from the records that a client holds."""
    return msgspec.structs.replace(query, replaces=msgspec.Raw(encode(held)))


def past_view_of(query: NodeQuery) -> NodeQuery:
    """Return a query that also takes `epoch` or a list of bookmarks, where a view starts."""
    return msgspec.structs.replace(query, relays=True)


def held_by(request: Read, positions: PositionsByLog) -> NodeQuery:
    """Return the query that finds the records that a client holds at these positions."""
    return NodeQuery(
        command=Sow.command,
        topic=request.topic,
        filter=request.filter,
        condition=request.condition,
        options=options_text(request.options),
        sow_keys=request.sow_keys or NO_KEYS,
        bookmark=format_bookmark(positions),
    )


def fetch_of(first: int, count: int) -> NodeQuery:
    """Return the request for a range of records, from number `first` on, of a query with samples."""
    return NodeQuery(command=Fetch.command, command_id=COMMAND_ID, skip_n=first, top_n=count)


# subscriptions


def subscription_of(query: NodeQuery, request: Subscribe, *, is_paused: bool, relays: bool) -> NodeQuery:
    """Return the subscription of one client to records."""
    # The gateway itself keeps the rate and replaces subscriptions. With a rate, it needs changes in the order
    # of time.
    fastest = None if request.options.rate is None else ReplayRate(RATE_MAX, "messages")
    options = replace(request.options, replace=False, rate=fastest, pause=is_paused)
    return msgspec.structs.replace(
        query,
        command=request.command,
        sub_id=SUB_ID,
        ack_type="processed,completed" + (",stats" if request.has_snapshot else ""),
        options=options_text(options),
        relays=relays,
    )


def view_of(query: NodeQuery, user: str, records: int | None) -> NodeQuery:
    """Return the subscription to a node's part of a view: to its first `records`, or to all groups."""
    return msgspec.structs.replace(
        query,
        command=SowAndSubscribe.command,
        sub_id=SUB_ID,
        ack_type="processed,completed,stats",
        user=user,
        skip_n=None if records is None else 0,
        top_n=records,
    )


def options_of_window(options: Options, *, is_live: bool = True) -> Options:
    """Return the options of the parts of a view.

    The gateway makes its client's messages itself. For that it needs whole records, with their times, and, if
    `is_live`, all that leave.
    """
    return Options(
        grouping=options.grouping,
        projection=options.projection,
        intrinsics=options.intrinsics,
        no_redundant=options.no_redundant,
        oof=is_live,
        timestamp=True,
    )


def options_of_stream(options: Options, *, relays: bool) -> Options:
    """Return the options that decide what live messages a subscription to records gets.

    A gateway follows subscriptions with equal options as one. If it `relays`, it makes the messages itself, and needs
    only the options that select changes.
    """
    changes = Options(oof=options.oof, no_redundant=options.no_redundant, intrinsics=options.intrinsics)
    if relays:
        return changes
    return replace(
        changes,
        no_empties=options.no_empties,
        no_sowkey=options.no_sowkey,
        send_keys=options.send_keys,
        timestamp=options.timestamp,
        select=options.select,
    )


def about_subscription(command: str, command_id: str) -> NodeQuery:
    """Return a command about the one subscription of a connection."""
    return NodeQuery(command=command, command_id=command_id, sub_id=SUB_ID)


def end_of(sub_id: str = "", query_id: str = "") -> NodeQuery:
    """Return the end of a subscription or a query."""
    return NodeQuery(command=Unsubscribe.command, sub_id=sub_id, query_id=query_id)


# outcomes


def watch_of(topic: str, query_id: str) -> NodeQuery:
    """Return the request to keep the reports about a topic's commands."""
    return NodeQuery(command=WatchOutcomes.command, topic=topic, query_id=query_id, ack_type="processed")


def outcome_of(topic: str, origin: Origin, partitions: Sequence[int]) -> NodeQuery:
    """Return the request for the reports of some partitions about a command."""
    data = msgspec.json.encode(OutcomeRequest(origin, tuple(partitions)))
    return NodeQuery(command=Outcome.command, topic=topic, data=msgspec.Raw(data))
