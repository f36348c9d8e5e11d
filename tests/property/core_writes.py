"""What is written to a topic with keys of its own kind: records, malformed values, headers and limits."""

import json
from typing import Any

from hypothesis import strategies as st

from tests.property.model import Body

WINDOW = 20
BYTES_MAX = 250

ids = st.sampled_from([1, "1", 2, "ü", True])
numbers = st.integers(0, 9)
bodies = st.fixed_dictionaries(
    {"id": ids},
    optional={
        "q": numbers,
        "r": st.sampled_from(["n", "s"]),
        "more": st.dictionaries(st.sampled_from("ab"), numbers | st.none(), max_size=2),
        "tags": st.lists(numbers, max_size=2),
        "n": st.none(),
    },
)
malformed = st.sampled_from(
    [
        b"",
        b"{",
        b"[1]",
        b"3",
        b"{}",
        b'{"id":null}',
        b'{"id":""}',
        b'{"id":1.5}',
        b'{"id":{}}',
        b'{"id":1,"more":"' + b"x" * (BYTES_MAX + 2000) + b'"}',
    ]
)
sequences = st.sampled_from(["1", "2", "2.1", "3", "10"])
publishers = (
    st.none()
    | st.tuples(st.sampled_from("abcdefghij"), sequences)
    | st.tuples(st.just("a"), st.sampled_from(["1", "2"]))
)
bad_headers = st.sampled_from(
    [
        ("sow.what", b"1"),
        ("sow.command", b"upsert"),
        ("sow.command", b"define"),
        ("sow.command", b"expire"),
        ("sow.sequence", b"1"),
    ]
)
lifetimes = st.none() | st.sampled_from(["0", "0.001", "0.005", "0.02", "60"])
limits = st.fixed_dictionaries(
    {},
    optional={
        "expiration": st.sampled_from(["enabled", "5ms", "20ms"]),
        "record_bytes_max": st.sampled_from([BYTES_MAX - 100, BYTES_MAX + 50]),
        "repeat_window": st.sampled_from(["0ms", "5ms", "60ms"]),
        "records_max": st.integers(1, 7),
    },
)
other_logs = st.sampled_from(["log2", "LOG", "a-b_c"])
far_offsets = st.sampled_from([0, 1, 2, 99_999_999_999, 2**63])
foreign_headers = st.lists(st.just(("traceparent", b"00-1")), max_size=1)


def encoded(body: Body) -> bytes:
    """Return the body as JSON."""
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()


def text_of(key: Any) -> str:
    """Return the key text of an id."""
    return str(key).lower() if isinstance(key, bool) else str(key)
