"""Checks whether the forwarded commands on a log allow a rebuild that puts records into other partitions.

A partition drops a forwarded record unless its offset is higher than all that it has seen from the same origin. A
command that is forwarded for the first time under the new definition comes after those that the log holds, and would
be lost.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable

from sowline.codecs.resolutions import Resolution, entry_value, reader_key
from sowline.codecs.typed_bodies import TypedBodies
from sowline.commands.command import DELTA_PUBLISH, PUBLISH, SOW_DELETE, LogRecord, Origin, read_command
from sowline.commands.key_generator import Appended
from sowline.config.command_key import named_key, owner_of, read_body
from sowline.config.topic_definition import TopicDefinition
from sowline.errors import SowlineError
from sowline.model.log_time import times_after

Log = Callable[[int], Iterable[LogRecord]]
"""Returns the records of a partition's log, from its beginning."""


def require_forwards(
    definition: TopicDefinition, log_id: str, log: Log, bodies: Callable[[int], TypedBodies | None]
) -> None:
    """Raise `not supported` if records of the log, applied again, would be dropped as repeats although they are none.

    Copies whose origin is not in the log with Kafka's id `log_id` don't count: they are dropped. `bodies` returns
    what reads a partition of the log, if its message type has schemas.
    """
    copies: dict[tuple[int, int], set[int]] = defaultdict(set)
    for number in range(definition.partitions):
        for record in log(number):
            if (origin := _origin(record, log_id)) is not None:
                copies[number, origin.partition].add(origin.offset)
    highest = {pair: max(offsets) for pair, offsets in copies.items()}
    for number in sorted({origin for _, origin in copies}):
        log_time, reading = 0, _with_reader(definition, bodies(number))
        for record in log(number):
            log_time, time = times_after(log_time, record.time, record.time_type)
            owner = _owner(definition, record, Appended(time, number, record.offset), reading)
            pair = (owner if owner is not None else number, number)
            if record.offset < highest.get(pair, -1) and record.offset not in copies[pair]:
                raise SowlineError(
                    "not supported",
                    f"offset {record.offset} of {definition.log} [{number}] belongs in partition {owner} by the new "
                    "definition, to which later ones were forwarded by the old one: applied again it would be lost. "
                    "Define a new topic, and publish to that",
                )


def _origin(record: LogRecord, log_id: str) -> Origin | None:
    try:
        copy = read_command(record.headers).origin
    except SowlineError:
        return None
    return copy.source if copy is not None and copy.log_id == log_id else None


def _with_reader(definition: TopicDefinition, bodies: TypedBodies | None) -> TypedBodies | None:
    """Add the reader schema of the new definition, which no owner has written yet."""
    if bodies is not None and definition.reader is not None:
        pinned = definition.reader
        bodies.resolutions.add(reader_key(pinned.digest), entry_value(Resolution(pinned)))
    return bodies


def _owner(
    definition: TopicDefinition, record: LogRecord, appended: Appended, bodies: TypedBodies | None
) -> int | None:
    """Return the partition of the one record that a command is for; None if it isn't for one, or was forwarded."""
    try:
        command = read_command(record.headers)
        is_for_one = command.filter is None and command.keys is None and command.origin is None
        if command.command not in (PUBLISH, DELTA_PUBLISH, SOW_DELETE) or not is_for_one:
            return None
        if bodies is not None and definition.reader is not None and record.value:
            body = read_body(bodies, record.value, definition.reader.digest, command).body
            record = LogRecord(record.offset, record.time, record.key, body, record.headers)
        return owner_of(definition, named_key(definition, record, command, lambda *_: appended))
    except SowlineError:
        return None
