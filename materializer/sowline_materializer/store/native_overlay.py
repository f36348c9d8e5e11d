"""The records of a partition for one batch after the other, kept by the native core, which applies plain commands.

`Overlay` and `sowline_materializer.core` are the specification: whatever the native core does, they do byte for byte
(tests/property/test_native.py). It stops at the first log record that it does not know, and Python applies that one.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import orjson

from sowline.codecs.typed_bodies import TypedBodies
from sowline.commands.command import PARTIALS, CopyOf, LogRecord, Origin
from sowline.config.topic_definition import TopicDefinition
from sowline.language.groups.layout import Template
from sowline.model.body import write_body
from sowline.model.difference import Keys
from sowline.model.log_time import known_log_time
from sowline.model.position import Position, position_of
from sowline_materializer.core.batch_state import BatchState
from sowline_materializer.core.enricher import Enricher
from sowline_materializer.core.forwards import ORIGIN_BYTES
from sowline_materializer.core.record import Record, decode_record, encode_record
from sowline_materializer.core.step import REPEAT, Forward
from sowline_materializer.core.views import GroupBodies
from sowline_materializer.store.checksum import Checksum
from sowline_materializer.store.interface import Store
from sowline_materializer.store.native_format import FORMATS, native_format
from sowline_materializer.store.overlay import PendingWrites
from sowline_materializer.store.write_behind import merged

_U32_MAX: Final = (1 << 32) - 1
_I64_MAX: Final = (1 << 63) - 1


class _CoreTopic(NamedTuple):
    """A topic, as the native core reads it."""

    partitions: int
    domain: bytes
    key_paths: Keys
    has_deltas: bool
    computed: Callable[..., bytes | None] | None
    format: Any
    template: bytes | None
    """The template of documents, if the topic keeps documents."""
    view: "_CoreView | None"


class _CoreView(NamedTuple):
    """How the records of a view are made, as the native core reads it."""

    template: Template | None
    body_of: Callable[[list[bytes]], bytes | None]
    delta_keys: Keys | None


class _CoreLimits(NamedTuple):
    """The limits of a partition, as the native core reads them."""

    record_bytes_max: int
    forwarded_bytes_max: int
    repeat_window: int
    numbers_since: int
    expiration: int | None
    may_expire: bool
    records_max: int | None


class _Given(NamedTuple):
    """The source partition of states, the position up to which it is reflected, and the largest record."""

    source: int
    reached: Position
    record_bytes_max: int


class _Reflection(NamedTuple):
    """The metadata of the last change of a message, as JSON; empty for none."""

    reflects: bytes
    taken: bytes


def plain_key_paths(definition: TopicDefinition) -> Keys | None:
    """Return the key fields of a topic whose plain changes the native core can load; None of any other topic.

    Without key fields, the SOW keys are the Kafka keys.
    """
    return definition.key_rule.paths if definition.has_sow and not definition.documents else None


def is_plain(definition: TopicDefinition) -> bool:
    """Return whether the native core applies a topic's plain commands, those whose keys need no computation.

    Only Python checks that a body computed from a message of another type than JSON is a record of that type.
    """
    rule = definition.key_rule
    has_plain_keys = bool(rule.paths) or (rule.is_supplied and not rule.takes_header)
    is_json = definition.reader is None
    is_known = is_json or (definition.message_type in FORMATS and definition.enrich is None)
    return is_known and definition.preprocess is None and has_plain_keys and definition.has_sow


def _core_view(definition: TopicDefinition) -> _CoreView | None:
    if definition.view is None:
        return None
    bodies = GroupBodies(definition.view)
    has_deltas = definition.declared.delta and definition.has_deltas
    return _CoreView(bodies.template, bodies.body, definition.key_fields if has_deltas else None)


class NativeOverlay:
    """Reads records from `store`, keeps recent ones in memory, and collects the changes of a batch.

    `cache_bytes_max` returns how much memory recent records may take. `module` is `sowline_native`. The topic must be
    plain (`is_plain`). `bodies` reads its messages, if they are not JSON.
    """

    def __init__(
        self,
        module: Any,
        definition: TopicDefinition,
        partition: int,
        store: Store,
        cache_bytes_max: Callable[[], int],
        bodies: TypedBodies | None = None,
    ) -> None:
        stage = definition.enrich
        topic = _CoreTopic(
            definition.partitions,
            definition.declared.domain_prefix,
            definition.key_paths,
            definition.declared.delta and definition.has_deltas,
            None if stage is None else Enricher(definition, stage, partition).computed,
            None if definition.reader is None else native_format(module, definition.reader, bodies),
            write_body(definition.declared.template) if definition.documents else None,
            _core_view(definition),
        )
        self._reader, self._template = definition.limits.schema, definition.limits.template
        self._view = definition.view
        self._core = module.Core(topic, partition, store.get_many, Position)
        self._records_type = module.LogRecords
        self._partitions = definition.partitions
        self._store = store
        self._cache_bytes_max = cache_bytes_max

    def begin(self) -> None:
        """Forget a batch that was not committed."""
        self._core.begin()

    def apply(self, records: Sequence[LogRecord], start: int, state: BatchState) -> int:
        """Apply log records from `start` on, up to the first that only Python can apply; return its index.

        It knows `LogRecords` of the native core only, and only the definition's reader schema and template. If the
        native core panics, nothing of the batch may be kept.
        """
        # Python gives a view its partial states one message at a time, and refuses all other commands
        # (test_other_commands_in_the_log_of_a_view_are_refused).
        is_known = (state.limits.schema, state.limits.template) == (self._reader, self._template)
        if not is_known or self._view is not None or not isinstance(records, self._records_type):
            return start
        limits, share = state.limits, state.limits.share(self._partitions)
        expiration = limits.expiration if isinstance(limits.expiration, int) else None
        numbers = _CoreLimits(
            limits.record_bytes_max,
            # The copy that is forwarded has one more header, and must fit the log of its owner.
            limits.log_bytes_max - ORIGIN_BYTES,
            limits.repeat_window,
            state.numbers_since,
            expiration,
            limits.may_expire,
            share,
        )
        step, first_change = state.out.step, len(state.out.step.changes)
        tombstones, others = list[tuple[int, bytes]](), list[tuple[int, int | None]]()
        noted = list[int]()
        after = self._core.apply(records, start, state, numbers, step.changes, tombstones, others, noted)
        assert start <= after.end <= len(records), "the native core applies a run from the start on"
        state.position, state.last_change = position_of(after.position), position_of(after.last_change)
        assert state.last_change <= state.position, "no change is of a log record that is yet to be applied"
        state.log_time, state.live_records = after.log_time, after.live_records
        assert state.live_records >= 0, "a count of live records is never negative"
        state.origins.update(after.origins)
        for number, owner in others:
            record = records[number]
            if owner is not None:
                origin = CopyOf(state.log_id, Origin(state.partition, record.offset))
                assert owner != state.partition, "a record is forwarded to another partition"
                step.forwards.append(Forward(owner, record, origin))
            step.outcomes[str(record.offset)] = REPEAT if owner is None else f"forwarded {owner}"
        step.others += [records[number] for number in noted]
        step.tombstones += [(known_log_time(time), key) for time, key in tombstones]
        step.commands += Counter(after.commands)
        state.out.report_before(first_change)
        end: int = after.end
        return end

    def merge_states(self, states: bytes, source: int, reached: Position, state: BatchState) -> int | None:
        """Merge partial states of a source partition, a JSON array, that are newer than a position into their groups.

        Return how many groups `write_states` has to write; None if only Python can merge them.
        """
        # A faulty message may name numbers beyond the native core's integers
        # (test_numbers_beyond_the_native_core_are_pythons).
        is_held = 0 <= source <= _U32_MAX and max(reached.era, reached.nth) <= _U32_MAX
        if not is_held or reached.offset > _I64_MAX:
            return None
        given = _Given(source, reached, state.limits.record_bytes_max)
        groups: int | None = self._core.merge_states(states, given)
        return groups

    def write_states(
        self, state: BatchState, reflects: tuple[int, Position] | None, taken: str | None
    ) -> None:
        """Write the groups that were merged. The last change has `reflects` and `taken`."""
        step, first_change = state.out.step, len(state.out.step.changes)
        reflected = b"" if reflects is None else orjson.dumps([reflects[0], str(reflects[1])])
        reflection = _Reflection(reflected, b"" if taken is None else orjson.dumps(taken))
        state.live_records += self._core.write_states(state, reflection, step.changes)
        made = len(step.changes) - first_change
        assert made > 0, "groups that were merged make changes"
        state.index += made
        state.position = state.last_change = step.changes[-1].position
        step.commands[PARTIALS] += made
        state.out.report_before(first_change)

    def get(self, key: bytes) -> Record | None:
        """Return the entry of the SOW key: a record, the tombstone of a deleted record, or None."""
        data = self._core.get(key)
        return None if data is None else decode_record(data)

    def put(self, key: bytes, record: Record | None) -> None:
        """Store the record under a SOW key that was read before; None removes it."""
        self._core.put(key, None if record is None else encode_record(record))

    def scan(self, start: bytes = b"") -> Iterator[tuple[bytes, Record]]:
        """Yield all live records from a SOW key on, in the order of the keys' bytes."""
        return ((key, record) for key, record in self.entries(start) if record.body is not None)

    def entries(self, start: bytes = b"") -> Iterator[tuple[bytes, Record]]:
        """Yield all entries from a SOW key on, those of deleted records too, in the order of the keys' bytes."""
        changed = ((key, data) for key, data in self._core.changed() if key >= start)
        for key, data in merged(changed, self._store.scan(start)):
            yield key, decode_record(data)

    def written(self, checksum: Checksum) -> PendingWrites:
        """Return the writes to commit to a store with these counts; the batch ends."""
        entries, expiries, counts = self._core.written(checksum, self._cache_bytes_max())
        # The native core caches the records itself: cached here as well, they would take the memory twice.
        return PendingWrites(entries, expiries, Checksum(*counts), {}, 0)
