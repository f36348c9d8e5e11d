"""What forwarded commands on a log mean for a definition that puts records into other partitions than the one before.

A partition drops what is forwarded to it from no higher an offset than it has seen from there. A command that is
forwarded for the first time only under the new definition comes behind those that the log holds, and would be lost.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable

from sowline.body import read_object
from sowline.command import DELTA_PUBLISH, PUBLISH, SOW_DELETE, LogRecord, Origin, read_command
from sowline.errors import SowlineError
from sowline.filter import About
from sowline.key import key_text, partition_of
from sowline.topics import TopicDefinition

Log = Callable[[int], Iterable[LogRecord]]
"""Returns the records of a partition's log, from its begin."""


def require_forwards(definition: TopicDefinition, log: Log) -> None:
    """Raise `not supported` where records of the log, applied anew, would be taken for repeats and are none."""
    copies: dict[tuple[int, int], set[int]] = defaultdict(set)
    for number in range(definition.partitions):
        for record in log(number):
            if (origin := _origin(record)) is not None:
                copies[number, origin.partition].add(origin.offset)
    highest = {place: max(offsets) for place, offsets in copies.items()}
    for number in sorted({origin for _, origin in copies}):
        for record in log(number):
            owner = _owner(definition, record)
            place = (owner if owner is not None else number, number)
            if record.offset < highest.get(place, -1) and record.offset not in copies[place]:
                raise SowlineError(
                    "not supported",
                    f"offset {record.offset} of {definition.log} [{number}] belongs in partition {owner} by the new "
                    "definition, to which later ones were forwarded by the old one: applied anew it would be lost. "
                    "Define a new topic, and publish to that",
                )


def _origin(record: LogRecord) -> Origin | None:
    try:
        return read_command(record.headers).origin
    except SowlineError:
        return None


def _owner(definition: TopicDefinition, record: LogRecord) -> int | None:
    """Return the partition of the one record that a command is for; None if it isn't for one, or was forwarded."""
    try:
        command = read_command(record.headers)
        is_for_one = command.filter is None and command.keys is None and command.origin is None
        if command.command not in (PUBLISH, DELTA_PUBLISH, SOW_DELETE) or not is_for_one:
            return None
        if not record.value:
            return partition_of((record.key or b"").decode(), definition.partitions)
        document = read_object(record.value)
        if definition.preprocess is not None:
            about = About(topic=definition.name, size=len(record.value), correlation=command.correlation)
            definition.preprocess.apply(record.value, document, about)
        return partition_of(key_text(document, definition.key_paths), definition.partitions)
    except (SowlineError, UnicodeDecodeError):
        return None
