"""The stages of a view, the positions that it reflects of the topics that it reads, and its lag behind them."""

from typing import Any

from sowline.model.bookmark import format_bookmark, parse_bookmark
from sowline.serving.authorization.entitlements import Rights
from sowline.serving.http.topics import described_view
from sowline_query_service.topics.reflected import reflected
from sowline_query_service.topics.state import ServedTopics
from sowline_query_service.topics.topic_state import TopicState


def with_view_stages(
    access_paths: list[dict[str, Any]], state: ServedTopics, rights: Rights
) -> list[dict[str, Any]]:
    """Return the access paths of a query, those of views with their stages and positions.

    The positions are those of now, also for a query at an earlier time.
    """
    return [path | _stages(state, state.topics[path["topic"]], rights) for path in access_paths]


def _stages(state: ServedTopics, topic: TopicState, rights: Rights) -> dict[str, Any]:
    if topic.definition.view is None:
        return {}
    described = described_view(topic.definition, rights)
    reflects = reflects_of(state, topic)
    return {
        **({} if described is None else {"view": described}),
        "reflects": reflects,
        "behind": None if reflects is None else _behind(state, topic, reflects),
    }


def reflects_of(state: ServedTopics, topic: TopicState) -> str | None:
    """Return the bookmark of the topics that a view reads up to which it reflects them; None if it has none."""
    view = topic.definition.view
    if view is None:
        return None
    source = state.topics[view.source].definition
    read = [state.topics[name].definition for name in view.read_topics]
    positions = {one.log: reflected(topic, one, source) for one in read}
    return format_bookmark(positions) if any(positions.values()) else None


def _behind(state: ServedTopics, topic: TopicState, reflects: str) -> int | None:
    """Return how many log records of the topics that a view reads are applied here, and not reflected in the view.

    None if the view does not reflect a partition at all, or an earlier era of its log.
    """
    assert topic.definition.view is not None
    reached = parse_bookmark(reflects)
    behind = 0
    for name in topic.definition.view.read_topics:
        read = state.topics[name]
        positions = reached.get(read.definition.log, {})
        for number, partition in read.partitions.items():
            held = partition.held
            # Offsets of two eras are of two logs: their difference says nothing
            # (test_it_is_not_known_how_far_a_view_is_behind).
            if number not in positions or positions[number].era != held.era:
                return None
            behind += max(0, held.offset - positions[number].offset)
    return behind
