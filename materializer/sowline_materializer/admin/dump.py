"""A partition's state as lines of JSON, the same from each source: the checkpoint, then records in SOW-key order."""

from collections.abc import Iterator
from typing import Any

import msgspec
import orjson

from sowline.changes.partials import reflected_fields
from sowline.config.topic_definition import TopicDefinition
from sowline_materializer.admin.offline_copy import OfflineCopy
from sowline_materializer.core.checkpoint import Checkpoint
from sowline_materializer.core.record import Record


def dump_lines(definition: TopicDefinition, partition: int, copy: OfflineCopy) -> Iterator[bytes]:
    """Yield the lines of a copy, each without its end."""
    yield orjson.dumps(checkpoint_fields(definition, partition, copy.checkpoint))
    for key, record in copy.records():
        yield orjson.dumps(record_fields(key, record))


def checkpoint_fields(definition: TopicDefinition, partition: int, checkpoint: Checkpoint) -> dict[str, Any]:
    """Return the fields of the checkpoint, without those that depend on its source."""
    fields = {
        "topic": definition.name,
        "partition": partition,
        "position": str(checkpoint.position),
        "last_change": str(checkpoint.last_change),
        "time": checkpoint.time,
        "records": checkpoint.records,
        "origins": {str(number): offset for number, offset in sorted(checkpoint.origins.items())},
        "definition": checkpoint.definition,
        "limits": checkpoint.limits.fields(),
        "numbers_since": checkpoint.numbers_since,
    }
    if definition.view is not None:
        fields |= reflected_fields(checkpoint.reflected, checkpoint.taken)
    return fields


def record_fields(key: bytes, record: Record) -> dict[str, Any]:
    """Return a record by its fields; one without `data` is deleted, and remembered."""
    fields: dict[str, Any] = {
        "sow_key": key.decode(),
        "key": record.key_text,
        "position": str(record.position),
        "time": record.time,
        "expires": record.expires,
        "numbers": dict(sorted((record.numbers or {}).items())) or None,
        "correlation": record.correlation,
    }
    if record.schema_id is not None:
        fields["schema_id"] = record.schema_id
    if record.states is not None:
        fields["states"] = record.states.decode()
    if record.writes is not None:
        fields["writes"] = msgspec.to_builtins(record.writes)
    return fields if record.body is None else fields | {"data": orjson.Fragment(record.body)}
