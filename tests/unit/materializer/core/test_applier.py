"""The pure core: what log records do to the records of a partition."""

from collections.abc import Sequence
from typing import Any

import orjson
import pytest
from msgspec.structs import replace

from sowline.changes.change import Change
from sowline.commands.command import CopyOf, Headers, LogRecord, Origin
from sowline.config.topic_definition import define_topic
from sowline.model.key import partition_of, sow_key
from sowline.model.log_time import CREATE_TIME, LOG_APPEND_TIME, TIME_MAX
from sowline.model.nesting import NESTING_MAX
from sowline.model.position import Position
from sowline_materializer.core.applier import Applier
from sowline_materializer.core.checkpoint import Checkpoint
from sowline_materializer.core.step import Forward, Step
from sowline_materializer.store.checksum import Checksum
from sowline_materializer.store.overlay import Overlay
from tests.memory_store import MemoryStore

DOMAIN = b"orders\0"
HERE, THERE = (next(str(n) for n in range(99) if partition_of(str(n), 2) == p) for p in (0, 1))
"""A key text of this partition, and one of the other."""


class Core:
    """Partition 0 of `orders`, one log record after the other."""

    def __init__(self, partitions: int = 1, **given: Any) -> None:
        self.definition = define_topic(**{"name": "orders", "key": "/id", "partitions": partitions, **given})
        self.store = MemoryStore()
        self.checkpoint = Checkpoint(limits=self.definition.limits, log_id="log")
        self.time = 1000

    def apply(self, *records: LogRecord) -> Step:
        """Apply a batch and keep what it makes."""
        view = Overlay(self.store)
        step = Applier(self.definition, 0, self.checkpoint, view).apply(records)
        written = view.written(self.store.checksum())
        self.store.commit(written.entries, written.checksum, b"", written.expiries)
        self.checkpoint = step.checkpoint
        return step

    def write(
        self,
        value: bytes | dict[str, Any] | None,
        command: str | None = None,
        key: bytes | None = None,
        **headers: str,
    ) -> Step:
        """Apply one record."""
        if command is not None:
            headers["command"] = command
        encoded: Headers = [(f"sow.{name}", text.encode()) for name, text in headers.items()]
        body = orjson.dumps(value) if isinstance(value, dict) else value
        return self.apply(LogRecord(self.checkpoint.next_offset, self.time, key, body, encoded))

    def body(self, text: str) -> Any:
        """Return a record's body, parsed; None if there is none."""
        record = Overlay(self.store).get(sow_key(DOMAIN, text))
        return None if record is None or record.body is None else orjson.loads(record.body)


def reasons(step: Step) -> list[str]:
    """Return why records were refused."""
    return [letter.reason for letter in step.dead]


def only(changes: Sequence[Change]) -> Change:
    """Return the one change."""
    (change,) = changes
    return change


def test_a_publish_inserts_a_record_as_it_was_written() -> None:
    """The first publish of a key is a change without a previous body; the bytes are not touched."""
    body = b'{ "id" : 1, "price": 1.50 }'
    change = only(Core().write(body).changes)
    assert (change.body, change.previous, change.op) == (body, None, "publish")
    assert (change.sow_key, change.position, change.after) == (
        sow_key(DOMAIN, "1"),
        Position(0, 0),
        Position(0, -1),
    )


def test_a_publish_replaces_a_record_whole() -> None:
    """The second publish of a key replaces the first and carries it as the previous body."""
    core = Core()
    core.write({"id": 1, "a": 1})
    change = only(core.write({"id": "1", "b": 2}).changes)
    assert core.body("1") == {"id": "1", "b": 2}
    assert (change.previous, change.after) == (b'{"id":1,"a":1}', Position(0, 0))


def test_a_delta_publish_merges() -> None:
    """The order of the chapter: two workers each add their part, and the change carries the whole record."""
    core = Core()
    core.write({"id": 735, "customer": "Patrick", "item": 90123, "qty": 1000, "state": "new"})
    core.write({"id": 735, "inventory": "available"}, "delta_publish")
    change = only(core.write({"id": 735, "credit": "approved"}, "delta_publish").changes)
    assert orjson.loads(change.body or b"") == {
        "id": 735,
        "customer": "Patrick",
        "item": 90123,
        "qty": 1000,
        "state": "new",
        "inventory": "available",
        "credit": "approved",
    }
    assert change.op == "delta_publish"


def test_a_delta_of_nothing_is_the_record() -> None:
    """Without a record, a delta publish makes one with the delta's fields and only those."""
    core = Core()
    core.write({"id": 1, "a": None}, "delta_publish")
    assert core.body("1") == {"id": 1, "a": None}


def test_a_delta_that_changes_nothing_is_still_an_update() -> None:
    """Setting a field to what it is counts as an update and is a change."""
    core = Core()
    core.write({"id": 1, "a": 1})
    assert len(core.write({"id": 1, "a": 1}, "delta_publish").changes) == 1


def test_a_delta_after_a_delete_starts_from_nothing() -> None:
    """A deleted record's fields do not come back."""
    core = Core()
    core.write({"id": 1, "a": 1}, publisher="p", sequence="1")
    core.write({"id": 1}, "sow_delete", publisher="p", sequence="2")
    core.write({"id": 1, "b": 1}, "delta_publish")
    assert core.body("1") == {"id": 1, "b": 1}


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "not json"),
        (b"{", "not json"),
        (b'{"id":1}x', "not json"),
        (b'{"id":"\xff"}', "not json"),
        (b"\xef\xbb\xbf{}", "not json"),
        (b'{"id":NaN}', "not json"),
        (b"[]", "not an object"),
        (b"3", "not an object"),
        (b'"x"', "not an object"),
        (b"null", "not an object"),
        (b"{}", "key missing"),
        (b'{"id":null}', "key null"),
        (b'{"id":""}', "key empty"),
        (b'{"id":1.0}', "bad key"),
        (b'{"id":[]}', "bad key"),
        (b'{"id":1,"a":' + b"[" * NESTING_MAX + b"]" * NESTING_MAX + b"}", "too deep"),
        (b'{"id":1,"a":"' + b"x" * 200 + b'"}', "too large"),
    ],
)
@pytest.mark.parametrize("command", ["publish", "delta_publish", "sow_delete"])
def test_what_can_not_be_applied_is_a_dead_letter(value: bytes, reason: str, command: str) -> None:
    """Malformed input changes nothing, is kept with its reason, and the records around it are applied."""
    core = Core(record_bytes_max=200 if reason == "too large" else 1_000_000)
    if command == "sow_delete" and not value:
        reason = "key missing"
    headers: Headers = [("sow.command", command.encode())]
    bad = LogRecord(1, 0, None, value, headers)
    step = core.apply(LogRecord(0, 0, None, b'{"id":8}'), bad, LogRecord(2, 0, None, b'{"id":9}'))
    assert [(letter.record, letter.reason) for letter in step.dead] == [(bad, reason)]
    assert step.outcomes == {"1": f"dead:{reason}"}
    assert [change.position.offset for change in step.changes] == [0, 2]
    assert step.checkpoint.position == Position(0, 2)


@pytest.mark.parametrize(
    ("command", "headers", "value", "reason"),
    [
        ("sow_delete", {"filter": "/a >"}, None, "bad filter"),
        ("sow_delete", {"filter": "1=1"}, b'{"id":1}', "bad header"),
        ("sow_delete", {"filter": "UNIX_TIMESTAMP() > 1"}, None, "bad filter"),
        ("sow_delete", {"keys": "1"}, b'{"id":1}', "bad header"),
        ("sow_delete", {}, None, "key missing"),
        ("publish", {"expiration": "9" * 19}, b'{"id":1}', "bad header"),
        ("publish", {"what": ""}, b'{"id":1}', "bad header"),
        ("upsert", {}, b'{"id":1}', "bad header"),
        ("expire", {}, b'{"id":1}', "bad header"),
        ("expire", {"guard": "0"}, b'{"id":1}', "bad header"),
        ("expire", {"guard": "0"}, None, "key missing"),
        ("define", {}, None, "bad definition"),
        ("define", {}, b"{}", "bad definition"),
        ("delta", {}, b'{"id":1}', "no documents"),
    ],
)
def test_commands_that_make_no_sense_are_dead_letters(
    command: str, headers: dict[str, Any], value: bytes | None, reason: str
) -> None:
    """A bad filter, two selectors or a wrong header change nothing."""
    core = Core()
    core.write({"id": 1})
    step = core.write(value, command, **headers)
    assert (reasons(step), core.body("1")) == ([reason], {"id": 1})


def test_a_merge_may_not_outgrow_the_limit() -> None:
    """A delta that makes a record too large is refused, and the record stays."""
    core = Core(record_bytes_max=64)
    core.write({"id": 1, "a": "x" * 30})
    assert reasons(core.write({"id": 1, "b": "x" * 30}, "delta_publish")) == ["too large"]
    assert core.body("1") == {"id": 1, "a": "x" * 30}


def test_the_largest_record_fits() -> None:
    """The limit itself is allowed."""
    body = b'{"id":1,"a":"%s"}' % (b"x" * (64 - 15))
    assert len(body) == 64
    assert reasons(Core(record_bytes_max=64).write(body)) == []


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


def test_an_empty_batch_does_not_end_a_record_cut_short() -> None:
    """As long as the record was not read again, it is still next."""
    core = Core()
    core.checkpoint = Checkpoint(Position(0, 4, 1), Position(0, 4, 1), complete=False)
    assert core.apply().checkpoint.next_offset == 4


# repeats


def test_a_repeat_is_dropped() -> None:
    """A publisher's number that is not above its last one for the record changes nothing."""
    core = Core()
    core.write({"id": 1, "a": 1}, publisher="p", sequence="5")
    for sequence in ("5", "4", "4.9"):
        step = core.write({"id": 1, "a": 2}, publisher="p", sequence=sequence)
        assert (step.changes, list(step.outcomes.values())) == ([], ["repeat"])
    assert core.write({"id": 1, "a": 3}, publisher="p", sequence="5.1").changes
    assert core.body("1") == {"id": 1, "a": 3}


def test_repeats_are_judged_for_each_record() -> None:
    """A number that another record has seen is news to this one."""
    core = Core()
    core.write({"id": 1}, publisher="p", sequence="5")
    assert core.write({"id": 2}, publisher="p", sequence="3").changes


def test_a_deleted_record_remembers_its_numbers() -> None:
    """A publish that is repeated after its record was deleted does not bring the record back."""
    core = Core()
    core.write({"id": 1}, publisher="p", sequence="1")
    core.write({"id": 1}, "sow_delete", publisher="p", sequence="2")
    assert core.write({"id": 1}, publisher="p", sequence="1").outcomes == {"2": "repeat"}
    assert core.write({"id": 1}, "sow_delete", publisher="p", sequence="2").outcomes == {"3": "repeat"}
    assert core.body("1") is None


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


def test_numbers_are_forgotten_after_the_window_of_log_time() -> None:
    """The window counts the log's append time, and that never runs backwards."""
    core = Core(repeat_window="1s")
    core.write({"id": 1}, publisher="p", sequence="5")
    core.time = 2000
    assert core.write({"id": 1}, publisher="p", sequence="5").outcomes == {"1": "repeat"}
    core.time = 2001
    core.write(b"{")
    core.time = 0
    assert core.write({"id": 1}, publisher="p", sequence="5").changes
    assert core.checkpoint.time == 2001


def test_a_ninth_publisher_is_counted() -> None:
    """The step counts publishers that were forgotten before their time."""
    core = Core()
    steps = [core.write({"id": 1}, publisher=f"p{n}", sequence="1") for n in range(9)]
    assert [step.publishers_pushed_out for step in steps] == [0] * 8 + [1]
    assert core.write({"id": 1}, publisher="p0", sequence="1").changes


def test_a_change_carries_the_numbers() -> None:
    """Anyone who loads the changes knows what each record has seen."""
    core = Core()
    core.write({"id": 1}, publisher="p", sequence="5.1")
    change = only(core.write({"id": 1}, "sow_delete", publisher="q", sequence="1").changes)
    assert change.numbers == {"p": (5, 1, 1000), "q": (1, 0, 1000)}


# placement


def test_a_misplaced_record_is_forwarded_unchanged() -> None:
    """A record of another partition is not applied here but sent there, with where it came from."""
    core = Core(partitions=2)
    step = core.write({"id": THERE}, "delta_publish", correlation="c")
    forward = step.forwards[0]
    assert forward == Forward(1, forward.record, CopyOf("log", Origin(0, 0)))
    assert forward.record.headers == [("sow.correlation", b"c"), ("sow.command", b"delta_publish")]
    assert (step.changes, step.outcomes, core.body(THERE)) == ([], {"0": "forwarded 1"}, None)


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


def test_a_forwarded_record_is_applied_once() -> None:
    """Of the records from one partition only those from a higher offset than before are applied."""
    core = Core(partitions=2)
    core.write({"id": HERE, "a": 1}, origin="log:1@7")
    for offset in (7, 6):
        assert list(core.write({"id": HERE, "a": 2}, origin=f"log:1@{offset}").outcomes.values()) == [
            "repeat"
        ]
    assert core.write({"id": HERE, "a": 3}, origin="log:1@8").changes[0].origin == Origin(1, 8)
    assert core.checkpoint.origins == {1: 8}


@pytest.mark.parametrize("origin", ["mirrored:1@99999999999", "mirrored:1@0", "LOG:1@8", "log2:1@8"])
def test_a_copy_from_another_log_is_dropped_and_decides_nothing(origin: str) -> None:
    """Its offsets are not this log's; copies that come after it are judged as if it had never been."""
    core = Core(partitions=2)
    core.write({"id": HERE, "a": 1}, origin="log:1@7")
    for key in (HERE, THERE):
        step = core.write({"id": key, "a": 2}, origin=origin)
        assert (list(step.outcomes.values()), step.changes, step.forwards) == (["foreign"], [], [])
    assert core.write({"id": HERE, "a": 3}, origin="log:1@8").changes[0].origin == Origin(1, 8)
    assert core.checkpoint.origins == {1: 8}


def test_a_replaced_log_begins_its_own_origins() -> None:
    """In the next era the new log's copies count, from the first offset on, and those of the one before don't."""
    core = Core(partitions=2)
    core.write({"id": HERE, "a": 1}, origin="log:1@7")
    core.checkpoint = core.checkpoint.new_era("next", 0)
    assert core.checkpoint.origins == {}
    assert list(core.write({"id": HERE, "a": 2}, origin="log:1@8").outcomes.values()) == ["foreign"]
    assert core.write({"id": HERE, "a": 3}, origin="next:1@0").changes[0].origin == Origin(1, 0)
    forward = core.write({"id": THERE}).forwards[0]
    assert forward.origin == CopyOf("next", Origin(0, 2))


def test_a_forwarded_record_does_not_travel_on() -> None:
    """A record with an origin that is still in the wrong place is refused: it would circle for ever."""
    assert reasons(Core(partitions=2).write({"id": THERE}, origin="log:1@7")) == ["bad header"]


# the state is a function of the log


def test_the_position_of_a_batchs_end_does_not_matter() -> None:
    """One batch or many: the same changes, byte for byte, and the same head."""
    records = [
        LogRecord(0, 5, None, b'{"id":1}', [("sow.publisher", b"p"), ("sow.sequence", b"1")]),
        LogRecord(1, 3, None, b"{"),
        LogRecord(2, 9, None, b'{"id":1,"a":1}', [("sow.command", b"delta_publish")]),
        LogRecord(4, 9, None, None, [("sow.command", b"sow_delete"), ("sow.filter", b"1=1")]),
    ]
    one, many = Core(), Core()
    together = one.apply(*records).changes
    apart = [change for record in records for change in many.apply(record).changes]
    assert [change.headers() for change in together] == [change.headers() for change in apart]
    assert one.checkpoint == many.checkpoint
    assert list(one.store.scan()) == list(many.store.scan())


def test_another_key_text_under_the_same_sow_key_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two texts that hash alike are told apart: the second is refused, and a delete of it removes nothing."""
    monkeypatch.setattr("sowline.commands.key_rule.sow_key", lambda prefix, text: b"1")
    core = Core()
    core.write({"id": "a"})
    assert reasons(core.write({"id": "b"})) == ["key collision"]
    assert core.write({"id": "b"}, "sow_delete").outcomes == {"2": "deleted 0"}


def test_correlation_and_due_time_travel_with_the_change() -> None:
    """What the writer says beside the body is on the change."""
    change = only(Core().write({"id": 1}, correlation="c", expiration="2.5").changes)
    assert (change.correlation, change.expires) == ("c", 3500)
    assert only(Core().write({"id": 1}, expiration="0").changes).expires is None


def test_a_record_too_large_with_its_origin_is_refused() -> None:
    """A record whose headers leave no room for an origin is a dead letter, not a message that Kafka refuses."""
    core = Core(partitions=2, record_bytes_max=64)
    junk = ("x", b"x" * core.definition.kafka.log_bytes_max)
    step = core.apply(LogRecord(0, 0, None, b'{"id":"%s"}' % THERE.encode(), [junk]))
    assert (reasons(step), step.forwards) == (["too large"], [])


# computed fields


def test_preprocessing_makes_the_key() -> None:
    """A message need not have the key field: it is computed before the record is looked for."""
    core = Core(preprocessing=["CONCAT(/region, '-', /number) AS /id"])
    core.write({"region": "eu", "number": 7, "a": 1})
    change = only(core.write({"region": "eu", "number": 7, "b": 1}, "delta_publish").changes)
    assert change.sow_key == sow_key(DOMAIN, "eu-7")
    assert core.body("eu-7") == {"region": "eu", "number": 7, "id": "eu-7", "a": 1, "b": 1}


def test_a_delete_by_body_is_preprocessed() -> None:
    """It names its record as a publish does; a delete by Kafka key has nothing to compute of."""
    core = Core(preprocessing=["UPPER(/name) AS /id"], enrichment=["1 / /x AS /y"])
    core.write({"name": "a"})
    core.write({"name": "b"})
    assert core.write({"name": "a"}, "sow_delete").outcomes == {}
    assert core.write(None, "sow_delete", key=b"B").outcomes == {}
    assert (core.body("A"), core.body("B")) == (None, None)


def test_enrichment_sees_what_preprocessing_has_made() -> None:
    """The stages follow each other, and the record has the fields of both."""
    core = Core(preprocessing=["/a + 1 AS /a"], enrichment=["/a + 1 AS /b", "SOW_KEY() AS /key"])
    core.write({"id": 1, "a": 1})
    assert core.body("1") == {"id": 1, "a": 2, "b": 3, "key": sow_key(DOMAIN, "1").decode()}


def test_a_delta_is_enriched_before_it_is_merged() -> None:
    """Only its own fields are seen; those of the record are there as the previous ones."""
    core = Core(enrichment=["/a AS /seen", "/a OF PREVIOUS AS /before"])
    core.write({"id": 1, "a": 1})
    core.write({"id": 1, "b": 1}, "delta_publish")
    assert core.body("1") == {"id": 1, "a": 1, "b": 1, "seen": None, "before": 1}


def test_several_updates_in_a_batch_follow_each_other() -> None:
    """Each sees the record as the one before it has left it, whether or not that is in the store."""
    core = Core(enrichment=["COALESCE(/n OF PREVIOUS, 0) + 1 AS /n"])
    core.write({"id": 1})
    delete: Headers = [("sow.command", b"sow_delete")]
    step = core.apply(
        LogRecord(1, 0, None, b'{"id":1}'),
        LogRecord(2, 0, None, b'{"id":2}'),
        LogRecord(3, 0, None, b'{"id":1}'),
        LogRecord(4, 0, None, b'{"id":1}', delete),
        LogRecord(5, 0, None, b'{"id":1}'),
    )
    bodies = [change.body and orjson.loads(change.body)["n"] for change in step.changes]
    assert bodies == [2, 1, 3, None, 1]


def test_a_deleted_record_has_no_previous_state() -> None:
    """Also while its numbers are remembered, which another owner may not do any more."""
    core = Core(enrichment=["/a OF PREVIOUS AS /before", "LAST_UPDATED() AS /at"])
    core.write({"id": 1, "a": 1}, publisher="p", sequence="1")
    core.write({"id": 1}, "sow_delete", publisher="p", sequence="2")
    core.write({"id": 1}, publisher="p", sequence="3")
    assert core.body("1") == {"id": 1, "before": None, "at": None}


def test_a_repeat_is_not_enriched_again() -> None:
    """A counter stays where it is when a message comes twice."""
    core = Core(enrichment=["COALESCE(/n OF PREVIOUS, 0) + 1 AS /n"])
    core.write({"id": 1}, publisher="p", sequence="1")
    assert core.write({"id": 1}, publisher="p", sequence="1").outcomes == {"1": "repeat"}
    assert core.body("1") == {"id": 1, "n": 1}


def test_a_misplaced_message_is_forwarded_as_it_came() -> None:
    """Its key is computed to find its owner, who computes it once more."""
    core = Core(2, preprocessing=["/name AS /id"], enrichment=["1 AS /n"])
    body = b'{"name" : "%s"}' % THERE.encode()
    step = core.write(body)
    assert step.forwards == [Forward(1, LogRecord(0, 1000, None, body, []), CopyOf("log", Origin(0, 0)))]
    core.write({"name": HERE}, origin="log:1@0")
    assert core.body(HERE) == {"name": HERE, "id": HERE, "n": 1}


def test_time_is_the_logs() -> None:
    """It is when the log took the message, and does not run backwards."""
    core = Core(enrichment=["UNIX_TIMESTAMP() AS /at", "LAST_UPDATED() AS /before", "BOOKMARK() AS /place"])
    core.time = 86_400_500
    core.write({"id": 1})
    assert core.body("1") == {"id": 1, "at": 86_400.5, "before": None, "place": "orders:0@0"}
    core.time = 5
    core.write({"id": 1})
    assert core.body("1") == {"id": 1, "at": 86_400.5, "before": 86_400.5, "place": "orders:0@1"}


def test_what_is_known_of_a_message() -> None:
    """Its size as it came, in both stages, what its publisher called it, and its topic."""
    fields = ["MESSAGE_SIZE() AS /{}/size", "CORRELATION_ID() AS /{}/name", "TOPIC_NAME() AS /{}/topic"]
    stages = {"preprocessing": "p", "enrichment": "e"}
    definition: dict[str, Any] = {
        stage: [field.format(path) for field in fields] for stage, path in stages.items()
    }
    core = Core(**definition)
    core.write(b'{ "id": 1 }', correlation="c")
    known = {"size": 11, "name": "c", "topic": "orders"}
    assert core.body("1") == {"id": 1, "p": known, "e": known}


@pytest.mark.parametrize(
    ("preprocessing", "value", "reason"),
    [
        ("/name AS /id", {"a": 1}, "key null"),
        ("/name AS /id HINT OPTIONAL", {"id": 1}, "key missing"),
        ("/name AS /id", {"name": 0.5}, "bad key"),
        ("/names AS /id", {"names": [1]}, "bad key"),
        ("REPLACE(/name, 'x', 'xxxxxxxxxx') AS /id", {"name": "x" * 20}, "too large"),
    ],
)
def test_a_message_that_makes_no_record_is_a_dead_letter(
    preprocessing: str, value: dict[str, Any], reason: str
) -> None:
    """It is kept as it came, and nothing else is harmed."""
    core = Core(preprocessing=[preprocessing], record_bytes_max=64)
    body = orjson.dumps(value)
    step = core.write(body)
    assert [(letter.record.value, letter.reason) for letter in step.dead] == [(body, reason)]
    assert step.changes == []
    core.write({"id": 1, "name": "y", "names": "y"})
    assert core.body("y") is not None


def test_enrichment_may_not_outgrow_the_limit() -> None:
    """The size of the record counts, not of the message; the record before stays."""
    core = Core(enrichment=["CONCAT(/a, /a OF PREVIOUS) AS /a HINT OPTIONAL"], record_bytes_max=64)
    core.write({"id": 1, "a": "x" * 30})
    assert reasons(core.write({"id": 1, "a": "y" * 30})) == ["too large"]
    assert reasons(core.write({"id": 1, "a": "y" * 30}, "delta_publish")) == ["too large"]
    assert core.body("1") == {"id": 1, "a": "x" * 30}


def test_what_can_not_be_read_is_refused_before_anything_is_computed() -> None:
    """A number beyond a double would not come through, so its message is none; long integers come through."""
    core = Core(enrichment=["1 AS /n"])
    assert reasons(core.write(b'{"id":1,"a":1e400}')) == ["not json"]
    change = only(core.write(b'{"id":1,"a":123456789012345678901}').changes)
    assert change.body == b'{"id":1,"a":123456789012345678901,"n":1}'


PRODUCERS: dict[str, Any] = {"expiration": "1s", "repeat_window": "1s"}


def of_producer(offset: int, time: int, body: bytes, headers: Headers | None = None) -> LogRecord:
    """Return a log record with its producer's time."""
    return LogRecord(offset, time, None, body, headers, CREATE_TIME)


def test_a_producers_time_moves_nothing() -> None:
    """It is the time of its record; log time, and with it lifetimes and repeat windows, stays the broker's."""
    core = Core(**PRODUCERS)
    core.write({"id": 1}, publisher="p", sequence="5")
    change = only(core.apply(of_producer(1, 9_000_000, b'{"id":2}')).changes)
    assert (change.time, change.log_time, change.expires) == (9_000_000, 1000, 9_001_000)
    assert (core.checkpoint.time, change.partition_time) == (1000, 1000)
    core.time = 1500
    assert core.write({"id": 1}, publisher="p", sequence="5").outcomes == {"2": "repeat"}
    expire = core.write(None, "expire", b"1", guard="0")
    assert expire.outcomes == {"3": "noop"}
    core.time = 2000
    assert only(core.write(None, "expire", b"1", guard="0").changes).reason == "expired"


@pytest.mark.parametrize(
    ("time", "time_type", "likely"),
    [
        (1_732_658_000_000_000, CREATE_TIME, "sends microseconds or nanoseconds as milliseconds"),
        (2**63 - 1, CREATE_TIME, "sends microseconds"),
        (-1, 0, "sends no time"),
        (TIME_MAX + 1, LOG_APPEND_TIME, "the clock of the broker is wrong"),
    ],
)
def test_a_time_that_no_date_can_express(time: int, time_type: int, likely: str) -> None:
    """The record is a dead letter with the likely cause, whatever its command, and those after it are applied."""
    core = Core()
    step = core.apply(
        LogRecord(0, time, None, b'{"id":1}', None, time_type),
        LogRecord(1, time, None, None, [("sow.command", b"sow_delete"), ("sow.filter", b"1=1")], time_type),
        LogRecord(2, 900, None, b'{"id":3}'),
    )
    assert reasons(step) == ["bad time", "bad time"]
    assert f"got {time}" in step.dead[0].message
    assert likely in step.dead[0].message
    assert only(step.changes).time == core.checkpoint.time == 900


def test_a_due_time_that_never_comes_is_over() -> None:
    """Version 0.1 let a producer's time move log time: records of then were due tens of thousands of years later."""
    core = Core(**PRODUCERS)
    core.write({"id": 1})
    key = sow_key(DOMAIN, "1")
    view = Overlay(core.store)
    held = view.get(key)
    assert held is not None
    view.put(key, replace(held, time=2**55, expires=2**55 + 1000))
    written = view.written(core.store.checksum())
    core.store.commit(written.entries, written.checksum, b"", written.expiries)
    assert only(core.write(None, "expire", b"1", guard="0").changes).reason == "expired"
