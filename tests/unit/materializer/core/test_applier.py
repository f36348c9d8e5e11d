"""The pure core: what log records do to the records of a partition."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import orjson
import pytest

from sowline.changes.change import Change
from sowline.commands.command import CopyOf, Headers, LogRecord, Origin
from sowline.config.topic_definition import define_topic
from sowline.config.topics import Topics
from sowline.model.key import partition_of, sow_key
from sowline.model.limits import define_value
from sowline.model.log_time import CREATE_TIME
from sowline.model.nesting import NESTING_MAX
from sowline.model.position import Position
from sowline_materializer.core.applier import Applier
from sowline_materializer.core.checkpoint import Checkpoint
from sowline_materializer.core.step import Step
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


def test_an_empty_batch_does_not_end_a_record_cut_short() -> None:
    """As long as the record was not read again, it is still next."""
    core = Core()
    core.checkpoint = Checkpoint(Position(0, 4, 1), Position(0, 4, 1), complete=False)
    assert core.apply().checkpoint.next_offset == 4


# repeats


# placement


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
    """Two texts with the same hash stay different: the second is refused, and a delete of it removes nothing."""
    monkeypatch.setattr("sowline.commands.key_rule.sow_key", lambda prefix, text: b"1")
    core = Core()
    core.write({"id": "a"})
    assert reasons(core.write({"id": "b"})) == ["key collision"]
    assert core.write({"id": "b"}, "sow_delete").outcomes == {"2": "deleted 0"}


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


def test_a_topic_without_a_sow_passes_messages_on() -> None:
    """Partition and offset are the key; a command for a record is refused."""
    core = Core()
    core.definition = define_topic(name="orders", sow=False)
    change = only(core.write({"a": 1}).changes)
    assert (change.sow_key, change.body, change.previous) == (b"0@0", b'{"a":1}', None)
    assert reasons(core.write(None, "sow_delete")) == ["no sow"]


def test_limits_change_at_a_position_of_the_log() -> None:
    """Definitions that change nothing, have a key or name an unknown schema have no effect."""
    core = Core()
    limits = core.checkpoint.limits
    longer = dataclasses.replace(limits, repeat_window=5)
    assert core.write(define_value(limits, limits), "define").outcomes == {"0": "noop"}
    assert core.write(define_value(limits, longer), "define").outcomes == {"1": "applied"}
    assert core.checkpoint.limits == longer
    assert reasons(core.write(define_value(limits, longer), "define", key=b"1")) == ["bad definition"]
    typed = dataclasses.replace(longer, schema="other")
    assert reasons(core.write(define_value(longer, typed), "define")) == ["bad definition"]


def test_commands_are_for_topics_of_some_kinds() -> None:
    """Each refusal has a reason of its own."""
    core = Core()
    assert reasons(core.write(b"{..}", "delta", key=b"1")) == ["no documents"]
    assert reasons(core.write(b"{}", "partials")) == ["bad header"]
    documents = Core(documents=True)
    assert only(documents.write(b'{..,"a":1}', "delta", key=b"1").changes).writes is not None


def test_a_sow_key_is_for_topics_that_take_one() -> None:
    """Another topic would otherwise ignore it."""
    step = Core().apply(LogRecord(0, 1000, None, b'{"id":1}', [("sow.key", b"a")]))
    assert reasons(step) == ["bad header"]
    taken = Core(key={"from": "header"}).apply(LogRecord(0, 1000, None, b"{}", [("sow.key", b"a")]))
    assert only(taken.changes).sow_key == b"a"


def test_a_repeat_is_no_change() -> None:
    """Its outcome tells why; a forwarded copy that was seen is one, too."""
    core = Core()
    core.write({"id": 1}, publisher="p", sequence="5")
    assert core.write({"id": 1}, publisher="p", sequence="5").outcomes == {"1": "repeat"}


def test_a_misplaced_record_makes_no_change_here() -> None:
    """Its owner applies it."""
    step = Core(partitions=2).write({"id": THERE})
    assert (step.changes, len(step.forwards), step.outcomes) == ([], 1, {"0": "forwarded 1"})


def test_the_log_of_a_view_has_partial_states_only() -> None:
    """A publish belongs into the topics that it reads."""
    core = Core()
    orders, view = {"name": "orders", "key": "/id"}, {"name": "late", "from": "orders"}
    core.definition = Topics.model_validate({"topics": [orders], "views": [view]}).named("late")
    assert reasons(core.write({"id": 1})) == ["view"]
    assert reasons(core.write(b"{}", "partials")) == ["bad message"]
