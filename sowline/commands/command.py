"""Commands on the log: reads and checks the headers of a Kafka record, and writes them for publishers."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeGuard, cast

import msgspec
import orjson

from sowline.errors import SowlineError
from sowline.model.key import check_header_key
from sowline.model.limits import LIFETIME_MS_MAX
from sowline.model.log_time import LOG_APPEND_TIME
from sowline.model.position import Position

PUBLISH = "publish"
DELTA_PUBLISH = "delta_publish"
SOW_DELETE = "sow_delete"
EXPIRE = "expire"
DEFINE = "define"
PARTIALS = "partials"
DELTA = "delta"
COMMANDS = frozenset({PUBLISH, DELTA_PUBLISH, DELTA, SOW_DELETE, EXPIRE, DEFINE, PARTIALS})

TAGS_MAX = 16
TAG_CHARS_MAX = 100

EXPIRATION_SECONDS_MAX = LIFETIME_MS_MAX // 1000
"""The longest lifetime that a command may request."""

PARTITION_MAX = (1 << 31) - 1
"""The highest number of a partition that Kafka has."""

_TOPIC_ID = re.compile("[A-Za-z0-9+/_-]{1,100}")
"""Kafka's id of a topic as text: base64 in either alphabet, so it contains neither `:` nor `@`."""

Headers = list[tuple[str, bytes | None]]

UNREADABLE_HEADERS: Headers = [("sow.command", b"unreadable")]
"""Replaces the headers of a record if one of their names is not UTF-8. It is no command, so it is refused."""

Sequence2 = tuple[int, int]


class LogRecord(msgspec.Struct, frozen=True, gc=False):
    """One record of the log as consumed from Kafka. `time` is in ms since 1970, and `time_type` says whose it is."""

    offset: int
    time: int
    key: bytes | None
    value: bytes | None
    headers: Headers | None = None
    time_type: int = LOG_APPEND_TIME


class Origin(NamedTuple):
    """The log position at which a forwarded record was first written."""

    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.partition}@{self.offset}"


class CopyOf(NamedTuple):
    """The content of the header `sow.origin` of a forwarded record: the original's log (by topic id) and position.

    Its text is `<log id>:<partition>@<offset>`.
    """

    log_id: str
    source: Origin

    def __str__(self) -> str:
        return f"{self.log_id}:{self.source}"


class Command(NamedTuple):
    """The command of a log record, without the body."""

    command: str = PUBLISH
    filter: str | None = None
    keys: tuple[str, ...] | None = None
    publisher: str | None = None
    sequence: Sequence2 = (0, 0)
    correlation: str | None = None
    expiration: float | None = None
    origin: CopyOf | None = None
    guard: Position | None = None
    tags: tuple[str, ...] = ()
    change_id: str | None = None
    key: str | None = None
    origin_time: int | None = None
    fields: tuple[str, ...] | None = None


PLAIN_PUBLISH = Command()
PLAIN_DELTA_PUBLISH = Command(DELTA_PUBLISH)
_ONLY_DELTA_PUBLISH: Headers = [("sow.command", DELTA_PUBLISH.encode())]


def read_command(headers: Headers | None) -> Command:
    """Return the command in the headers; raise `bad header` for an unknown or malformed `sow.*` header."""
    if not headers:
        return PLAIN_PUBLISH
    # Most deltas have only this header: they share one command.
    if headers == _ONLY_DELTA_PUBLISH:
        return PLAIN_DELTA_PUBLISH
    # The last of several equal headers counts: a forwarder appends `sow.origin` after the headers that the producer
    # wrote (test_of_a_repeated_header_the_last_counts).
    ours = [(name, value) for name, value in headers if name.startswith("sow.")]
    return _checked(dict(ours)) if ours else PLAIN_PUBLISH


def _checked(headers: dict[str, bytes | None]) -> Command:
    fields: dict[str, Any] = {}
    for name, raw in headers.items():
        reader = _READERS.get(name)
        if reader is None:
            raise _bad(f"expected one of {', '.join(sorted(_READERS))}, got {name[:60]!r}")
        fields[name[4:]] = reader(name, _text(name, raw))
    if ("publisher" in fields) != ("sequence" in fields):
        raise _bad("expected sow.publisher and sow.sequence together, got only one of them")
    if ("filter" in fields or "keys" in fields) and fields.get("command") != SOW_DELETE:
        raise _bad(
            f"expected sow.filter and sow.keys only on a sow_delete, got a {fields.get('command', PUBLISH)}"
        )
    if len(selectors := [name for name in ("filter", "keys", "key") if name in fields]) > 1:
        raise _bad(f"expected one selector, got both sow.{selectors[0]} and sow.{selectors[1]}")
    if "fields" in fields and fields.get("command") != DELTA_PUBLISH:
        raise _bad(f"expected sow.fields only on a delta_publish, got a {fields.get('command', PUBLISH)}")
    if "origin_time" in fields and "origin" not in fields:
        raise _bad("expected sow.origin_time only with a sow.origin, got it alone")
    _check_owners(fields)
    return Command(**fields)


def _check_owners(fields: dict[str, Any]) -> None:
    """Refuse other headers on the commands of a partition's owner, and the owner's headers on other commands."""
    command = fields.get("command", PUBLISH)
    # An expire waits on the log while a publish prolongs the record. Only the guard shows that it is for the state
    # before, and would delete a record that is not due (test_another_guard_is_harmless).
    if ("guard" in fields) != (command == EXPIRE):
        got = "with it" if "guard" in fields else "without it"
        raise _bad(f"expected sow.guard on an expire, and only there, got {command} {got}")
    if command in (EXPIRE, DEFINE, PARTIALS) and (more := fields.keys() - {"command", "guard"}):
        raise _bad(f"expected no other headers on a command of a service, got sow.{min(more)}")


def _bad(message: str) -> SowlineError:
    return SowlineError("bad header", message)


def _text(name: str, raw: bytes | None) -> str:
    try:
        return (raw or b"").decode()
    except UnicodeDecodeError as error:
        raise _bad(f"expected UTF-8 in header {name}, got {(raw or b'')[:40]!r}") from error


def _command(name: str, text: str) -> str:
    if [(name, text.encode())] == UNREADABLE_HEADERS:
        raise _bad(
            "expected header names in UTF-8, got one that is not, so no header of this record can be read"
        )
    if text not in COMMANDS:
        raise _bad(f"expected {name} to be one of {', '.join(sorted(COMMANDS))}, got {text[:60]!r}")
    return text


def _is_whole(text: str) -> bool:
    # `isdecimal` alone would accept the digits of other scripts.
    return text.isascii() and text.isdecimal() and len(text) <= 19


def _whole(name: str, text: str) -> int:
    if not _is_whole(text):
        raise _bad(f"expected a whole number in {name}, got {text[:60]!r}")
    return int(text)


def _sequence(name: str, text: str) -> Sequence2:
    row, dot, part = text.partition(".")
    parts = [row, part] if dot else [row, "0"]
    if not all(map(_is_whole, parts)):
        raise _bad(f"expected a number such as 7 or 7.2 in {name}, got {text[:60]!r}")
    return int(parts[0]), int(parts[1])


def _copy_of(name: str, text: str) -> CopyOf:
    log_id, _, origin = text.rpartition(":")
    partition, _, offset = origin.partition("@")
    if not _TOPIC_ID.fullmatch(log_id):
        raise _bad(f"expected <topic id>:<partition>@<offset> in {name}, got {text[:60]!r}")
    number = _whole(name, partition)
    # A document's change id has four bytes for it. A larger one would stop the partition
    # (test_an_origin_is_in_a_partition_that_kafka_can_have).
    if number > PARTITION_MAX:
        raise _bad(f"expected a partition of at most {PARTITION_MAX} in {name}, got {text[:60]!r}")
    return CopyOf(log_id, Origin(number, _whole(name, offset)))


def _guard(name: str, text: str) -> Position:
    try:
        return Position.parse(text)
    except SowlineError as error:
        raise _bad(f"{name}: {error.message}") from error


def _expiration(name: str, text: str) -> float:
    whole, dot, fraction = text.partition(".")
    # `float` alone would take `-1`, `1e9` and `nan` for a lifetime (test_malformed_headers_are_refused).
    _whole(name, whole)
    if dot:
        _whole(name, fraction)
    seconds = float(text)
    if seconds > EXPIRATION_SECONDS_MAX:
        raise _bad(f"expected at most {EXPIRATION_SECONDS_MAX} seconds in {name}, got {text}")
    return seconds


def _plain(name: str, text: str) -> str:
    if not text or len(text) > 250:
        raise _bad(f"expected 1 to 250 characters in {name}, got {len(text)}")
    return text


def _filter(name: str, text: str) -> str:
    if not text.strip():
        raise _bad(f"expected a filter in {name} (1=1 for every record), got an empty one")
    return text


def _keys(name: str, text: str) -> tuple[str, ...]:
    try:
        keys = split_keys(text)
    except ValueError as error:
        raise _bad(f"{name}: {error}") from None
    if not keys:
        raise _bad(f"expected SOW keys in {name}, separated by commas or as a JSON array, got {text[:60]!r}")
    return keys


def _key(name: str, text: str) -> str:
    try:
        return check_header_key(text)
    except SowlineError as error:
        raise _bad(f"{name}: {error.message}") from None


def _tags(name: str, text: str) -> tuple[str, ...]:
    tags = tuple(sorted(set(split_tags(text))))
    if len(tags) > TAGS_MAX or any(len(tag) > TAG_CHARS_MAX for tag in tags):
        raise _bad(
            f"expected up to {TAGS_MAX} tags of up to {TAG_CHARS_MAX} characters in {name}, with commas between them,"
            f" got {text[:60]!r}"
        )
    return tags


def _fields(name: str, text: str) -> tuple[str, ...]:
    paths = tuple(path.strip() for path in text.split(","))
    if odd := [path for path in paths if not path.startswith("/") or len(path) < 2]:
        raise _bad(f"expected paths of fields in {name}, such as /qty,/customer/name, got {odd[0][:60]!r}")
    return paths


def split_tags(text: str) -> list[str]:
    """Return the tags in a comma-separated text."""
    return [tag.strip() for tag in text.split(",") if tag.strip()]


def joined_tags(tags: Sequence[str] | str) -> str | None:
    """Return tags as one text; raise `bad header` for a tag that `split_tags` would not read back."""
    listed = split_tags(tags) if isinstance(tags, str) else tags
    if len(listed) > TAGS_MAX:
        raise _bad(f"expected up to {TAGS_MAX} tags, got {len(listed)}")
    if odd := [tag for tag in listed if split_tags(tag) != [tag]]:
        raise _bad(f"expected tags without commas and blanks around them, got {odd[0][:60]!r}")
    return ",".join(listed) or None


def is_list_of_texts(given: object) -> TypeGuard[list[str]]:
    """Whether a value of JSON is an array of strings."""
    return isinstance(given, list) and all(isinstance(one, str) for one in cast("list[object]", given))


def split_keys(text: str) -> tuple[str, ...]:
    """Return the SOW keys in a text: a JSON array of strings if it starts with `[`, else comma-separated keys.

    Raise ValueError if it starts with `[` and is not such an array.
    """
    if not text.lstrip().startswith("["):
        return tuple(key.strip() for key in text.split(",") if key.strip())
    try:
        keys = orjson.loads(text)
    except orjson.JSONDecodeError:
        keys = None
    if not is_list_of_texts(keys) or not all(keys):
        raise ValueError(
            f"expected a JSON array of SOW keys, because the text begins with [, got {text[:60]!r}"
        )
    return tuple(keys)


def joined_keys(keys: Sequence[str]) -> str:
    """Return SOW keys as one text that `split_keys` reads back: comma-separated if unambiguous, else a JSON array.

    Raise `bad header` for a key that no record can have.
    """
    for key in keys:
        try:
            is_key = bool(key.encode())
        except UnicodeEncodeError:
            is_key = False
        if not is_key:
            raise _bad(f"expected SOW keys of at least one character, in UTF-8, got {key[:60]!r}")
    text = ",".join(keys)
    # One key "a,b" would be read back as the two keys "a" and "b", and a sow_delete would delete other records
    # (test_keys_are_joined_so_that_they_are_read_again).
    try:
        is_plain = split_keys(text) == tuple(keys)
    except ValueError:
        is_plain = False
    return text if is_plain else orjson.dumps(list(keys)).decode()


_READERS = {
    "sow.command": _command,
    "sow.filter": _filter,
    "sow.keys": _keys,
    "sow.publisher": _plain,
    "sow.sequence": _sequence,
    "sow.correlation": _plain,
    "sow.expiration": _expiration,
    "sow.origin": _copy_of,
    "sow.guard": _guard,
    "sow.tags": _tags,
    "sow.change_id": _plain,
    "sow.key": _key,
    "sow.origin_time": _whole,
    "sow.fields": _fields,
}


def command_headers(  # noqa: PLR0913 - one for each header
    command: str,
    *,
    filter: str | None = None,
    keys: Sequence[str] | None = None,
    publisher: str | None = None,
    sequence: str | None = None,
    correlation: str | None = None,
    expiration: float | None = None,
    tags: Sequence[str] | str = (),
    change_id: str | None = None,
    traceparent: str | None = None,
    key: str | None = None,
    fields: Sequence[str] = (),
) -> Headers:
    """Return the Kafka headers of a command; a plain `publish` and values that are None need none.

    `expiration` is a lifetime in seconds, 0 for none. `tags` are a list, or a comma-separated text. `fields` are the
    paths of the fields that a delta changes.
    Raise `bad header` for an invalid value.
    """
    named = {
        "sow.command": None if command == PUBLISH else command,
        "sow.key": key,
        "sow.filter": filter,
        "sow.keys": joined_keys(keys) if keys else None,
        "sow.publisher": publisher,
        "sow.sequence": sequence,
        "sow.correlation": correlation,
        "sow.expiration": None if expiration is None else _seconds(expiration),
        "sow.tags": joined_tags(tags) if tags else None,
        "sow.change_id": change_id,
        "sow.fields": ",".join(fields) or None,
        "traceparent": traceparent,
    }
    return [(name, value.encode()) for name, value in named.items() if value is not None]


def _seconds(lifetime_seconds: float) -> str:
    """Return a lifetime in decimal seconds, rounded to milliseconds; a lifetime above 0 is never rounded to 0."""
    if not 0 <= lifetime_seconds <= EXPIRATION_SECONDS_MAX:
        raise _bad(f"expected a lifetime of 0 to {EXPIRATION_SECONDS_MAX} seconds, got {lifetime_seconds!r}")
    # A lifetime of 0 means that the record never expires: 0.0004 s must not be rounded to it
    # (test_a_lifetime_is_written_in_decimal_seconds).
    ms = max(1, round(lifetime_seconds * 1000)) if lifetime_seconds else 0
    return f"{ms // 1000}.{ms % 1000:03}".rstrip("0").rstrip(".")
