"""The native core loads what Python loads: the same entries, due times, checksums, and parts of a checkpoint."""

import random
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from sowline.changes.change import Change
from sowline.changes.event import Event, read_event
from sowline.changes.progress import Progress
from sowline.commands.command import Headers
from sowline.config.topic_definition import TopicDefinition, define_topic
from sowline.model.position import Position
from sowline_materializer.core.record import Record, encode_record
from sowline_materializer.partition.changes_loader import ChangesLoader
from sowline_materializer.store.checksum import Checksum, entry_hash, expiry_entry, expiry_hash
from sowline_materializer.store.integrity import survey
from tests.memory_store import MemoryStore
from tests.panics import panic
from tests.property.histories import TOPIC_ID, random_event
from tests.property.world import Written

native: Any = pytest.importorskip("sowline_native")

KEYS: list[Any] = ["/id", ["/id", "/n"], "/k/id", ["/id", "/k/id"], {"from": "kafka_key"}]
DEFINITION, *_ = DEFINITIONS = [define_topic(name="orders", key=key) for key in KEYS]
BODIES = [
    b'{"id":"%s"}',
    b'{ "id" : "%s", "a":{"b":[1,2.5,null,true]}}',
    b'{"a":1,"id":"%s","n":true,"a":"\\u00e9"}',
    b'{"id":"%s","a":1e400}',
    b'{"id":"\xc3\xa9%s"}',
    b'{"id":"\\u0061%s"}',
    b'{"id":["%s"]}',
    b'{"id":"%s"',
]
HEADERS: list[Any] = [
    None,
    ("sow", b'{"position":"5","after":"4","op":"publish","time":7}'),
    ("sow", b'{"position":"05","after":"4","op":"publish","time":7}'),
    ("traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    ("other", b"x"),
    ("sow.previous", None),
]


def random_change(chance: random.Random, change: Change) -> Change:
    """Return a change with some of the fields that not every change has, and a body of any kind."""
    if chance.random() < 0.5:
        return change
    named: dict[str, Any] = {}
    if change.body is not None:
        named["body"] = chance.choice(BODIES[:3] if chance.random() < 0.9 else BODIES) % change.sow_key
        named["previous"] = chance.choice((None, b"{}"))
        named["expires"] = chance.choice((None, None, 9, 12))
        named["correlation"] = chance.choice((None, None, "c", 'q"', "é"))
        if change.op == "publish":
            named["op"] = chance.choice(("publish", "delta_publish"))
    named["schema_id"] = chance.choice((None, None, 7))
    named["numbers"] = chance.choice((None, {"p": (1, 0, 5)}, {"p": (1, 0, 5), 'q"': (2**40, 1, 6)}))
    named["time"] = chance.choice((7, 8, 100))
    return replace(change, **named)


def random_messages(seed: int, count: int = 30) -> list[Written]:
    """Return the messages of a changes partition as its owners, and a few strangers, write them."""
    chance = random.Random(seed)
    held, offset = Position(0, -1), 0
    has_holes, is_calm = chance.random() < 0.3, chance.random() < 0.7
    messages: list[Written] = []
    for _ in range(count):
        event = calm_event(chance, held) if is_calm and chance.random() < 0.9 else random_event(chance, held)
        if isinstance(event, Change):
            event = random_change(chance, event)
        held = max(held, event.position)
        messages.append(written(chance, offset, event))
        offset += chance.choice((1, 1, 1, 2)) if has_holes else 1
    return messages


def calm_event(chance: random.Random, held: Position) -> Event:
    """Return the next event of an undisturbed owner."""
    if held.offset < 0:
        return Progress(Position(held.era, 0), held, 0, {}, "digest", "log", 0, {}, changes_id=TOPIC_ID)
    key = chance.choice("abcdefgh").encode()
    body = b'{"id":"%s","n":%d,"k":{"id":1}}' % (key, chance.randrange(99))
    return Change(key, body, None, Position(held.era, held.offset + 1), held, "publish", 7)


def written(chance: random.Random, offset: int, event: Event) -> Written:
    """Return the event as a message; now and then with other headers."""
    if isinstance(event, Progress):
        return Written(offset, event.key, event.value(), [])
    headers = event.headers()
    if chance.random() < 0.05 and (more := chance.choice(HEADERS)) is not None:
        headers = [*headers, more] if chance.random() < 0.5 else [more, *headers]
    return Written(offset, event.sow_key, event.value, headers)


def loaded(definition: TopicDefinition, batches: Iterable[Sequence[Any]], pending: int, module: Any) -> Any:
    """Load messages in batches with one of the cores; return all that comes of it, or the error."""
    store = MemoryStore()
    loader = ChangesLoader(store, definition, TOPIC_ID, module, pending)
    count = 0
    try:
        for messages in batches:
            loader.load_messages(messages)
            count += len(messages)
    except Exception as error:
        return type(error)
    loader.finish()
    assert survey(store).checksum == store.checksum()
    wholeness = loader.reader.wholeness
    assert wholeness is not None
    return (
        dict(store.scan()),
        list(store.expiries()),
        store.checksum(),
        loader.progress and loader.checkpoint(count),
        loader.stale_keys,
        loader.has_changes,
        loader.is_whole,
        loader.is_resetting,
        wholeness.state,
        wholeness.is_whole,
        vars(loader._newest_events),
        survey(store).tombstones if loader.has_tombstones else [],
    )


def cut(messages: Sequence[Written], cuts: Iterable[int]) -> list[Sequence[Written]]:
    """Return messages in batches, of which none is empty."""
    ends = [0, *sorted(cuts), len(messages)]
    return [messages[start:end] for start, end in pairwise(ends) if messages[start:end]]


def load_alike(seed: int) -> int:
    """Let both cores load the same messages; return how many. Raise AssertionError where they differ."""
    chance = random.Random(seed)
    messages = random_messages(seed)
    batches = cut(messages, [chance.randrange(len(messages)) for _ in range(chance.randrange(4))])
    pending = chance.choice((1, 300, 2000, 10**9))
    given = chance.choice(DEFINITIONS), batches, pending
    assert loaded(*given, native) == loaded(*given, None), seed
    return len(messages)


@given(st.integers(0, 2**60))
@example(0)
def test_native_loads_what_python_loads(seed: int) -> None:
    """Whatever owners have written, in whatever batches, and however often entries go to the store meanwhile."""
    load_alike(seed)


def test_plain_changes_are_not_left_to_python() -> None:
    """Of an undisturbed owner's changes, Python reads the first messages only: a progress event, and one change."""
    first = calm_event(random.Random(1), Position(0, -1))
    assert isinstance(first, Progress)
    messages = [Written(0, first.key, first.value(), [])]
    for offset in range(1, 500):
        key, after = b"%d" % (offset % 50), Position(0, offset - 1)
        body = b'{"id":"%b"}' % key
        change = Change(key, body, b"{}", Position(0, offset), after, "publish", offset)
        if offset % 7 == 0:
            change = replace(change, time=10**12, log_time=offset)
        messages.append(Written(offset, key, body, change.headers()))
    store = MemoryStore()
    loader = ChangesLoader(store, DEFINITION, TOPIC_ID, native)
    with patch.object(loader, "load", side_effect=loader.load) as python:
        loader.load_messages(messages)  # type: ignore[arg-type]
    assert [call.args[1] for call in python.call_args_list] == [[0, 1]]
    loader.finish()
    assert (len(dict(store.scan())), loader.checkpoint(0).time) == (50, 499)


HEADER_TEXTS = st.builds(
    lambda position, after, op, time, more: (
        f'{{"position":"{position}","after":"{after}","op":"{op}","time":{time}{more}}}'.encode()
    ),
    st.sampled_from(
        ["5", "0", "-1", "5.1", "05", "123456789012345678", "1234567890123456789", "", "x", "-2"]
    ),
    st.sampled_from(["4", "-1", "1/4", "1/4.2", "0/-1", "4.0", "4.0/5", "/4", "1/", "4/5/6"]),
    st.sampled_from(["publish", "delta_publish", "again", "expire", "Publish", 'p"']),
    st.sampled_from(["7", "0", "-7", "7.5", "007", "1e3"]),
    st.lists(
        st.sampled_from(
            [
                ',"era":1',
                ',"era":0',
                ',"era":4294967296',
                ',"last":false',
                ',"expires":9',
                ',"expires":null',
                ',"correlation":"c"',
                ',"correlation":"\\u0041"',
                ',"correlation":"é"',
                ',"numbers":{"p":[1,0,5]}',
                ',"numbers":{"p":[1,0,5],"q":[2,3,4]}',
                ',"numbers":{"p":[1,0,5],"p":[2,3,4]}',
                ',"numbers":{}',
                ',"numbers":{"p":[1,0]}',
                ',"schema_id":7',
                ',"schema_id":-7',
                ',"emitted_in":3',
                " ",
            ]
        ),
        max_size=3,
    ).map("".join),
)


@given(HEADER_TEXTS)
@example(b'{"position":"5","after":"0.0/-1","op":"publish","time":7}')
def test_headers_are_read_as_python_reads_them(text: bytes) -> None:
    """What the native core reads, Python reads too, and to the same change."""
    read_alike(text)


def read_alike(text: bytes) -> bool:
    """Let both cores read a header `sow`; return whether the native one did. Raise AssertionError if they differ."""
    headers: Headers = [("sow.previous", b"{}"), ("sow", text)]
    found = native.read_about(headers)
    if found is None:
        return False
    change = read_event(b"1", b"{}", headers)
    assert isinstance(change, Change), text
    record = Record(b"", "1", change.position, change.time, None, change.numbers, change.correlation)
    rare = encode_record(record)[40:]
    is_delta = change.op == "delta_publish"
    assert (found.position, found.after, found.is_delta) == (change.position, change.after, is_delta), text
    assert (found.time, found.expires) == (change.time, change.expires), text
    assert found.correlation == (None if change.correlation is None else change.correlation.encode()), text
    if found.numbers is not None:
        assert rare.startswith(b"[" + found.numbers + b","), text
    return True


@given(
    st.dictionaries(st.binary(min_size=1, max_size=5), st.sampled_from(["live", "deleted", "due"])),
    st.integers(1, 5),
)
def test_a_store_is_surveyed_as_python_does(kinds: dict[bytes, str], portion: int) -> None:
    """The checksum, and the deleted records that are remembered."""
    store, entries, expiries = MemoryStore(), dict[bytes, bytes](), dict[bytes, bool]()
    for number, (key, kind) in enumerate(kinds.items()):
        body, expires = (None if kind == "deleted" else b"{}"), (number if kind == "due" else None)
        numbers = {"p": (1, 0, 5)} if kind == "deleted" else None
        entries[key] = encode_record(Record(body, "k", Position(0, number), number, expires, numbers))
        if expires is not None:
            expiries[expiry_entry(expires, key)] = True
    sums = [entry_hash(*entry) for entry in entries.items()] + [expiry_hash(due) for due in expiries]
    store.commit(entries, Checksum(len(sums), sum(sums)), b"", expiries)
    found = survey(store, native)
    assert found == survey(store)
    assert found == survey(store, type("Module", (), {"survey": panic}))  # type: ignore[arg-type]
    assert found.checksum == store.checksum()
    assert len(found.tombstones) == sum(kind == "deleted" for kind in kinds.values())
