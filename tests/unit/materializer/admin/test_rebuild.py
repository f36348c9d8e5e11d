"""Rebuilding: which states can be ended, and which logs can be applied again after records have moved."""

from typing import Any, TypeAlias

import pytest

from sowline.changes.change import RESET, Change
from sowline.changes.event import Event
from sowline.changes.progress import Progress
from sowline.codecs.codec import codec_of
from sowline.codecs.resolutions import Resolutions
from sowline.codecs.schema import Schema
from sowline.codecs.typed_bodies import TypedBodies
from sowline.commands.command import Headers, LogRecord
from sowline.config.topic_definition import TopicDefinition, define_topic
from sowline.errors import SowlineError
from sowline.model.key import partition_of
from sowline.model.position import Position
from sowline_materializer.admin.forwarded import require_forwards
from sowline_materializer.admin.rebuild import EndsLoader
from tests.memory_store import MemoryStore

HERE, THERE = (next(t for t in map(str, range(99)) if partition_of(t, 2) == number) for number in (0, 1))
"""Key texts of records of the two partitions."""


def defined(**given: Any) -> TopicDefinition:
    """Return a topic of two partitions."""
    return define_topic(**{"name": "orders", "key": "/id", "partitions": 2, **given})


# forwards


# The values of a log, each with its headers.
Log: TypeAlias = list[tuple[bytes | None, Headers]]


def body(a: str, b: str) -> bytes:
    """Return a body with two fields that may be the key."""
    return b'{"id":"%s","other":"%s"}' % (a.encode(), b.encode())


def check(definition: TopicDefinition, *logs: Log) -> None:
    """Look at logs, each given as its values and headers."""
    records = [
        [LogRecord(offset, 0, None, value, headers) for offset, (value, headers) in enumerate(log)]
        for log in logs
    ]
    require_forwards(definition, "log", lambda number: records[number], lambda _: bodies_of(definition))


def bodies_of(definition: TopicDefinition) -> TypedBodies | None:
    """Return what reads the messages of a topic without frames."""
    reader = definition.reader
    return None if reader is None else TypedBodies(reader.type, definition.framing, Resolutions())


def origin(offset: int) -> Headers:
    """Return the header of what partition 0 has forwarded."""
    return [("sow.origin", b"log:0@%d" % offset)]


def test_forwards_that_the_log_holds_are_met_where_they_were() -> None:
    """Where no record moves, all that is misplaced has its copy; what comes last may have none yet."""
    copied = body(THERE, HERE)
    first: Log = [(body(HERE, HERE), []), (copied, []), (copied, []), (b"{", []), (copied, [])]
    check(defined(), first, [(copied, origin(1)), (copied, origin(2))])


def test_a_log_without_forwards_can_be_applied_under_any_definition() -> None:
    """All that is misplaced by then is forwarded for the first time, in its order."""
    check(defined(key="/other"), [(body(HERE, THERE), []), (body(HERE, HERE), [])], [(body(THERE, HERE), [])])


@pytest.mark.parametrize(
    "given", [{"key": "/other"}, {"preprocessing": ("/other AS /id",)}, {"key": "/other", "key_domain": "x"}]
)
def test_a_forward_that_would_come_too_late_is_refused(given: dict[str, Any]) -> None:
    """It belongs where a later one was forwarded to, and would be taken for one that was seen."""
    copied = body(THERE, THERE)
    logs: list[Log] = [[(body(HERE, THERE), []), (copied, [])], [(copied, origin(1))]]
    check(defined(), *logs)
    with pytest.raises(SowlineError, match=r"offset 0 of orders \[0\] belongs in partition 1") as error:
        check(defined(**given), *logs)
    assert error.value.reason == "not supported"


def test_a_key_in_the_header_says_where_a_record_belongs() -> None:
    """As it does when the log is applied."""
    definition = defined(key={"from": "header"})
    here: Headers = [("sow.key", HERE.encode())]
    there: Headers = [("sow.key", THERE.encode())]
    value = body(HERE, HERE)
    check(definition, [(value, here), (value, there)], [(value, [*there, *origin(1)])])
    with pytest.raises(SowlineError, match=r"offset 0 of orders \[0\] belongs in partition 1"):
        check(definition, [(value, there), (value, there)], [(value, [*there, *origin(1)])])


def test_a_delete_by_the_kafka_key_is_looked_at_and_one_by_filter_is_not() -> None:
    """That one was forwarded to all, in its place."""
    copied = body(THERE, THERE)
    deleted: Headers = [("sow.command", b"sow_delete"), ("sow.filter", b"1=1")]
    logs = [(None, deleted), (copied, [])], [(None, [*deleted, *origin(0)]), (copied, origin(1))]
    check(defined(key="/other"), *logs)
    records = [LogRecord(0, 0, THERE.encode(), None, []), LogRecord(1, 0, None, copied, [])]
    copies = [LogRecord(0, 0, None, copied, origin(1))]
    with pytest.raises(SowlineError, match="offset 0"):
        require_forwards(defined(), "log", lambda number: copies if number else records, lambda _: None)


def test_messages_with_a_schema_are_read_under_it() -> None:
    """Their bytes do not show by themselves where a record belongs."""
    schema = 'syntax = "proto3"; message Order { string id = 1; string other = 2; }'
    typed = {"message_type": "protobuf", "framing": "none", "reader_schema": {"text": schema}}
    first, copied = (codec_of(Schema("protobuf", schema)).write(body(a, THERE)) for a in (HERE, THERE))
    logs: list[Log] = [[(first, []), (copied, [])], [(copied, origin(1))]]
    check(defined(**typed), *logs)
    with pytest.raises(SowlineError, match=r"offset 0 of orders \[0\] belongs in partition 1"):
        check(defined(key="/other", **typed), *logs)


# what is to end


def loaded(*events: Event) -> tuple[EndsLoader, MemoryStore]:
    """Load events under a definition whose key their bodies do not have."""
    store = MemoryStore()
    loader = EndsLoader(store, defined(key=("/a", "/b"), preprocessing=("UPPER(/x) AS /a",)))
    loader.load(list(events))
    loader.finish()
    return loader, store


def change(offset: int, key: bytes, body: bytes | None, **more: Any) -> Change:
    """Return a change."""
    position, after = Position(0, offset), Position(0, offset - 1)
    return Change(key, body, b'{"id":1}', position, after, "publish", 100 + offset, **more)


PROGRESS = Progress(Position(0, -1), Position(0, -1), 0, {}, "previous", "log", 0, {})


def test_state_of_another_definition_loads_to_be_ended() -> None:
    """Whatever its key was; a deleted record that is remembered has nothing that ends."""
    loader, store = loaded(
        PROGRESS,
        change(0, b"1", b'{"id":1}'),
        change(1, b"2", b'{"id":2}'),
        change(2, b"2", None, numbers={"p": (1, 0, 100)}),
    )
    assert loader.is_whole
    assert loader.checkpoint(4).records == 1
    assert [key for key, _ in store.scan()] == [b"1", b"2"]


def test_a_state_that_is_being_emptied_can_be_ended() -> None:
    """And one within a log record's changes: what is not there needs no end."""
    loader, _ = loaded(PROGRESS, change(0, b"1", b'{"id":1}', last=False))
    assert loader.is_whole
    end = Change(b"1", None, b'{"id":1}', Position(1, -1), Position(0, 1), RESET, 200, last=False)
    loader, _ = loaded(PROGRESS, change(0, b"1", b'{"id":1}'), change(1, b"2", b'{"id":2}'), end)
    assert (loader.is_whole, loader.is_resetting, loader.checkpoint(4).records) == (True, True, 1)


def test_changes_without_a_word_are_no_state() -> None:
    """Nobody knows where they stand."""
    loader, _ = loaded(change(0, b"1", b'{"id":1}'))
    assert not loader.is_whole
