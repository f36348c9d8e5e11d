"""The native core writes documents as Python does: the same changes, metadata, stored bytes and refusals."""

import json
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sowline.commands.command import Headers
from sowline.config.topic_definition import define_topic
from tests.property.log_inputs import HEADERS, KAFKA_KEY, ODD_BODIES, VALUES, Sent
from tests.property.two_cores import apply_alike, check, log_records, native, partition_of

KEY_TEXTS = ["1", "2", "x", 'q"', "é", "", '["1","x"]', '["1", "x"]', '["1"]', "x" * 300, "x" * 1100]
NAMES = ["id", "id", "a", "b", "a", "b", "o", "é", "\ue000", "\U00010000", "~id", "~x", 'q"', "type"]
ID = "0af76519-16cd-43dd-8448-eb211c80319c"
MEMBERS = st.lists(
    st.tuples(
        st.sampled_from(NAMES),
        VALUES
        | st.sampled_from(
            ["1", 1, 2, "x", True, {"a": "x", "b": 1}, {"b": 1, "a": "x"}, [{}, 1], "\x00\x1f\x7f"]
        ),
    ),
    max_size=4,
)
NUMBERS = st.sampled_from(
    [
        *(
            "-0",
            "-0.0",
            "0.0",
            "1.0",
            "1.50",
            "100.00",
            "0.0001",
            "0.00012",
            "0.00001",
            "1e5",
            "1E-7",
            "1e400",
        ),
        *("123456789012345.6", "12345678901234.5", "0.30000000000000004", "1" * 18, "1" * 19, "9" * 30, "01"),
    ]
)
ODD_DELTAS = [
    *(
        "~",
        "..",
        "{..}",
        "{}",
        "{..}?",
        '{..,"a":~}',
        '{..,"a":{..,"b":1}}',
        '{..,"a":(..,1)}',
        "[1]",
        "",
        "{",
    ),
    *('if ~ then {"a":1} end', 'if {..,"a":1} then {..,"b":2} end', '{..,"a":1}?', '{..,"a":1} x'),
    *('\x01{ .. ,\n"a" : 1 }\x0b', '{..,"a":1,"a":2}', '{"a":{"b":1,"b":2}}', '{..,"\\u0061":1}'),
    *('{"a":"\\ud800"}', '{"a":"\\ud83d\\ude00\\n\\/"}', '{"a":' + "[" * 120 + "]" * 120 + "}"),
]


@st.composite
def deltas(draw: st.DrawFn) -> str:
    """Draw a delta: most are an object, or a map of fields to set."""
    if draw(st.integers(0, 7)) == 0:
        return draw(st.sampled_from(ODD_DELTAS))
    is_ascii, blank = draw(st.booleans()), draw(st.sampled_from(["", "", " ", "\n"]))
    parts = [
        f"{json.dumps(name, ensure_ascii=is_ascii)}{blank}:{json.dumps(value, ensure_ascii=is_ascii)}"
        for name, value in dict(draw(MEMBERS)).items()
    ]
    if draw(st.integers(0, 3)) == 0:
        parts.append(f'"n":{draw(NUMBERS)}')
    dots = draw(st.sampled_from(["", "..,", "..,"]))
    return f"{{{dots}{blank}{f'{blank},'.join(parts)}{blank}}}"


DELTA: Headers = [("sow.command", b"delta")]
MORE_HEADERS = st.lists(
    st.sampled_from(
        [
            *(
                ("sow.tags", tags)
                for tags in (b"t", b"t", b"u, t,,t", b" ", b",", b'q"\\', "é".encode(), b"x" * 101)
            ),
            ("sow.tags", b",".join(b"%d" % n for n in range(17))),
            *(
                ("sow.change_id", id.encode())
                for id in (ID, ID.upper(), ID.replace("-", ""), "c1", f"{{{ID}}}")
            ),
            ("sow.change_id", b"0af76519-16cd-43dd-8448-eb211c80319-c"),
            ("sow.expiration", b"0.02"),
            ("sow.correlation", b"c"),
            ("sow.origin", b"log:1@7"),
        ]
    ),
    max_size=2,
)
DELTAS: st.SearchStrategy[Sent] = st.tuples(
    deltas().map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.integers(-2, 30),
    st.tuples(MORE_HEADERS, HEADERS | st.none()).map(lambda both: [*(both[1] or ()), *DELTA, *both[0]]),
)
BODIES: st.SearchStrategy[Sent] = st.tuples(
    st.none() | ODD_BODIES | MEMBERS.map(lambda body: json.dumps({"id": 1} | dict(body)).encode()),
    st.integers(-2, 30),
    st.tuples(HEADERS, MORE_HEADERS).map(lambda both: [*(both[0] or ()), *both[1]]),
)
TOPICS = st.fixed_dictionaries(
    {"key": st.sampled_from(["/id", "/id", ["/id", "/a"], "/o/a", KAFKA_KEY])},
    optional={
        "partitions": st.sampled_from([1, 2]),
        "expiration": st.just("1s"),
        "record_bytes_max": st.just(1024),
        "records_max": st.just(2),
        "repeat_window": st.just("5ms"),
        "delta": st.booleans(),
        "template": st.sampled_from([{"type": "review"}, {"type": {"a": [1.5]}, "v": None}, {'q"': 1}]),
    },
)


@given(
    topic=TOPICS,
    sent=st.lists(DELTAS | DELTAS | BODIES, max_size=25),
    cuts=st.lists(st.integers(0, 25), max_size=3),
    discarded=st.booleans(),
    run_max=st.sampled_from([1, 1, 64]),
    keys=st.lists(st.sampled_from(KEY_TEXTS), min_size=1, max_size=3),
)
@example(
    topic={"key": "/id"},
    sent=[
        (b'{"a":{"x":1,"y":2}}', 0, DELTA),
        (b'{"a":{"y":2,"x":1}}', 1, DELTA),
        (b'{"b":1,"a":{"x":1,"y":3}}', 1, [*DELTA, ("sow.tags", b"t")]),
        (b'{"a":{"x":1,"y":3},"b":1}', 1, [*DELTA, ("sow.tags", b"t")]),
        (b'{"a":{"x":1,"y":3},"b":1}', 1, DELTA),
        (None, 1, None),
        (None, 1, DELTA),
        (b'{..,"b":1}', 1, DELTA),
        (b'{..,"id":2}', 1, DELTA),
        (b'{..,"id":"1"}', 1, DELTA),
    ],
    cuts=[],
    discarded=False,
    run_max=1,
    keys=["1"],
)
@example(
    topic={"key": "/id", "partitions": 2},
    sent=[(None, 0, [("sow.tags", b"x" * 101)]), (b"{..}", 0, DELTA)],
    cuts=[],
    discarded=False,
    run_max=1,
    keys=["1"],
)
def test_native_is_python(
    topic: dict[str, Any],
    sent: list[Sent],
    cuts: list[int],
    discarded: bool,
    run_max: int,
    keys: list[str],
) -> None:
    """Whatever comes, in whatever batches."""
    with patch("sowline.native.RUN_MAX", run_max):
        check(topic | {"documents": True}, sent, cuts, discarded, kafka_keys=[key.encode() for key in keys])


PLAIN: list[tuple[bytes | None, Headers]] = [
    (b'{"a":1.50,"o":{"x":[1,{"y":null}]},"t":"\\n\\u00e9"}', DELTA),
    (b'{..,"b":"x","a":2}', DELTA),
    (b'{..,"b":"x"}', [*DELTA, ("sow.tags", b"t,u"), ("sow.change_id", ID.encode())]),
    (b'{"id":"1","a":1}', []),
    (b'{"id":"1","c":1}', [("sow.command", b"delta_publish")]),
    (None, []),
    (b'{..,"a":1}', DELTA),
]


@pytest.mark.parametrize("template", [{}, {"type": "review"}])
def test_plain_writes_are_not_left_to_python(template: dict[str, Any]) -> None:
    """Literals, maps of fields, publishes and deletes: the native core makes each of these changes."""
    definition = define_topic(name="reviews", key="/id", documents=True, template=template)
    (one, _), (other, _) = partition_of(definition, native), partition_of(definition, None)
    batch = [(n, 1000 + n, b"1", value, headers) for n, (value, headers) in enumerate(PLAIN)]
    with patch("sowline.native.RUN_MAX", 1):
        changes = apply_alike(one, other, batch, 0).step.changes
    assert [isinstance(change, native.Change) for change in changes] == [True] * len(PLAIN)
    assert [change.op for change in changes[2:6]] == ["delta", "publish", "delta_publish", "delete"]


def test_only_documents_have_deltas() -> None:
    """Elsewhere a delta is refused, and tags are left to Python."""
    definition = define_topic(name="orders", key="/id")
    (one, _), (other, _) = partition_of(definition, native), partition_of(definition, None)
    headers = [DELTA, [("sow.tags", b"t")], [("sow.change_id", ID.encode())]]
    step = apply_alike(one, other, [(n, 1, b"1", b'{"id":1}', one) for n, one in enumerate(headers)], 0).step
    assert [letter.reason for letter in step.dead] == ["no documents"]
    assert len(step.changes) == 2


def test_documents_are_read_ahead_by_their_kafka_keys() -> None:
    """Deltas without key fields do not make one read of the store for each."""
    partition, disk = partition_of(define_topic(name="reviews", key="/id", documents=True), native)
    reads: list[int] = []
    get_many = disk.get_many

    def read_many(keys: list[bytes]) -> list[bytes | None]:
        reads.append(len(keys))
        return get_many(keys)

    disk.get_many = read_many  # type: ignore[assignment, method-assign]
    batch = [(n, 1, b"%d" % n, b'{..,"a":1}', DELTA) for n in range(100)]
    partition.prepare(log_records(batch), 0)
    assert sum(reads) == 100
    assert len(reads) < 10
