"""Commands that remove records: deletes of one or of many, and expiries."""

import dataclasses
from typing import Any

import pytest
from msgspec.structs import replace

from sowline.changes.change import Change
from sowline.commands.command import Headers, LogRecord
from sowline.model.key import sow_key
from sowline.model.limits import Limits
from sowline.model.position import Position
from sowline_materializer.core.applier import Applier
from sowline_materializer.core.checkpoint import Checkpoint
from sowline_materializer.core.record import Record, encode_record
from sowline_materializer.store.checksum import Checksum
from sowline_materializer.store.overlay import Overlay
from tests.unit.materializer.core.test_applier import DOMAIN, HERE, THERE, Core, only


@pytest.mark.parametrize("value", [b'{"id":1}', None, b""])
def test_a_delete_names_its_record_by_body_or_key(value: bytes | None) -> None:
    """A delete without a selector removes the record of its body, or else of its Kafka key."""
    core = Core()
    core.write({"id": 1, "a": 1})
    change = only(core.write(value, "sow_delete", key=b"1").changes)
    assert (change.body, change.previous, change.op) == (None, b'{"id":1,"a":1}', "delete")
    assert (change.reason, change.outcome, core.body("1")) == ("deleted", "deleted 1", None)


def test_a_body_wins_over_the_kafka_key() -> None:
    """A command names its record by its body where it can."""
    core = Core()
    core.write({"id": 1}, key=b"2")
    core.write({"id": 2})
    core.write({"id": 1}, "sow_delete", key=b"2")
    assert (core.body("1"), core.body("2")) == (None, {"id": 2})


@pytest.mark.parametrize("command", [None, "publish", "delta_publish"])
def test_a_null_value_deletes(command: str | None) -> None:
    """A tombstone of a plain producer removes the record of its key."""
    core = Core()
    core.write({"id": 1})
    assert only(core.write(None, command, key=b"1").changes).body is None


def test_deleting_nothing_is_no_change() -> None:
    """A delete that finds nothing says so."""
    core = Core()
    assert core.write({"id": 1}, "sow_delete").outcomes == {"0": "deleted 0"}
    assert core.write(None, "sow_delete", filter="/a = 1").outcomes == {"1": "deleted 0"}
    assert core.write(None, "sow_delete", keys="1,x").outcomes == {"2": "deleted 0"}


def test_a_delete_by_filter_makes_many_changes_in_key_order() -> None:
    """All changes of one record share its offset, count up, and only the last says it is the last."""
    core = Core()
    for number in range(5):
        core.write({"id": number, "odd": number % 2})
    changes = core.write(None, "sow_delete", filter="/odd = 0").changes
    assert [change.sow_key for change in changes] == sorted(sow_key(DOMAIN, text) for text in "024")
    assert [change.position for change in changes] == [Position(0, 5), Position(0, 5, 1), Position(0, 5, 2)]
    assert [change.after for change in changes] == [Position(0, 4), Position(0, 5), Position(0, 5, 1)]
    assert [change.last for change in changes] == [False, False, True]
    assert [change.outcome for change in changes] == [None, None, "deleted 3"]
    assert core.checkpoint.position == core.checkpoint.last_change == Position(0, 5, 2)
    assert core.checkpoint.next_offset == 6


def test_a_delete_by_filter_may_ask_about_the_record() -> None:
    """When it was last updated, say: deletes by age."""
    core = Core()
    for number in range(3):
        core.time = 1000 + number
        core.write({"id": number})
    filter = "LAST_UPDATED() < 1.002 AND TOPIC_NAME() = 'orders'"
    assert len(core.write(None, "sow_delete", filter=filter).changes) == 2
    assert core.body("2") == {"id": 2}


def test_a_delete_by_filter_sees_its_own_batch() -> None:
    """Records that the batch itself made, changed or removed count as they are by then."""
    core = Core()
    core.write({"id": 1, "a": 1})
    headers: Headers = [("sow.command", b"sow_delete"), ("sow.filter", b"/a = 1")]
    step = core.apply(
        LogRecord(1, 0, None, b'{"id":1,"a":2}'),
        LogRecord(2, 0, None, b'{"id":2,"a":1}'),
        LogRecord(3, 0, None, None, headers),
    )
    assert only([change for change in step.changes if change.body is None]).sow_key == sow_key(DOMAIN, "2")
    assert (core.body("1"), core.body("2")) == ({"id": 1, "a": 2}, None)


def test_a_delete_by_keys_removes_each_once() -> None:
    """SOW keys may be named twice, and unknown ones do not matter."""
    core = Core()
    core.write({"id": 1})
    key = sow_key(DOMAIN, "1").decode()
    change = only(core.write(None, "sow_delete", keys=f"{key},77,{key},not a key").changes)
    assert change.outcome == "deleted 1"


def test_a_delete_cut_short_goes_on_where_it_was() -> None:
    """After a recovery that found some of its changes, a delete makes the rest, as if nothing had happened."""
    whole, cut = Core(), Core()
    for core in (whole, cut):
        for number in range(4):
            core.write({"id": number}, publisher="p", sequence=str(number + 1))
    delete = LogRecord(4, 2000, None, None, [("sow.command", b"sow_delete"), ("sow.filter", b"1=1")])
    expected = whole.apply(delete).changes
    view = Overlay(cut.store)
    Applier(cut.definition, 0, cut.checkpoint, view).apply([delete])
    first = {change.sow_key for change in expected[:2]}
    writes = view.written(cut.store.checksum()).entries
    cut.store.commit({key: data for key, data in writes.items() if key in first}, Checksum(), b"")
    given: dict[str, Any] = {"limits": cut.definition.limits, "records": 2, "log_id": "log"}
    cut.checkpoint = Checkpoint(expected[1].position, expected[1].position, 2000, complete=False, **given)
    assert cut.checkpoint.next_offset == 4
    assert cut.apply(delete).changes == expected[2:]
    assert cut.checkpoint == whole.checkpoint


def test_a_repeated_delete_by_filter_spares_what_it_has_seen() -> None:
    """A delete that comes twice does not remove what its own publisher wrote in between."""
    core = Core()
    core.write({"id": 1}, publisher="p", sequence="1")
    core.write(None, "sow_delete", filter="1=1", publisher="p", sequence="2")
    core.write({"id": 1}, publisher="p", sequence="3")
    assert core.write(None, "sow_delete", filter="1=1", publisher="p", sequence="2").outcomes == {
        "3": "deleted 0"
    }
    assert core.body("1") == {"id": 1}


@pytest.mark.parametrize("value", [None, b'{"id":"' + THERE.encode() + b'"}'])
def test_a_misplaced_delete_is_forwarded(value: bytes | None) -> None:
    """A tombstone or a delete by data goes to the record's owner."""
    step = Core(partitions=2).write(value, "sow_delete", key=THERE.encode())
    assert [forward.partition for forward in step.forwards] == [1]


@pytest.mark.parametrize("selector", [{"filter": "1=1"}, {"keys": "1"}])
def test_a_delete_for_all_goes_to_all_others(selector: dict[str, Any]) -> None:
    """A delete by filter or keys is applied here and sent to every other partition, once."""
    core = Core(partitions=4)
    step = core.write(None, "sow_delete", **selector)
    assert [forward.partition for forward in step.forwards] == [1, 2, 3]
    again = core.write(None, "sow_delete", origin="log:2@5", **selector)
    assert again.forwards == []


def test_a_due_time_that_never_comes_is_over() -> None:
    """Version 0.1 let a producer's time move log time: records of then were due tens of thousands of years later."""
    core = Core(expiration="1s", repeat_window="1s")
    core.write({"id": 1})
    key = sow_key(DOMAIN, "1")
    view = Overlay(core.store)
    held = view.get(key)
    assert held is not None
    view.put(key, replace(held, time=2**55, expires=2**55 + 1000))
    written = view.written(core.store.checksum())
    core.store.commit(written.entries, written.checksum, b"", written.expiries)
    assert only(core.write(None, "expire", b"1", guard="0").changes).reason == "expired"


def expire(core: Core, guard: str, key: str = "1") -> tuple[list[Change], dict[str, str]]:
    """Apply an expire; return its changes and outcomes."""
    step = core.write(None, "expire", key.encode(), guard=guard)
    return step.changes, step.outcomes


def due_core(expiration: str = "1s") -> Core:
    """Return a partition with record 1, which is due by now."""
    core = Core(expiration=expiration)
    core.write({"id": 1, "a": 1})
    core.time += 1000
    return core


def test_a_record_that_is_due_expires() -> None:
    """The change is a deletion with its own op and reason, and carries what the record was last."""
    core = due_core()
    change = only(expire(core, "0")[0])
    assert (change.op, change.reason, change.body, change.previous) == (
        "expire",
        "expired",
        None,
        b'{"id":1,"a":1}',
    )
    assert (change.position, change.after, change.last, change.expires) == (
        Position(0, 1),
        Position(0, 0),
        True,
        None,
    )
    assert (core.body("1"), core.checkpoint.records) == (None, 0)


def test_a_record_with_an_empty_key_expires() -> None:
    """An earlier version accepted such a key: an empty Kafka key names it, only none at all is missing."""
    core = Core(expiration="1s")
    core.write({"id": 1})
    kept = encode_record(Record(b'{"id":""}', "", Position(0, 0), 1000, 2000))
    core.store.commit({sow_key(b"orders\0", ""): kept}, Checksum(), b"")
    core.time += 1000
    assert len(expire(core, "0", "")[0]) == 1


@pytest.mark.parametrize("guard", ["1", "0.1", "1/0"])
def test_another_guard_is_harmless(guard: str) -> None:
    """Only the update that set the due time may be asked about."""
    core = due_core()
    changes, outcomes = expire(core, guard)
    assert (changes, outcomes, core.body("1")) == ([], {"1": "noop"}, {"id": 1, "a": 1})


def test_an_expire_before_its_time_is_harmless() -> None:
    """The log's time counts, which never runs back."""
    core = due_core()
    core.time -= 1
    assert expire(core, "0") == ([], {"1": "noop"})
    core.time += 1
    core.write({"id": 2})
    core.time -= 500
    assert len(expire(core, "0")[0]) == 1


@pytest.mark.parametrize("key", ["2", THERE])
def test_an_expire_of_another_record_is_harmless(key: str) -> None:
    """One that is not there, or belongs elsewhere: it is not forwarded."""
    core = Core(partitions=2, expiration="1s")
    core.write({"id": HERE})
    core.time += 1000
    step = core.write(None, "expire", key.encode(), guard="0")
    assert (step.changes, step.forwards, step.outcomes) == ([], [], {"1": "noop"})


def test_an_update_begins_a_lifetime_again() -> None:
    """Every publish and every delta has its own, or the topic's, or none."""
    core = due_core()
    core.write({"id": 1}, "delta_publish")
    assert expire(core, "0") == ([], {"2": "noop"})
    core.time += 1000
    core.write({"id": 1}, expiration="0")
    core.time += 10**9
    assert expire(core, "3") == ([], {"4": "noop"})


def test_a_topic_that_expires_nothing_keeps_due_times() -> None:
    """They count once that is changed."""
    core = Core()
    due = only(core.write({"id": 1}, expiration="1").changes)
    core.time += 1000
    assert (due.expires, expire(core, "0")) == (2000, ([], {"1": "noop"}))
    core.checkpoint = dataclasses.replace(core.checkpoint, limits=Limits("enabled"))
    assert len(expire(core, "0")[0]) == 1


def test_an_expired_record_remembers_its_numbers() -> None:
    """What was written before it expired stays a repeat."""
    core = Core(expiration="1s")
    core.write({"id": 1}, publisher="p", sequence="1")
    core.time += 1000
    change = only(expire(core, "0")[0])
    assert change.numbers == {"p": (1, 0, 1000)}
    assert core.write({"id": 1}, publisher="p", sequence="1").outcomes == {"2": "repeat"}
    assert len(core.write({"id": 1}, publisher="p", sequence="2").changes) == 1
