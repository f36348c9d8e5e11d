"""The schemas that messages name: found out before the messages are applied, and written to `<log>.schemas` first.

A partition whose messages name a schema about which it knows nothing is paused until the registry has answered; the
others continue. No answer of the registry is used before it is in the partition's part of `<log>.schemas`, and there
the first entry counts: a replay needs no registry, and every owner reads the same.
"""

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

import structlog
from confluent_kafka import Consumer, TopicPartition

from sowline.codecs.codec import codec_of
from sowline.codecs.resolutions import Resolution, entry_value, id_key, reader_key
from sowline.codecs.typed_bodies import TypedBodies
from sowline.commands.command import DEFINE, LogRecord
from sowline.config.kafka_options import KafkaConfig
from sowline.config.topic_definition import TopicDefinition
from sowline.errors import SowlineError
from sowline.registry.client import Registry, RegistryAway, resolved
from sowline_materializer.emitter import Emitter
from sowline_materializer.partition.kafka_partition import PartitionReader
from sowline_materializer.partition.partition import PartitionId
from sowline_materializer.worker.owned import OwnedPartitions

log = structlog.get_logger()

AGAIN_SECONDS: Final = 1.0
"""How long after a failure the registry is asked again."""

UNKNOWN: Final = Resolution(None)

_DEFINE: Final = ("sow.command", DEFINE.encode())

Batches = Mapping[PartitionId, Sequence[LogRecord]]


class RegistryQuestions:
    """Asks a registry for schemas by their ids, in a thread: nothing waits for it."""

    def __init__(self, registry: Registry | None) -> None:
        self._registry = registry
        self._pool = ThreadPoolExecutor(1, "registry")
        self._asked: dict[int, Future[Resolution]] = {}
        self._again_at: dict[int, float] = {}
        self.away: str | None = None
        """Why the registry gave no answer; None if it gave one to the last question."""

    def answer(self, schema_id: int) -> Resolution | None:
        """Return the answer if it is there; otherwise ask, if that has not happened."""
        if self._registry is None:
            return UNKNOWN
        asked = self._asked.get(schema_id)
        if asked is None:
            if time.monotonic() >= self._again_at.get(schema_id, 0.0):
                self._asked[schema_id] = self._pool.submit(resolved, self._registry, schema_id)
            return None
        if not asked.done():
            return None
        del self._asked[schema_id]
        try:
            found = asked.result()
        except RegistryAway as error:
            if self.away is None:
                log.warning("waiting for the schema registry", schema=schema_id, why=error.message)
            self.away = error.message
            self._again_at[schema_id] = time.monotonic() + AGAIN_SECONDS
            return None
        self.away = None
        self._again_at.pop(schema_id, None)
        return found

    def close(self) -> None:
        """End the thread; a question that is under way ends first."""
        self._pool.shutdown(cancel_futures=True)
        if self._registry is not None:
            self._registry.close()


class Schemas:
    """The schemas that the partitions of a worker know, and the messages that wait for others."""

    def __init__(
        self, kafka: KafkaConfig, owned: OwnedPartitions, emitter: Emitter, registry: Registry | None
    ) -> None:
        self._kafka = kafka
        self._owned = owned
        self._emitter = emitter
        self._questions = RegistryQuestions(registry)
        self._waiting: dict[PartitionId, list[LogRecord]] = {}
        self._look_at: dict[PartitionId, float] = {}

    def opened(self, partition_id: PartitionId, held_reader: str | None) -> TypedBodies | None:
        """Return what reads the bodies of a partition that is being opened; None for JSON.

        The definition's reader schema is in `<log>.schemas` after that. Raise `schema missing` if `held_reader`, the
        digest of the state's, is not, and `incompatible schema` if the definition's can't read records stored under
        it.
        """
        definition = self._owned.definitions[partition_id[0]]
        reader = PartitionReader(self._kafka, definition, partition_id[1])
        bodies = reader.bodies()
        if bodies is None or definition.reader is None:
            return None
        pinned = definition.reader
        if bodies.resolutions.reader(pinned.digest) is None:
            self._write(reader, bodies, {reader_key(pinned.digest): Resolution(pinned)})
        held = None if held_reader is None else bodies.resolutions.reader(held_reader)
        if held is None:
            raise SowlineError(
                "schema missing",
                f"expected the reader schema {held_reader} of the state in {definition.kafka.schema_log}, found none:"
                " name the schema that the state was made with as the reader_schema in topics.yaml",
            )
        if held != pinned:
            codec_of(pinned).check_reads(held)
        return bodies

    def take_ready(self, consumer: Consumer, batches: Batches) -> Batches:
        """Return the batches that can be applied. The others wait, and their partitions are paused."""
        if all(self._owned.partitions[one].bodies is None for one in batches):
            return batches
        ready = {}
        for partition_id, records in batches.items():
            with self._owned.guarded(partition_id):
                self._read_for_define(partition_id, records)
                # Messages that can be read must not overtake earlier ones that wait
                # (test_messages_wait_until_the_registry_answers).
                if partition_id in self._waiting or not self._resolve(partition_id, records):
                    if partition_id not in self._waiting:
                        consumer.pause([TopicPartition(*partition_id)])
                    self._waiting.setdefault(partition_id, []).extend(records)
                else:
                    ready[partition_id] = records
        return ready

    def release(self, consumer: Consumer) -> Batches:
        """Return the batches that can be applied now; their partitions continue."""
        ready = {}
        for partition_id, records in self._waiting.items():
            with self._owned.guarded(partition_id):
                if partition_id in self._owned.partitions and self._resolve(partition_id, records):
                    ready[partition_id] = records
        for partition_id in ready:
            del self._waiting[partition_id]
            consumer.resume([TopicPartition(*partition_id)])
        return ready

    def _read_for_define(self, partition_id: PartitionId, records: Sequence[LogRecord]) -> None:
        """Read the entries again if a `define` is among the records."""
        bodies = self._owned.partitions[partition_id].bodies
        # The next owner may have written a new reader schema and its `define`, before this one knows that it was
        # replaced. Without the schema it would refuse the command and continue under the previous one
        # (test_a_replaced_owner_reads_the_schema_of_a_define).
        if bodies is not None and any(record.headers and _DEFINE in record.headers for record in records):
            definition = self._owned.definitions[partition_id[0]]
            PartitionReader(self._kafka, definition, partition_id[1]).read_schemas(bodies.resolutions)

    def _resolve(self, partition_id: PartitionId, records: Sequence[LogRecord]) -> bool:
        """Find out what the messages need; return whether everything is known."""
        bodies = self._owned.partitions[partition_id].bodies
        if bodies is None:
            return True
        definition = self._owned.definitions[partition_id[0]]
        missing = bodies.unresolved(record.value for record in records)
        if not missing:
            return True
        # A previous owner may write an entry after this one has read them. With the registry away, the messages would
        # wait for an answer that is there already (test_example_with_schemas).
        if (now := time.monotonic()) >= self._look_at.get(partition_id, 0.0):
            self._look_at[partition_id] = now + AGAIN_SECONDS
            PartitionReader(self._kafka, definition, partition_id[1]).read_schemas(bodies.resolutions)
            missing = bodies.unresolved(record.value for record in records)
        found = {one: self._known(definition, one) or self._questions.answer(one) for one in missing}
        entries = {id_key(one): answer for one, answer in found.items() if answer is not None}
        if entries:
            self._write(PartitionReader(self._kafka, definition, partition_id[1]), bodies, entries)
        return len(entries) == len(missing)

    def _known(self, definition: TopicDefinition, schema_id: int) -> Resolution | None:
        """Return a schema that the definition itself names."""
        schema, pinned = definition.schema_named(schema_id), definition.declared.reader_schema
        if schema is None:
            return None
        return Resolution(
            schema, pinned.subject if pinned is not None and schema is definition.reader else ""
        )

    def _write(
        self, reader: PartitionReader, bodies: TypedBodies, entries: Mapping[bytes, Resolution]
    ) -> None:
        """Write entries, and read them back: another owner's may be first."""
        values = [(key, entry_value(resolution)) for key, resolution in entries.items()]
        self._emitter.schemas(reader.schema_log, reader.number, values)
        reader.read_schemas(bodies.resolutions)

    def forget(self, partition_id: PartitionId) -> None:
        """Drop the waiting messages of a partition that this worker loses; its next owner reads them again."""
        self._waiting.pop(partition_id, None)
        self._look_at.pop(partition_id, None)

    def is_waiting(self, partition_id: PartitionId) -> bool:
        """Whether messages of the partition wait for a schema."""
        return partition_id in self._waiting

    def waiting(self) -> dict[PartitionId, str]:
        """Return why partitions wait; safe to call from any thread."""
        why = self._questions.away or "the registry has not answered yet"
        return dict.fromkeys(list(self._waiting), f"waiting for the schema registry: {why}")

    def close(self) -> None:
        """End the thread that asks the registry."""
        self._questions.close()
