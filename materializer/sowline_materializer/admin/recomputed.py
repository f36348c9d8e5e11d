"""Computes the records of a view again, plainly: from all records of its source, without partial states. Pure.

`sowline verify` compares the result with what a view holds. So nothing here comes from the code that keeps a view up
to date (`views/sowline_views/core`, `sowline_materializer.core.views`): a mistake there must not be made here, too.
"""

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import orjson

from sowline.config.topic_definition import TopicDefinition
from sowline.config.views import ComputedTopic, Join
from sowline.errors import SowlineError
from sowline.language.groups import Groups
from sowline.language.groups.layout import ResultFields, grouped_value
from sowline.model.body import write_body
from sowline.model.key import SUPPLIED_BYTES_MAX, key_text, partition_of
from sowline.model.path import Document, reader
from sowline_materializer.core.record import Record


class SourceRecord(NamedTuple):
    """A record of a view's source, and the partition that it is in."""

    partition: int
    sow_key: bytes
    record: Record


class JoinedRecords:
    """The records of a joined topic, by the fields that the join compares."""

    def __init__(self, join: Join, topic: TopicDefinition, records: Iterable[tuple[bytes, Record]]) -> None:
        self.join = join
        # The grouping fields of a view are compared as values, all others as key texts.
        self._is_grouped = topic.identity.view is not None and not join.multiply
        self._ours = [reader(ours) for ours, _ in join.equalities]
        theirs = [reader(theirs) for _, theirs in join.equalities]
        self._by_text: defaultdict[str, list[tuple[bytes, bytes]]] = defaultdict(list)
        for sow_key, record in records:
            if record.body is None:
                continue
            text = self._text([read(orjson.loads(record.body)) for read in theirs])
            if text is not None:
                self._by_text[text].append((sow_key, record.body))

    def _text(self, values: list[Any]) -> str | None:
        if self._is_grouped:
            return orjson.dumps([grouped_value(value) for value in values]).decode()
        named = {str(number): value for number, value in enumerate(values)}
        try:
            return key_text(named, [(name,) for name in named])
        except SowlineError:  # NULL, fractions, objects and arrays can't be keys
            return None

    def matches(self, document: Document) -> list[tuple[bytes, bytes]]:
        """Return the SOW key and the body of each record that belongs to a record of the source."""
        text = self._text([read(document) for read in self._ours])
        return [] if text is None else sorted(self._by_text.get(text, ()))


class ViewRow(NamedTuple):
    """A record of the source with one combination of the records that belong to it, and the key text of both."""

    source: SourceRecord
    key_text: str
    document: Document


def rows_of(sources: Iterable[SourceRecord], joined: Sequence[JoinedRecords] = ()) -> Iterator[ViewRow]:
    """Yield the rows that records of the source make."""
    for source in sources:
        if source.record.body is None:
            continue
        rows: list[tuple[list[str | None], Document]] = [
            ([source.sow_key.decode()], orjson.loads(source.record.body))
        ]
        for one in joined:
            rows = [more for keys, document in rows for more in _with_each_match(one, keys, document)]
        for keys, document in rows:
            yield ViewRow(source, str(keys[0]) if len(keys) == 1 else _short(orjson.dumps(keys)), document)


def _with_each_match(
    joined: JoinedRecords, keys: list[str | None], document: Document
) -> Iterator[tuple[list[str | None], Document]]:
    join = joined.join
    matches = joined.matches(document)
    for sow_key, body in matches:
        more = [sow_key.decode()] if join.multiply else []
        yield [*keys, *more], {**document, join.name: orjson.loads(body)}
    # The source record may have a field with the join's name, which must not look like a joined record.
    if not matches and join.kind == "left":
        alone = {name: value for name, value in document.items() if name != join.name}
        yield [*keys, *([None] if join.multiply else [])], alone


def recomputed(
    definition: TopicDefinition, partition: int, rows: Iterable[ViewRow]
) -> Iterator[tuple[bytes, bytes]]:
    """Yield the SOW key and the body of each record of a partition of a view, in any order.

    `rows` are those of all records of its source.
    """
    view = definition.view
    assert view is not None
    condition, having = view.record_filter, view.result_filter
    counted = (row for row in rows if condition is None or condition.matches(row.document))
    made = _groups if view.grouping_paths else _single_records
    for text, body in made(view, counted):
        if partition_of(text, definition.partitions) != partition:
            continue
        if having is None or having.matches(orjson.loads(body)):
            yield definition.key_rule.sow_key(text), body


def _groups(view: ComputedTopic, counted: Iterable[ViewRow]) -> Iterator[tuple[str, bytes]]:
    """Yield the key text and the body of each group."""
    fields = view.projected
    assert fields is not None, "a grouping has a projection"
    groups = Groups(view.name, view.grouping_paths, fields, groups_max=sys.maxsize)
    texts: dict[bytes, bytes] = {}
    for (partition, _, record), key, document in counted:
        order = record.time, partition, record.position
        for made in groups.change(key.encode(), None, document, order):
            texts[made.sow_key] = made.key
    for sow_key, body in groups.records():
        yield _short(texts[sow_key]), body


def _short(text: bytes) -> str:
    """Return a JSON array as a key text: a hash if it is long."""
    is_long = len(text) > SUPPLIED_BYTES_MAX
    return f"#{blake2b(text, digest_size=16).hexdigest()}" if is_long else text.decode()


def _single_records(view: ComputedTopic, counted: Iterable[ViewRow]) -> Iterator[tuple[str, bytes]]:
    """Yield the key text and the body of each record."""
    shown = view.projected
    fields = (
        None if shown is None else ResultFields((field.output, field.expression) for field in shown.fields)
    )
    for source, key, document in counted:
        if fields is not None:
            yield key, fields.of(document)
        else:
            assert source.record.body is not None, "it makes a row"
            yield key, write_body(document) if view.joins else source.record.body
