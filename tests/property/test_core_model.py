"""The pure core, its recovery, its followers and its subscribers against a perfect model, whatever happens."""

from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from sowline.changes.change import AGAIN
from sowline.commands.command import Headers, joined_keys
from sowline.model.key import partition_of
from sowline.model.position import Position
from tests.examples import examples
from tests.property.checked_core import CheckedCore
from tests.property.core_writes import (
    WINDOW,
    bad_headers,
    bodies,
    encoded,
    far_offsets,
    foreign_headers,
    ids,
    lifetimes,
    limits,
    malformed,
    numbers,
    other_logs,
    publishers,
)
from tests.property.model import FILTERS, Body
from tests.property.world import changes_of


class CoreAgainstModel(CheckedCore):
    """Writers, owners, crashes, lost disks and late writers in any order; then everything must add up."""

    # writers

    def _write(
        self,
        key: str | None,
        value: bytes | None,
        headers: Headers,
        number: tuple[str, str] | None,
        misplaced: int | None,
    ) -> None:
        if number is not None:
            headers = [
                *headers,
                ("sow.publisher", number[0].encode()),
                ("sow.sequence", number[1].encode()),
            ]
        count = self.partitions
        partition = partition_of(key, count) if key is not None and misplaced is None else misplaced or 0
        self.world.write(partition % count, value, None if key is None else key.encode(), headers)

    @rule(
        some=st.lists(bodies, min_size=1, max_size=4),
        delta=st.booleans(),
        number=publishers,
        more=foreign_headers,
        slot=st.none() | numbers,
        lifetime=lifetimes,
    )
    def write_records(
        self, some: list[Body], delta: bool, number: Any, more: Any, slot: int | None, lifetime: str | None
    ) -> None:
        """Publish records, whole or as deltas, in their partition or elsewhere, for ever or for a while."""
        headers = [*more, ("sow.command", b"delta_publish")] if delta else more
        if lifetime is not None:
            headers = [*headers, ("sow.expiration", lifetime.encode())]
        for body in some:
            self._write(self.key_of(body["id"]), encoded(body), headers, number, slot)

    @rule(
        selector=st.sampled_from([("sow.filter", text) for text in FILTERS])
        | st.lists(ids, min_size=1, max_size=3),
        number=publishers,
        slot=numbers,
    )
    def delete_selected(self, selector: Any, number: Any, slot: int) -> None:
        """Delete what matches a filter, or what SOW keys name."""
        if isinstance(selector, list):
            keys = [self.sow_key(self.key_of(key)).decode() for key in selector]
            selector = ("sow.keys", joined_keys([*keys, "77"]))
        headers = [("sow.command", b"sow_delete"), (selector[0], selector[1].encode())]
        self._write(None, None, headers, number, slot)

    @rule(key=ids, by_data=st.booleans(), number=publishers, slot=st.none() | numbers)
    def delete_named(self, key: Any, by_data: bool, number: Any, slot: int | None) -> None:
        """Delete a record by its data, or by a tombstone."""
        if by_data:
            self._write(
                self.key_of(key), encoded({"id": key}), [("sow.command", b"sow_delete")], number, slot
            )
        else:
            self._write(self.key_of(key), None, [], number, slot)

    @rule(value=malformed, header=st.none() | bad_headers, slot=numbers)
    def write_malformed(self, value: bytes, header: Any, slot: int) -> None:
        """Write what can't be applied."""
        self._write(None, value, [] if header is None else [header], None, slot)

    @rule(key=ids, body=bodies, log_id=other_logs, origin=st.tuples(numbers, far_offsets), slot=numbers)
    def write_copy_of_another_log(
        self, key: Any, body: Body, log_id: str, origin: tuple[int, int], slot: int
    ) -> None:
        """A log is mirrored with its headers, or somebody makes an origin up: of another log, as far as it says."""
        headers: Headers = [("sow.origin", b"%b:%d@%d" % (log_id.encode(), *origin))]
        self._write(self.key_of(key), encoded({**body, "id": key}), headers, None, slot)

    @rule(ms=st.sampled_from([1, 5, WINDOW, WINDOW + 1, -3]))
    def pass_time(self, ms: int) -> None:
        """Let the log's clock go on, or step back."""
        self.world.time += ms

    @rule(key=ids, back=st.integers(0, 2), slot=st.none() | numbers, more=st.booleans())
    def expire(self, key: Any, back: int, slot: int | None, more: bool) -> None:
        """Ask for a record's end: by its newest update, by one before that, in any partition, or malformed."""
        owner = partition_of(self.key_of(key), self.partitions)
        changes = [event for _, event in changes_of(self.world.changes[owner].history) if event.op != AGAIN]
        positions = [event.position for event in changes if event.sow_key == self.sow_key(self.key_of(key))]
        guard = (positions or [Position(0, 3)])[-1 - back :][0]
        headers: Headers = [("sow.command", b"expire"), ("sow.guard", str(guard).encode())]
        self._write(self.key_of(key), b"{}" if more and back else None, headers, None, slot)

    @rule(key=ids, slot=numbers, ms=st.sampled_from([0, 1, 5]))
    def race(self, key: Any, slot: int, ms: int) -> None:
        """A record is due, and its owner asks for its end, but before that comes it is updated and due again."""
        owner = partition_of(self.key_of(key), self.partitions)
        for _ in range(2):
            self._write(self.key_of(key), encoded({"id": key}), [("sow.expiration", b"0.001")], None, None)
            self.world.owner(owner)
            self.world.work(owner, 100)
            self.world.time += 1
        position = self.world.changes[owner].history[-1].event.after
        self.world.time += ms
        headers: Headers = [("sow.command", b"expire"), ("sow.guard", str(position).encode())]
        self._write(self.key_of(key), None, headers, None, None)

    @rule(slot=numbers)
    def keep_up(self, slot: int) -> None:
        """The owner appends what is due by its own clock."""
        number = slot % self.partitions
        self.world.owner(number)
        self.world.keep_up(number)

    @rule(limits=limits, cut=st.none() | st.integers(0, 2), key=ids)
    def redefine(self, limits: dict[str, Any], cut: int | None, key: Any) -> None:
        """Lifetime and limits change: all owners begin again with another definition, and may die saying so."""
        for number in range(self.partitions):
            self.world.owner(number)
        self.world.definition = self.definition = self._defined(limits)
        for number in range(self.partitions):
            self.world.crash(number)
            self.world.owner(number)
        self.world.drain()
        for number in range(self.partitions):
            self.world.keep_up(number)
        if cut is not None:
            self._write(self.key_of(key), encoded({"id": key}), [], None, None)
            self.die_at_work(partition_of(self.key_of(key), self.partitions), 6, cut, True)

    @rule(key=ids, number=st.sampled_from("12"), ms=st.sampled_from([1, 7, 30]), gone=st.booleans())
    def repeat_in_a_longer_window(self, key: Any, number: str, ms: int, gone: bool) -> None:
        """A number is out of the window, the window grows, and the number comes again."""
        self.redefine({"repeat_window": "5ms"}, None, key)
        self._write(self.key_of(key), encoded({"id": key}), [], ("z", number), None)
        if gone:
            self._write(self.key_of(key), None, [], None, None)
        self.world.time += ms
        self.redefine({"repeat_window": "60ms"}, None, key)
        self._write(self.key_of(key), encoded({"id": key}), [], ("z", number), None)

    # owners

    @rule(slot=numbers, size=st.integers(1, 6), intrude=st.integers(0, 3), restart=st.booleans())
    def work(self, slot: int, size: int, intrude: int, restart: bool) -> None:
        """Apply a batch; what a dead owner had on its way arrives in the midst of it."""
        self.world.work(slot % self.partitions, size, intrude=intrude, restart=restart)

    @rule(slot=numbers, size=st.integers(1, 6), cut=st.integers(0, 5), lost=st.booleans())
    def die_at_work(self, slot: int, size: int, cut: int, lost: bool) -> None:
        """Apply a batch but die before all of its output is written; the disk may go with the owner.

        Without its disk it is dead for good: nothing of it arrives later.
        """
        number = slot % self.partitions
        self.world.work(number, size, cut=cut)
        self.world.crash(number)
        if lost:
            self.world.late[number] = []
            self.world.disk.pop(Path(str(number)), None)
        self.world.owner(number)

    @rule(slot=numbers, lost=st.booleans())
    def die_within_a_delete(self, slot: int, lost: bool) -> None:
        """Delete everything, and die after the first of the changes."""
        self.world.drain()
        self._write(None, None, [("sow.command", b"sow_delete"), ("sow.filter", b"1=1")], None, slot)
        self.die_at_work(slot, 1, self.partitions, lost)

    @rule(slot=numbers)
    def restart(self, slot: int) -> None:
        """Begin again from what was committed."""
        number = slot % self.partitions
        self.world.crash(number)
        self.world.owner(number)

    @rule(slot=numbers, count=st.integers(1, 3))
    def arrive_late(self, slot: int, count: int) -> None:
        """Some of what a dead owner had on its way arrives."""
        self.world.arrive_late(slot % self.partitions, count)

    @rule(slot=numbers, start=numbers, count=st.integers(1, 3))
    def repeat_old(self, slot: int, start: int, count: int) -> None:
        """A worker that was thought dead writes old changes once more."""
        changes = self.world.changes[slot % self.partitions]
        own = [event for _, event in changes_of(changes.history[changes.since :]) if event.op != AGAIN]
        for event in own[start : start + count]:
            changes.append(event)

    @rule(slot=numbers, loss=st.sampled_from(["lost", "damaged", "changes", "both"]))
    def lose(self, slot: int, loss: str) -> None:
        """Lose the local state, find it damaged, or lose the changes topic, or both."""
        number = slot % self.partitions
        self.world.owner(number)
        self.world.crash(number)
        path = Path(str(number))
        if loss == "damaged":
            entries = self.world.disk[path]["_entries"]
            entries[b"1"] = b"x"
        elif loss in ("lost", "both"):
            del self.world.disk[path]
        if loss in ("changes", "both"):
            self.world.changes[number].replace()
            self.world.late[number] = []
        self.world.owner(number)

    @rule(slot=numbers, data=st.data())
    def compact(self, slot: int, data: st.DataObject) -> None:
        """Kafka compacts the changes, once they are older than the lag: stale-owner writes were repaired by then."""
        self._settle()
        changes = self.world.changes[slot % self.partitions]
        changes.compact(lambda: data.draw(st.booleans()))


CoreAgainstModel.TestCase.settings = examples(250, stateful_step_count=40)
TestCoreAgainstModel = CoreAgainstModel.TestCase
