"""The most expensive requests that one client can send; `bench turns` and tests share them.

Each is a command that a session takes. They are made on request, because some have megabytes.
"""

from collections.abc import Iterator
from itertools import chain
from typing import Any

import orjson

KIB = 1024
FRAME_BYTES = 4 * KIB * KIB - 2000
"""About as large as a frame may be by default; texts with escapes are larger."""

SIZES = (1000, 16 * KIB, 60 * KIB, FRAME_BYTES)
OPTION_SIZES = (1000, 16 * KIB, 60 * KIB, 250 * KIB, FRAME_BYTES)

Named = Iterator[tuple[str, str]]
Command = dict[str, Any]

PATTERNS_TOO_LARGE: dict[str, str] = {
    "stars": "(a|b)*" * 100_000,
    "letters": r"\pL" * 21_500,
    "letters of 4 KiB": r"\pL" * 1364,
    "letters in any case": "(?i)" + r"\PL" * 1360,
    "classes of letters in any case": "(?i)" + r"[\pL\PL]" * 510,
    "a thousand letters": r"\pL{1000}",
    "nested repetitions": "((a{1000}){1000})",
    "nested ranges": "((a{1,31}){1,31})" * 240,
    "ranges of repetitions": "a{1,999}" * 500,
    "repetitions": "a{1000}" * 580,
    "optional parts, repeated": "(?:" + "a?" * 2040 + "){8}",
    "megabytes": "a*" * (FRAME_BYTES // 2),
}
"""Patterns beyond the limits of Sowline. None here begins with `^`."""

PATTERNS_REFUSED: dict[str, str] = {
    "open groups": "(" * 4095,
    "an open class": "[" * 4095,
    "stars of stars": "a" + "*" * 4000,
}
"""Patterns within the limits that RE2 refuses."""

PATTERNS_TAKEN: dict[str, str] = {
    "stars of 4 KiB": "(a|b)*" * 680,
    "unicode classes": r"\pL|" * 20,
    "unicode classes in any case": "(?i)" + r"[^\PL]" * 19,
    "unicode classes and ranges": r"(?:\pL.{1,99}(a|b)*$x\PL.?(a|b)*)" * 6,
    "optional": "a?" * 2047,
    "optional, longer": "a?" * 1900 + "a{1,99}",
    "any characters": "." * 4090,
    "caseless": "(?i)" + "k" * 4090,
    "ranges of letters": "(?i)" + "[À-ỿ]" * 400,  # noqa: RUF001 - the range is meant
    "groups": "(" * 2000 + "a" + ")" * 2000,
    "literal": "x" * 4090 + ".",
    "many automaton states": "(?:a?b?){500}c",
    "many automaton states of short texts": "(?:a?b?){50}c",
    "a long counter": ".{1000}",
}
"""Patterns within all limits, the most expensive that are known."""

PATTERNS = PATTERNS_TOO_LARGE | PATTERNS_REFUSED | PATTERNS_TAKEN


def commands() -> Iterator[tuple[str, Command]]:
    """The commands by name, without their ids; those that name no topic are about `orders`."""
    return chain(
        _of_topics(), _of_filters(), _of_options(), _of_positions(), _of_conditions(), _of_the_rest()
    )


def _of_topics() -> Iterator[tuple[str, Command]]:
    for command in ("sow", "subscribe", "sow_delete"):
        for name, pattern in PATTERNS.items():
            yield f"{command}, topic of {name}", {"command": command, "topic": "^" + pattern, "filter": "1=1"}
    yield "a topic of megabytes", {"command": "sow", "topic": "x" * FRAME_BYTES}


def filters() -> Named:
    """Filters, by what they are full of."""
    for name, pattern in PATTERNS.items():
        yield f"LIKE {name}", f"/text LIKE '{pattern}'"
        yield f"REGEXP_MATCH {name}", f"REGEXP_MATCH(/text, r'{pattern}') = 'x'"
    yield "2,000 LIKEs", " OR ".join(f"/text LIKE '(?i){number}k+'" for number in range(2000))
    yield "100 LIKEs of classes", " OR ".join(f"/a LIKE '{n}" + r"\PL" * 200 + "'" for n in range(100))
    yield "100 LIKEs of optional parts", " OR ".join(f"/a LIKE '{n}" + "a?" * 38 + "'" for n in range(100))
    yield "100 plain LIKEs", " OR ".join(f"/a LIKE '{n}" + "x" * 600 + "'" for n in range(100))
    yield "patterns of the record", " OR ".join(f"REGEXP_MATCH(/a, /p{n}) = 'x'" for n in range(100))
    for size in SIZES:
        for name, text in _filters_of(size):
            yield f"{name}, {size}", text


def _filters_of(size: int) -> Named:
    yield "ORs", " OR ".join(["/a=1"] * (size // 8))
    yield "ORs of paths", " OR ".join(f"/f{number}" for number in range(size // 12))
    yield "a list", f"/a IN ({','.join(['1'] * (size // 2 - 10))})"
    yield "a list of texts", f"/a IN ({','.join(map(repr, ['x'] * (size // 4 - 10)))})"
    yield "parentheses", "(" * (size // 2 - 10) + "1=1" + ")" * (size // 2 - 10)
    yield "NOTs", "NOT " * (size // 4 - 2) + "1=1"
    yield "signs", "-" * (size - 10) + "1=1"
    yield "sums", "1+" * (size // 2 - 10) + "1=1"
    yield "a string", "/a='" + r"\'" * (size // 2 - 10) + "'"
    yield "an unterminated string", "/a='" + r"\'" * (size // 2 - 10)
    yield "a path", "/a" * (size // 2 - 10) + "=1"
    yield "a path in brackets", "[/" + "a/" * (size // 2 - 20) + "a]=1"
    yield "digits", "/a=" + "9" * (size - 10)
    yield "blanks", " " * (size - 10) + "1=1"
    yield "a call", "CONCAT(" + ",".join(["'x'"] * (size // 4 - 10)) + ")='x'"
    yield "calls", " OR ".join(["NOW()"] * (size // 9))
    yield "a condition", "CONDITION('" + "(" * (size - 30) + "')"
    yield (
        "a condition of likes",
        f"CONDITION('or({','.join(['like(`*a*b*`)'] * (size // 18))})')".replace("`", '"'),
    )


def _of_filters() -> Iterator[tuple[str, Command]]:
    for name, text in filters():
        yield f"sow, {name}", {"command": "sow", "filter": text}
        yield f"sow_delete, {name}", {"command": "sow_delete", "filter": text}


def _options_of(size: int) -> Named:
    fields = ",".join(f"/f{number}" for number in range(size // 8))
    yield "select", "select=[" + fields.replace("/", "-/") + "]"
    yield "a path of select", f"select=[-{'/a' * (size // 2 - 20)}]"
    yield "paths of select", f"select=[{','.join(['-' + '/a' * (size // 520)] * 250)}]"
    yield "open brackets", "select=" + "[" * (size - 10)
    yield "commas", "," * (size - 10)
    yield "words", ",".join(["oof"] * (size // 4 - 2))
    yield "quotes", "projection=[" + "'" * (size - 20)
    yield "grouping", f"grouping=[{fields}],projection=[/a]"
    yield "projection", f"grouping=[/a],projection=[{fields}]"
    yield "projected sums", "grouping=[/a],projection=[" + "1+" * (size // 2 - 40) + "1 AS /x]"
    yield "projected parentheses", "grouping=[/a],projection=[" + "(" * (size - 50) + "]"
    yield "conflation_key", f"conflation=auto,conflation_key=[{fields}]"
    yield "rate", "rate=" + "1" * (size - 20)


def _of_options() -> Iterator[tuple[str, Command]]:
    likes = (f"IF(/a LIKE '{number}{'a?' * 100}', 1, 2) AS /x{number}" for number in range(200))
    yield "projected LIKEs", {"command": "sow", "options": f"grouping=[/a],projection=[{','.join(likes)}]"}
    for size in OPTION_SIZES:
        for name, text in _options_of(size):
            yield f"sow, {name}, {size}", {"command": "sow", "options": text}
            yield f"sow_and_subscribe, {name}, {size}", {"command": "sow_and_subscribe", "options": text}


def _of_positions() -> Iterator[tuple[str, Command]]:
    for size in SIZES:
        for name, bookmark in _bookmarks_of(size):
            yield f"{name}, {size}", {"command": "subscribe", "bookmark": bookmark}
        for name, order in _orders_of(size):
            yield f"{name}, {size}", {"command": "sow", "order_by": order}
        end = ";".join(f"t{number}:0@1" for number in range(size // 10))
        yield f"an end, {size}", {"command": "subscribe", "up_to": end}


def _bookmarks_of(size: int) -> Iterator[tuple[str, str | list[str]]]:
    yield "a list of bookmarks", ["orders:0@1"] * (size // 13)
    yield "a text of bookmarks", orjson.dumps(["orders:0@1"] * (size // 16)).decode()
    yield "a list in a list", '["' + "[" * (size - 20)
    yield "a bookmark of logs", ";".join(f"t{number}:0@1" for number in range(size // 10))
    yield "a bookmark of partitions", "orders:" + ",".join(f"{number}@1" for number in range(size // 9))
    yield "a range of dots", "[" + ".." * (size // 2 - 10) + "]"
    yield "a range of ranges", "[orders:0@1" + "..orders:0@1" * (size // 12 - 10) + "]"


def _orders_of(size: int) -> Named:
    yield "an order", ",".join(["/a DESC"] * (size // 9))
    yield "an order by a path", "/a" * (size // 2 - 10)
    yield "an order of brackets", "[" * (size - 10)


def _of_conditions() -> Iterator[tuple[str, Command]]:
    for size in SIZES:
        for name, condition in _conditions_of(size):
            yield f"{name}, {size}", {"command": "sow", "condition": condition}


def _conditions_of(size: int) -> Named:
    yield "a condition of brackets", "(" * (size - 10)
    yield "an and", f"and({','.join(['gt(1)'] * (size // 6 - 5))})"
    yield "an and of likes", "and(" + ",".join(['like("*a*b*")'] * (size // 14 - 5)) + ")"
    yield "a like", 'like("' + "a*" * (size // 2 - 10) + '")'
    yield "a map", "{..," + ",".join(f'"f{number}":1' for number in range(size // 10)) + "}"
    yield "an in", f"in({','.join(map(str, range(size // 7)))})"


def _of_the_rest() -> Iterator[tuple[str, Command]]:
    record = {"id": 1}
    for size in SIZES:
        named = "x," * (size // 2 - 60)
        yield f"keys, {size}", {"command": "sow", "sow_keys": named}
        yield f"a list of keys, {size}", {"command": "subscribe", "sow_keys": ["1"] * (size // 4 - 20)}
        yield f"ack_type, {size}", {"command": "sow", "ack_type": named}
        yield f"unsubscribe, {size}", {"command": "unsubscribe", "sub_id": named}
        yield f"pause, {size}", {"command": "pause", "sub_id": named}
        yield f"tags, {size}", {"command": "publish", "tags": named, "data": record}
        yield (
            f"traceparent, {size}",
            {"command": "publish", "traceparent": "00-" * (size // 3 - 40), "data": record},
        )
        yield f"a key, {size}", {"command": "timeline", "key": "a" * (size - 60)}
        yield f"a delta, {size}", {"command": "delta", "key": "a", "data": "[" * (size - 80)}
