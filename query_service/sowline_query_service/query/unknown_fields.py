"""Warns about fields that a query names and no record has: most often a typing error, which finds nothing."""

from collections.abc import Sequence
from difflib import get_close_matches

from sowline.model.path import Path
from sowline_query_service.query.field_sample import sampled_paths
from sowline_query_service.query.selection import Selection
from sowline_query_service.topics.topic_state import TopicState

SUGGESTED_RECORDS = 200
"""Records to read for the names of existing fields."""


def warnings_of(topics: Sequence[TopicState], selection: Selection) -> list[str]:
    """Return a sentence for each field of the filter or the order that no record of these topics has ever had.

    Only the memo indexes that the query uses can tell. A user who may not see some records gets no warnings, because
    they would reveal which fields the hidden records have.
    """
    if selection.hides or selection.sow_keys:
        return []
    filled = [topic for topic in topics if len(topic.rows)]
    if not filled:
        return []
    unknown = [topic.indexes.blank_paths(selection.filter, selection.order) for topic in filled]
    everywhere = frozenset[Path].intersection(*unknown)
    if not everywhere:
        return []
    # Only readable fields: a suggestion must not reveal the name of another one
    # (test_no_field_that_may_not_be_read_is_suggested).
    names = sorted(
        {
            path
            for topic in filled
            for path in sampled_paths(topic.rows, SUGGESTED_RECORDS, selection.readable)
        }
    )
    return [
        _sentence(str(path), names) for path in sorted(everywhere, key=str) if not _is_among(str(path), names)
    ]


def _is_among(path: str, names: Sequence[str]) -> bool:
    """Whether a field exists without a value that a filter could find: an object, or null in each record."""
    return any(name == path or name.startswith((f"{path}/", f"{path}[")) for name in names)


def _sentence(path: str, names: Sequence[str]) -> str:
    near = get_close_matches(path, names, 1, 0.6)
    question = f"; did you mean {near[0]}?" if near else ""
    return f"unknown field {path}: no record has a value there{question}"
