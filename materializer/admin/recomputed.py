"""Computes the records of a view again, plainly: from all records of its source, without partial states. Pure.

`sowline verify` compares the result with what a view holds. So nothing here comes from the code that keeps a view up
to date (`views/core`, `materializer.core.views`): a mistake there must not be made here, too.
"""

import sys
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import NamedTuple

import orjson

from materializer.core.record import Record
from sowline.config.topics import TopicDefinition
from sowline.config.views import ComputedTopic
from sowline.groups import Groups
from sowline.groups.layout import ResultFields
from sowline.model.key import SUPPLIED_BYTES_MAX, partition_of
from sowline.model.path import Document


class SourceRecord(NamedTuple):
    """A record of a view's source, and the partition that it is in."""

    partition: int
    sow_key: bytes
    record: Record


class _Counted(NamedTuple):
    """A record that matches the filter of the view, and its document."""

    source: SourceRecord
    document: Document


def recomputed(
    definition: TopicDefinition, partition: int, sources: Iterable[SourceRecord]
) -> Iterator[tuple[bytes, bytes]]:
    """Yield the SOW key and the body of each record of a partition of a view without joins, in any order.

    `sources` are all records of its source.
    """
    view = definition.view
    assert view is not None
    having = view.result_filter
    made = _groups if view.grouping_paths else _single_records
    for key_text, body in made(view, _counted(view, sources)):
        if partition_of(key_text, definition.partitions) != partition:
            continue
        if having is None or having.matches(orjson.loads(body)):
            yield definition.key_rule.sow_key(key_text), body


def _counted(view: ComputedTopic, sources: Iterable[SourceRecord]) -> Iterator[_Counted]:
    condition = view.record_filter
    for source in sources:
        if source.record.body is None:
            continue
        document = orjson.loads(source.record.body)
        if condition is None or condition.matches(document):
            yield _Counted(source, document)


def _groups(view: ComputedTopic, counted: Iterable[_Counted]) -> Iterator[tuple[str, bytes]]:
    """Yield the key text and the body of each group."""
    fields = view.projected
    assert fields is not None, "a grouping has a projection"
    groups = Groups(view.name, view.grouping_paths, fields, groups_max=sys.maxsize)
    texts: dict[bytes, bytes] = {}
    for (partition, sow_key, record), document in counted:
        order = record.time, partition, record.position
        for made in groups.change(sow_key, None, document, order):
            texts[made.sow_key] = made.key
    for sow_key, body in groups.records():
        text = texts[sow_key]
        is_long = len(text) > SUPPLIED_BYTES_MAX
        yield f"#{blake2b(text, digest_size=16).hexdigest()}" if is_long else text.decode(), body


def _single_records(view: ComputedTopic, counted: Iterable[_Counted]) -> Iterator[tuple[str, bytes]]:
    """Yield the key text and the body of each record."""
    shown = view.projected
    fields = (
        None if shown is None else ResultFields((field.output, field.expression) for field in shown.fields)
    )
    for (_, sow_key, record), document in counted:
        assert record.body is not None, "it was counted"
        yield sow_key.decode(), record.body if fields is None else fields.of(document)
