"""Upkeep: what an owner appends to its log, in which order, and when it rests."""

from typing import Any

from sowline.commands.command import LogRecord
from sowline.config.topic_definition import define_topic
from sowline.model.limits import define_value
from sowline_materializer.core.checkpoint import Checkpoint
from sowline_materializer.partition.opened import OpenedPartition
from sowline_materializer.partition.owner_commands import Append, OwnerCommands
from sowline_materializer.partition.partition import Partition
from tests.memory_store import MemoryStore


class Owner:
    """A partition with its log, whose append time is the owner's own clock, less the `skew`."""

    def __init__(self, expiration: str = "enabled", skew: int = 0, **given: Any) -> None:
        self.definition = define_topic(**{"name": "orders", "key": "/id", "expiration": expiration, **given})
        self.store = MemoryStore()
        self.now, self.skew = 100_000, skew
        checkpoint = Checkpoint(limits=self.definition.limits)
        self.begin(checkpoint)

    def begin(self, checkpoint: Checkpoint) -> None:
        """Become the owner of the partition."""
        opened = OpenedPartition(self.store, checkpoint, checkpoint.position)
        self.partition = Partition(self.definition, 0, opened)
        self.owner_commands = OwnerCommands(self.partition)

    def restart(self, **given: Any) -> None:
        """Begin again from what was committed, perhaps with another definition."""
        self.definition = define_topic(**{"name": "orders", "key": "/id", **given})
        self.begin(self.partition.checkpoint)

    def write(self, value: bytes | None, key: bytes | None = None, **headers: str) -> None:
        """Write a record and apply it."""
        self.apply([Append(key, value, [(f"sow.{name}", text.encode()) for name, text in headers.items()])])

    def apply(self, appends: list[Append]) -> None:
        """Append records and apply them."""
        start = self.partition.checkpoint.next_offset
        records = [LogRecord(start + n, self.now - self.skew, *append) for n, append in enumerate(appends)]
        prepared = self.partition.prepare(records, 0)
        self.partition.commit(prepared, 0)
        if records:
            self.owner_commands.applied(prepared.step.others, records[-1].time, self.now)

    def keep_up(self) -> list[Append]:
        """Return what is appended at the log's end, and apply it."""
        self.owner_commands.caught_up()
        appends = self.owner_commands.appends(self.now)
        self.apply(appends)
        return appends

    @property
    def records(self) -> int:
        """How many records there are."""
        return self.partition.checkpoint.records


def test_what_is_due_is_appended_and_goes() -> None:
    """Key text, guard and nothing else; not a moment before its time."""
    owner = Owner()
    owner.write(b'{"id":1}', expiration="2")
    owner.write(b'{"id":2}')
    owner.now += 1999
    assert owner.keep_up() == []
    owner.now += 1
    assert owner.keep_up() == [Append(b"1", None, [("sow.command", b"expire"), ("sow.guard", b"0")])]
    assert (owner.records, owner.keep_up()) == (1, [])


def test_nothing_is_appended_before_the_log_is_applied() -> None:
    """What seems due may have been updated since."""
    owner = Owner("1s")
    owner.write(b'{"id":1}')
    owner.now += 5000
    assert owner.owner_commands.appends(owner.now) == []
    assert len(owner.keep_up()) == 1


def test_where_nothing_expires_nothing_is_appended() -> None:
    """A disabled topic keeps due times and does nothing about them."""
    owner = Owner("disabled")
    owner.write(b'{"id":1}', expiration="1")
    owner.now += 5000
    assert owner.keep_up() == []
    assert len(list(owner.store.expiries())) == 1


def test_the_longest_due_goes_first_and_an_earlier_one_is_not_missed() -> None:
    """Whatever was looked at before: an update that is due earlier comes first."""
    owner = Owner()
    owner.write(b'{"id":1}', expiration="9")
    assert owner.keep_up() == []
    owner.write(b'{"id":2}', expiration="5")
    owner.write(b'{"id":3}', expiration="4")
    owner.now += 20_000
    assert [append.key for append in owner.keep_up()] == [b"3", b"2", b"1"]


def test_an_update_in_time_keeps_the_record() -> None:
    """The command that was on its way finds another update and does nothing; the record has its new lifetime."""
    owner = Owner("1s")
    owner.write(b'{"id":1}')
    owner.now += 1000
    owner.owner_commands.caught_up()
    late = owner.owner_commands.appends(owner.now)
    owner.write(b'{"id":1}')
    owner.apply(late)
    assert (len(late), owner.records) == (1, 1)
    owner.now += 999
    assert owner.keep_up() == []
    owner.now += 1
    assert len(owner.keep_up()) == 1
    assert owner.records == 0


def test_a_clock_that_is_ahead_costs_one_portion() -> None:
    """What came too early is asked for again once the log's time has come, not before."""
    owner = Owner(skew=3000)
    for number in range(5):
        owner.write(b'{"id":%d}' % number, expiration="1")
    owner.now += 1
    assert len(owner.keep_up()) == 5
    for _ in range(9):
        owner.now += 100
        assert owner.keep_up() == []
    owner.now += 99
    assert len(owner.keep_up()) == 5
    assert owner.records == 0


def test_what_a_crash_left_is_asked_for_again() -> None:
    """What was on its way is forgotten with its owner: due while down is due at the start."""
    owner = Owner("1s")
    owner.write(b'{"id":1}')
    owner.now += 5000
    owner.owner_commands.caught_up()
    lost = owner.owner_commands.appends(owner.now)
    owner.restart(expiration="1s")
    again = owner.keep_up()
    assert again == lost
    owner.apply(lost)
    assert owner.records == 0


def test_a_changed_definition_is_appended_before_anything_expires() -> None:
    """Once, with what was and what is; what is due then is what the new limits say."""
    owner = Owner("disabled")
    owner.write(b'{"id":1}', expiration="1")
    was = owner.definition.limits
    owner.restart(expiration="1h", records_max=5)
    owner.now += 5000
    value = define_value(was, owner.definition.limits)
    assert owner.keep_up() == [Append(None, value, [("sow.command", b"define")])]
    assert owner.partition.checkpoint.limits == owner.definition.limits
    assert [append.key for append in owner.keep_up()] == [b"1"]
    assert owner.keep_up() == []


def test_a_definition_that_says_the_same_is_not_appended() -> None:
    """Whatever else has changed."""
    owner = Owner("1s")
    owner.restart(expiration="1s", indexes=["/a"])
    assert owner.keep_up() == []


def test_owners_who_disagree_do_not_append_for_ever() -> None:
    """Each says once what its topics.yaml says; the last word stands until somebody begins again."""
    owner = Owner("1s")
    owner.restart(expiration="2s")
    ours = owner.keep_up()
    owner.write(
        define_value(owner.definition.limits, define_topic(name="a", key=("/b",)).limits), command="define"
    )
    assert (len(ours), owner.keep_up()) == (1, [])


def test_many_records_go_in_portions() -> None:
    """Live records come in between."""
    owner = Owner("1s")
    owner.apply([Append(None, b'{"id":%d}' % n, []) for n in range(2500)])
    owner.now += 1000
    portions = []
    while portion := owner.keep_up():
        portions.append(len(portion))
    assert (portions, owner.records) == ([1000, 1000, 500], 0)
