"""A partition of a view in the pure core, to which tests write messages as the owners of source partitions do."""

from collections.abc import Sequence
from typing import Any

import msgspec
import orjson

from sowline.changes.change import Change
from sowline.changes.partials import Partials, PartialState
from sowline.commands.command import Headers, LogRecord
from sowline.model.position import Position, before_the_log
from sowline_materializer.core.applier import Applier
from sowline_materializer.core.checkpoint import Checkpoint
from sowline_materializer.core.record import decode_record
from sowline_materializer.core.step import Step
from sowline_materializer.store.overlay import Overlay
from sowline_views.core.outgoing import OutgoingPartials
from sowline_views.core.states import states_of
from tests.memory_store import MemoryStore
from tests.property.view_sources import SourceModel
from tests.property.view_world import defined

TOTALS: dict[str, Any] = {
    "grouping": ["/region"],
    "projection": ["SUM(/qty) AS /qty", "COUNT(1) AS /orders"],
}
NORTH, SOUTH = '["north"]', '["south"]'
COMMAND: Headers = [("sow.command", b"partials")]


class ViewCore:
    """Partition 0 of a view, one message after the other."""

    def __init__(self, sources: int = 1, **view: Any) -> None:
        self.definition = defined(view or TOTALS, sources, 1)
        self.store = MemoryStore()
        self.checkpoint = Checkpoint(
            limits=self.definition.limits, log_id="log", definition=self.definition.digest
        )
        self.changes: list[Change] = []

    def apply(self, *messages: Partials) -> Step:
        """Apply messages in one batch, and keep what they make."""
        start = self.checkpoint.next_offset
        return self.apply_records(
            *(LogRecord(start + n, 1000, None, one.encode(), COMMAND) for n, one in enumerate(messages))
        )

    def apply_records(self, *records: LogRecord) -> Step:
        """Apply records of the log."""
        view = Overlay(self.store)
        step = Applier(self.definition, 0, self.checkpoint, view).apply(records)
        pending = view.written(self.store.checksum())
        self.store.commit(pending.entries, pending.checksum, b"", pending.expiries)
        self.checkpoint = step.checkpoint
        self.changes += step.changes
        return step

    def write(self, value: bytes | None, command: str | None, key: bytes | None = None) -> Step:
        """Apply a record of the log that is no message of partial states."""
        headers: Headers = [] if command is None else [("sow.command", command.encode())]
        return self.apply_records(LogRecord(self.checkpoint.next_offset, 1000, key, value, headers))

    @property
    def records(self) -> dict[str, Any]:
        """The records by key text, parsed."""
        held = {key.decode(): decode_record(data) for key, data in self.store.scan()}
        return {key: orjson.loads(one.body) for key, one in held.items() if one.body is not None}

    @property
    def kept(self) -> list[str]:
        """The key texts of all entries, those of hidden records too."""
        return [key.decode() for key, _ in self.store.scan()]

    @property
    def reflected(self) -> dict[int, str]:
        """Up to where the view reflects each source partition."""
        return {source: str(position) for source, position in self.checkpoint.reflected.items()}


class Owner:
    """The owner of a source partition: it writes the messages that its changes make."""

    def __init__(self, core: ViewCore, number: int = 0, sources: int = 1) -> None:
        self.source = SourceModel(number)
        view = core.definition.view
        assert view is not None
        self.states = states_of(view, number)
        self.outgoing = OutgoingPartials(core.definition, number, sources, before_the_log())

    def snapshot(self) -> Partials:
        """Return a snapshot, in one message."""
        ((_, message),) = self.outgoing.write_snapshot(self.states.take_loaded())
        return message

    def write(self, **records: dict[str, Any] | None) -> Partials:
        """Write records to the source, or delete them (None); return the message with all that this does."""
        messages = []
        for key, body in records.items():
            change = self.source.write(key.encode(), body)
            assert change is not None
            messages += [*self.outgoing.take(change.position, self.states.change(change))]
        messages += self.outgoing.flush(also_idle=True)
        ((_, message),) = messages
        return message


def began(sources: int = 1, **view: Any) -> tuple[ViewCore, Owner]:
    """Return a view that reflects an empty source partition 0, and the owner of that."""
    core = ViewCore(sources, **view)
    owner = Owner(core, 0, sources)
    core.apply(owner.snapshot())
    return core, owner


def state(region: str, qty: int, orders: int) -> msgspec.Raw:
    """Return the state of a group of `TOTALS`."""
    exported = [f'["{region}"]', orders, [[orders, 0, qty, 0, 0, 0, 0], orders], None]
    return msgspec.Raw(orjson.dumps(exported))


def message(
    core: ViewCore,
    after: str,
    up_to: str,
    *states: tuple[str, str, msgspec.Raw],
    source: int = 0,
    is_snapshot: bool = False,
    ends: bool = True,
    taken: str = "",
) -> Partials:
    """Return a message with states, each as (position, key text, state)."""
    held = [PartialState(*one) for one in states]
    return Partials(core.definition.digest, source, after, up_to, held, is_snapshot, ends, taken)


def reasons(step: Step) -> list[str]:
    """Return why records were refused."""
    return [letter.reason for letter in step.dead]


class StandInAccelerator:
    """Notes what it is asked to merge and to write. tests/property/test_native_views.py compares the real one."""

    def __init__(self, groups: int | None) -> None:
        self.groups = groups
        """How many groups it merges; None if only Python can."""
        self.asked: list[Any] = []

    def apply(self, records: Sequence[LogRecord], start: int, state: Any) -> int:
        """Apply none of the log records."""
        return start

    def merge_states(self, states: bytes, source: int, reached: Position, state: Any) -> int | None:
        """Return the number of groups."""
        self.asked.append(("merge", states, source, reached))
        return self.groups

    def write_states(self, state: Any, reflects: Any, taken: str | None) -> None:
        """Write nothing."""
        self.asked.append(("write", reflects, taken))


def apply_with(accelerator: StandInAccelerator, core: ViewCore, value: bytes, headers: Headers) -> Step:
    """Apply one message with an accelerator."""
    overlay = Overlay(core.store)
    record = LogRecord(core.checkpoint.next_offset, 1000, None, value, headers)
    return Applier(core.definition, 0, core.checkpoint, overlay, accelerator).apply([record])
