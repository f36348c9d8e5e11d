"""Log records as they come by chance: plain ones, odd ones, and the topics that take them."""

import json
from typing import Any

from hypothesis import strategies as st

from sowline.commands.command import Headers
from sowline.model.log_time import CREATE_TIME, LOG_APPEND_TIME, NO_TIME_TYPE, TIME_MAX

Sent = tuple[bytes | None, int, Headers | None]
"""A body, the ms since the record before, and headers."""

KEYS: st.SearchStrategy[Any] = st.one_of(
    st.integers(0, 3),
    st.sampled_from(
        ["0", "1", "a", "", "é", 'a"b', "a\\b", "\x7f", "x" * 300, "x" * 1100, True, False, None, 1.5, [], {}]
    ),
    st.sampled_from([-0.0, -1, 10**17, 10**18, 2**63, 2**64, -(10**17)]),
)
VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-3, 3),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(max_size=5),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.fixed_dictionaries(
    {"id": KEYS},
    optional={
        "a": VALUES,
        "b": VALUES,
        "o": st.dictionaries(st.sampled_from(["a", "b", "é", 'q"', "b\\"]), VALUES, max_size=3),
    },
)


@st.composite
def texts(draw: st.DrawFn) -> bytes:
    """Draw an object as text, with spaces, escapes and names that come again."""
    fields = list(draw(OBJECTS).items())
    if draw(st.booleans()):
        fields = draw(st.permutations(fields))
    if draw(st.integers(0, 9)) == 0:
        fields += draw(st.lists(st.sampled_from(fields), max_size=2))
    space = draw(st.sampled_from(["", "", "", " ", "\n\t ", "\r"]))
    is_ascii = draw(st.booleans())
    parts = [
        f"{json.dumps(name, ensure_ascii=is_ascii)}{space}:{space}{json.dumps(value, ensure_ascii=is_ascii)}"
        for name, value in fields
    ]
    return (space + "{" + space + f"{space},{space}".join(parts) + space + "}" + space).encode(
        "utf-8", "surrogatepass"
    )


ODD_BODIES = st.sampled_from(
    [
        b"",
        b"{",
        b"{}",
        b"[]",
        b"null",
        b'{"id":1}x',
        b'{"id":01}',
        b'{"id":-0}',
        b'{"id":1,}',
        b'{"id":1,"a":1e400}',
        b'{"id":1,"a":1E5,"b":1.0e-7,"c":-0.0}',
        b'{"id":1,"a":' + b"1" * 400 + b"}",
        b'{"id":1,"a":"\xff"}',
        b'{"id":1,"a":"\xed\xa0\x80"}',
        b'{"id":1,"a":"\\ud800"}',
        b'{"id":1,"a":"\\ud83d\\ude00"}',
        b'{"id":1,"a":"\\u0041\\n\\/"}',
        b'{"id":1,"a":"\x01"}',
        b'{"id":1,"\\u0061":1}',
        b'{"i\\u0064":1}',
        b'{"id":1,"a":NaN}',
        b'{"id":1,"a":' + b"[" * 120 + b"]" * 120 + b"}",
        b'{"id":1,"a":' + b'{"a":' * 99 + b"1" + b"}" * 99 + b"}",
        b'{"id":1,"a":"' + b"x" * 1200 + b'"}',
        b"{" + b",".join(b'"f%d":1' % n for n in range(70)) + b',"id":1}',
        b'\xef\xbb\xbf{"id":1}',
        b'{"id":truth}',
        b'{"id":{"id":1}}',
    ]
)
PLAIN_HEADERS = st.fixed_dictionaries(
    {},
    optional={
        "sow.command": st.sampled_from([b"publish", b"sow_delete", b"delta_publish", b"delta_publish"]),
        "sow.correlation": st.sampled_from([b"c1", b"two words", b'q"', "é".encode(), b"", b"x" * 251]),
        "sow.expiration": st.sampled_from(
            [
                b"1",
                b"0",
                b"0.0",
                b"0.0004",
                b"2.5",
                b"1.0005",
                b"0.0025",
                b"1e3",
                b"-1",
                b"9999999999",
                b"1.",
                b".5",
            ]
        ),
        "other": st.sampled_from([b"x", None]),
    },
)
NUMBERED = st.fixed_dictionaries(
    {
        "sow.publisher": st.sampled_from([b"p", b"q", b"r s", b"]}", b"a,b"]),
        "sow.sequence": st.sampled_from([b"1", b"2", b"3", b"4.1", b"4.2", b"5", b"x", b"00006", b"1" * 19]),
    }
)
MANY_PUBLISHERS = st.fixed_dictionaries(
    {
        "sow.publisher": st.integers(0, 11).map(lambda n: b"p%d" % n),
        "sow.sequence": st.integers(0, 5).map(lambda n: b"%d" % n),
    }
)
RARE_HEADERS = st.sampled_from(
    [
        [("sow.command", b"sow_delete")],
        [("sow.command", b"sow_delete"), ("sow.filter", b"/a IS NOT NULL")],
        [("sow.command", b"sow_delete"), ("sow.filter", b"1=1")],
        [("sow.command", b"define")],
        [("sow.command", b"nonsense")],
        [("sow.publisher", b"p")],
        [("sow.origin", b"log:1@1")],
        [("sow.origin", b"log:1@2")],
        [("sow.origin", b"other:1@2")],
        [("traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")],
        [("sow.command", b"publish"), ("sow.command", b"delta_publish")],
        [("sow.command", None)],
        [("sow.command", b"expire")],
        [("sow.guard", b"1")],
        [("sow.command", b"expire"), ("sow.guard", b"-1")],
        [("sow.command", b"expire"), ("sow.guard", b"0/1.0")],
        [("sow.command", b"expire"), ("sow.guard", b"1"), ("sow.correlation", b"c")],
    ]
)
HEADERS = st.one_of(
    st.none(),
    st.just([]),
    PLAIN_HEADERS.map(lambda named: list(named.items())),
    st.tuples(PLAIN_HEADERS, NUMBERED).map(lambda both: list((both[0] | both[1]).items())),
    MANY_PUBLISHERS.map(lambda named: list(named.items())),
    RARE_HEADERS,
)
ENRICHMENTS = [
    ["/a * 2 AS /v"],
    ["/a + 1 AS /v HINT OPTIONAL", "/b AS /o/w HINT OPTIONAL"],
    ["/a AS /a HINT OPTIONAL HINT SET_CURRENT", "CONCAT(/a, '!') AS /text"],
    ["COALESCE(/n OF PREVIOUS, 0) + 1 AS /n", "/a OF PREVIOUS AS /was HINT OPTIONAL"],
    ["CONCAT(SOW_KEY(), ' ', BOOKMARK(), ' ', CORRELATION_ID()) AS /about"],
    ["MESSAGE_SIZE() AS /size", "LAST_UPDATED() AS /before", "UNIX_TIMESTAMP() AS /o/now"],
]
KAFKA_KEY: Any = {"from": "kafka_key"}
LIMITS = st.fixed_dictionaries(
    {
        "key": st.sampled_from(
            ["/id", "/id", "/id", ["/id", "/a"], "/o/a", ["/o/a", "/id", "/o/b/a"], KAFKA_KEY]
        )
    },
    optional={
        "partitions": st.sampled_from([1, 2]),
        "expiration": st.sampled_from(["enabled", "1s", "disabled"]),
        "repeat_window": st.sampled_from(["5ms", "100ms"]),
        "record_bytes_max": st.sampled_from([1024, 100_000]),
        "records_max": st.sampled_from([2, 4]),
        "delta": st.booleans(),
        "enrichment": st.sampled_from(ENRICHMENTS),
    },
)
ODD = st.tuples(st.one_of(texts(), texts(), texts(), ODD_BODIES, st.none()), st.integers(-2, 30), HEADERS)
PLAIN_BODIES = st.fixed_dictionaries(
    {"id": st.integers(0, 3), "a": VALUES}, optional={"o": st.dictionaries(st.sampled_from("ab"), VALUES)}
)
PLAIN = st.tuples(
    st.none()
    | PLAIN_BODIES.map(lambda body: json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")),
    st.integers(-2, 30),
    st.one_of(
        st.none(),
        st.just([("sow.command", b"delta_publish")]),
        st.tuples(st.sampled_from([b"p", b"q"]), st.integers(0, 9)).map(
            lambda pair: (
                [("sow.publisher", pair[0]), ("sow.sequence", b"%d" % pair[1])]
                + [("sow.command", b"sow_delete")] * (pair[1] % 3 == 2)
            )
        ),
        st.integers(0, 9).map(lambda offset: [("sow.origin", b"log:1@%d" % offset)]),
        st.tuples(st.integers(0, 3), st.integers(0, 9)).map(
            lambda pair: [
                ("sow.publisher", b"p"),
                ("sow.sequence", b"%d" % pair[0]),
                ("sow.origin", b"log:2@%d" % pair[1]),
            ]
        ),
        st.just([("sow.correlation", b"c"), ("sow.expiration", b"0.02"), ("sow.command", b"delta_publish")]),
        st.integers(0, 9).map(lambda guard: [("sow.command", b"expire"), ("sow.guard", b"%d" % guard)]),
    ),
)
RECORDS = st.lists(st.one_of(PLAIN, PLAIN, PLAIN, ODD), max_size=25)

KAFKA_KEYS = st.sampled_from(
    [b"1", b"2", b"two words", None, b"", "é".encode(), b"\x7f", b"\x00", b"\xff", b"x" * 255, b"x" * 256]
)
PRODUCERS_TIMES = st.tuples(
    st.sampled_from([NO_TIME_TYPE, CREATE_TIME, LOG_APPEND_TIME]),
    st.sampled_from([-1, 0, 900, 1005, 5000, TIME_MAX, TIME_MAX + 1, 2**63 - 1]),
)
"""Whose time a log record has, and the time."""
