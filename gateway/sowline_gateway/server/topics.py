"""Describes a topic as `/v1/topics` does, from the nodes' announcements."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sowline.config.topic_definition import TopicDefinition
from sowline.model.bookmark import Positions, format_bookmark, parse_bookmark
from sowline.model.position import Position
from sowline.serving.authorization.entitlements import Rights
from sowline.serving.http.topics import described_definition
from sowline_gateway.nodes.node_set import NodeSet


def described_topic(
    nodes: NodeSet, topic: TopicDefinition, rights: Rights, subscriptions: int
) -> dict[str, Any]:
    """Return the description of a topic over all its partitions; it is `loading` while partitions are missing.

    `subscriptions` are the live ones of the gateway's clients.
    """
    parts = nodes.described(topic.name)
    lags = sorted((one for part in parts for one in part["lags"]), key=lambda one: one["partition"])
    positions: Positions = {one["partition"]: Position.parse(one["position"]) for one in lags}
    return {
        **described_definition(topic, rights),
        "records": sum(part["records"] for part in parts),
        "bookmark": format_bookmark({topic.log: positions}),
        "reflects": reflected_by_all([part["reflects"] for part in parts]),
        "loading": not parts,
        "changes": sum(part["changes"] for part in parts),
        "lag": _known(parts, "lag", sum),
        "lag_seconds": _known(parts, "lag_seconds", max),
        "lags": lags,
        "changes_behind": _known(parts, "changes_behind", sum),
        "newest_seconds": min(
            (part["newest_seconds"] for part in parts if part["newest_seconds"] is not None), default=None
        ),
        "subscriptions": subscriptions,
    }


def reflected_by_all(bookmarks: Sequence[str | None]) -> str | None:
    """Return the bookmark up to which all parts of a view reflect the topics that it reads; None if one has none."""
    known = [parse_bookmark(bookmark) for bookmark in bookmarks if bookmark is not None]
    if not known or len(known) < len(bookmarks):
        return None
    # A log that one part lacks does not count: that part may reflect none of it.
    logs = [log for log in known[0] if all(log in one for one in known)]
    least = {log: _least([one[log] for one in known]) for log in logs}
    return format_bookmark(least) if any(least.values()) else None


def _least(parts: Sequence[Positions]) -> Positions:
    """Return the lowest position of each partition that all parts have."""
    common = set(parts[0]).intersection(*parts)
    return {number: min(one[number] for one in parts) for number in common}


def _known(
    parts: Sequence[Mapping[str, Any]], name: str, together: Callable[[list[Any]], Any]
) -> float | None:
    """Return a number combined over all parts; None if one part does not know it."""
    known = [part[name] for part in parts if part[name] is not None]
    return together(known) if known and len(known) == len(parts) else None
