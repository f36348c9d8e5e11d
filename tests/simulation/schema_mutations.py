"""Small mistakes about schemas, as somebody might make them in the services."""

from typing import Any
from unittest.mock import patch

from confluent_kafka import TopicPartition

from sowline.codecs.resolutions import Resolution, Resolutions, entry_value
from sowline.registry.client import RegistryAway, resolved
from sowline_materializer.core.bodies import RecordBodies
from sowline_materializer.core.definer import Definer
from sowline_materializer.worker import schemas
from sowline_materializer.worker.schemas import UNKNOWN, Schemas
from tests.simulation.mistake import Mistake, mistakes_in

_add = Resolutions.add


def _last_schema_entry_counts() -> list[Any]:
    def add(self: Resolutions, key: bytes | None, value: bytes | None) -> None:
        known = dict(self._writers)
        self._writers.clear()
        _add(self, key, value)
        self._writers = known | self._writers

    return [patch.object(Resolutions, "add", add)]


def _schema_used_before_it_is_written() -> list[Any]:
    def write(self: Schemas, reader: Any, bodies: Any, entries: Any) -> None:
        values = [(key, entry_value(resolution)) for key, resolution in entries.items()]
        for key, value in values:
            bodies.resolutions.add(key, value)
        for key, value in values:
            self._emitter._produce(reader.schema_log, value, key, reader.number, None)

    return [patch.object(Schemas, "_write", write)]


def _schema_entries_not_read_back() -> list[Any]:
    def write(self: Schemas, reader: Any, bodies: Any, entries: Any) -> None:
        values = [(key, entry_value(resolution)) for key, resolution in entries.items()]
        self._emitter.schemas(reader.schema_log, reader.number, values)
        for key, value in values:
            bodies.resolutions.add(key, value)

    return [patch.object(Schemas, "_write", write)]


def _registry_that_is_away_knows_nothing() -> list[Any]:
    def guessed(registry: Any, schema_id: int) -> Resolution:
        try:
            return resolved(registry, schema_id)
        except RegistryAway:
            return UNKNOWN

    return [patch.object(schemas, "resolved", guessed)]


def _waiting_messages_dropped() -> list[Any]:
    def release(self: Schemas, consumer: Any) -> Any:
        for partition_id in [one for one, records in self._waiting.items() if self._resolve(one, records)]:
            del self._waiting[partition_id]
            consumer.resume([TopicPartition(*partition_id)])
        return {}

    return [patch.object(Schemas, "release", release)]


def _waiting_partition_not_paused() -> list[Any]:
    def take_ready(self: Schemas, consumer: Any, batches: Any) -> Any:
        found = {one: records for one, records in batches.items() if self._resolve(one, records)}
        for partition_id in batches.keys() - found.keys():
            self._waiting.setdefault(partition_id, []).extend(batches[partition_id])
        return found

    return [patch.object(Schemas, "take_ready", take_ready)]


def _define_without_its_reader() -> list[Any]:
    return [patch.object(Definer, "_next_reader", lambda self, was, now: self._state.limits.schema)]


def _delta_merged_into_the_old_form() -> list[Any]:
    return [patch.object(RecordBodies, "upgraded", lambda self, body: body)]


SCHEMA_MISTAKES: dict[str, Mistake] = mistakes_in(globals())
"""Each mistake, by what it is."""
