"""The schemas of a topic: its reader schemas, and those that messages have named, over all partitions."""

import asyncio
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from confluent_kafka import KafkaException

from sowline.codecs.compatibility import why_unreadable
from sowline.codecs.resolutions import Resolution, Resolutions
from sowline.codecs.schema import Schema
from sowline.config.kafka_options import KafkaConfig
from sowline.config.topic_definition import TopicDefinition
from sowline.errors import SowlineError
from sowline.kafka.schema_log import read_schema_log

State = Literal["readable", "unknown", "incompatible"]


class NamedSchema(NamedTuple):
    """A schema id that messages have named, and the partitions that know the same about it."""

    id: int
    resolution: Resolution
    partitions: tuple[int, ...]
    state: State
    problem: str
    """Why messages with the id can't be read; empty if they can."""


class PastReader(NamedTuple):
    """A reader schema that the topic has or has had, and the partitions that know it."""

    schema: Schema
    partitions: tuple[int, ...]


def named_schemas(reader: Schema, known: Mapping[int, Resolutions]) -> list[NamedSchema]:
    """Return the schemas that messages have named, by subject, version and id.

    An id is there twice if two partitions know different things about it: the first answer counts in each.
    """
    partitions: dict[tuple[int, Resolution], list[int]] = {}
    for number, resolutions in known.items():
        for schema_id, resolution in resolutions.writers.items():
            partitions.setdefault((schema_id, resolution), []).append(number)
    found = [
        NamedSchema(schema_id, resolution, tuple(numbers), *_state(reader, resolution))
        for (schema_id, resolution), numbers in partitions.items()
    ]
    return sorted(
        found, key=lambda one: (one.resolution.subject, one.resolution.version, one.id, one.partitions)
    )


def past_readers(known: Mapping[int, Resolutions]) -> list[PastReader]:
    """Return the reader schemas that the partitions know, in the order of the partitions' entries."""
    partitions: dict[Schema, list[int]] = {}
    for number, resolutions in known.items():
        for schema in resolutions.readers.values():
            partitions.setdefault(schema, []).append(number)
    return [PastReader(schema, tuple(numbers)) for schema, numbers in partitions.items()]


def _state(reader: Schema, resolution: Resolution) -> tuple[State, str]:
    writer = resolution.schema
    if resolution.problem:
        return "incompatible", resolution.problem
    if writer is None:
        return "unknown", "the registry had no such schema when a message first named it"
    problem = why_unreadable(reader, writer)
    return "incompatible" if problem else "readable", problem


async def described_schemas(kafka: KafkaConfig, definition: TopicDefinition) -> dict[str, Any]:
    """Return the schemas of a topic as JSON; none for a JSON topic. Raise `not ready` if Kafka does not answer."""
    try:
        return await asyncio.to_thread(_described, kafka, definition)
    except (KafkaException, TimeoutError) as error:
        raise SowlineError(
            "not ready", f"Kafka did not deliver {definition.kafka.schema_log}: {error}; try again"
        ) from None


def _described(kafka: KafkaConfig, definition: TopicDefinition) -> dict[str, Any]:
    reader, pinned = definition.reader, definition.declared.reader_schema
    named: list[NamedSchema] = []
    readers: list[PastReader] = []
    if reader is not None:
        known = read_schema_log(kafka, definition)
        named, readers = named_schemas(reader, known), past_readers(known)
    return {
        "topic": definition.name,
        "message_type": definition.message_type,
        "reader_schema": reader
        and pinned
        and {**_schema(reader), "id": pinned.id, "subject": pinned.subject},
        "reader_schemas": [
            {**_schema(schema), "partitions": list(partitions)} for schema, partitions in readers
        ],
        "schemas": [
            {
                "id": one.id,
                "subject": one.resolution.subject,
                "version": one.resolution.version or None,
                "partitions": list(one.partitions),
                "state": one.state,
                "problem": one.problem,
                "schema": one.resolution.schema and _schema(one.resolution.schema),
            }
            for one in named
        ],
    }


def _schema(schema: Schema) -> dict[str, Any]:
    return {
        "type": schema.type,
        "text": schema.text,
        "references": dict(schema.references),
        "message": schema.message,
        "digest": schema.digest,
    }
