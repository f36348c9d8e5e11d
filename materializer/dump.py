"""A partition's state as lines of JSON, the same on each road: the head first, then the records in SOW-key order."""

from collections.abc import Iterator
from typing import Any

import msgspec
import orjson

from materializer.aside import Copy
from materializer.head import Head
from materializer.record import Record
from sowline.topics import TopicDefinition


def dump_lines(definition: TopicDefinition, partition: int, copy: Copy) -> Iterator[bytes]:
    """Yield the lines of a copy, each without its end."""
    yield orjson.dumps(head_fields(definition, partition, copy.head))
    for key, record in copy.records():
        yield orjson.dumps(record_fields(key, record))


def head_fields(definition: TopicDefinition, partition: int, head: Head) -> dict[str, Any]:
    """Return what the head says of the state, and not of what has become of it on its road."""
    return {
        "topic": definition.name,
        "partition": partition,
        "position": str(head.position),
        "last_change": str(head.last_change),
        "time": head.time,
        "records": head.records,
        "origins": {str(number): offset for number, offset in sorted(head.origins.items())},
        "definition": head.definition,
        "limits": head.limits.fields(),
        "numbers_since": head.numbers_since,
    }


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
    if record.writes is not None:
        fields["writes"] = msgspec.to_builtins(record.writes)
    return fields if record.body is None else fields | {"data": orjson.Fragment(record.body)}
