"""The `options` of a command: parses words and `name=value` pairs, separated by commas."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from sowline.errors import SowlineError
from sowline.language.expressions.projection import GroupingError, parse_grouping, prepare_projection
from sowline.model.duration import parse_duration_ms
from sowline.model.path import Path
from sowline.model.select import Select, parse_select

OPTIONS_CHARS_MAX = 256 * 1024
PROJECTION_BYTES_MAX = 64 * 1024

AUTO = 0
"""The conflation interval that adapts to how fast the client reads."""

INTERVAL_MS_MAX = 3_600_000

_WORDS = (
    "oof",
    "no_empties",
    "no_sowkey",
    "no_redundant",
    "send_keys",
    "timestamp",
    "intrinsics",
    "replace",
    "pause",
    "current",
    "partial",
    "rank",
)
_NOT_FOUND = ("fail", "now", "epoch", "reset")
_FORMATS = ("json", "native")
FORMS = {
    **{word: word for word in _WORDS},
    "reset": "reset",
    "bookmark_not_found": f"bookmark_not_found={'|'.join(_NOT_FOUND)}",
    "rate": "rate=100|64KB|2X",
    "conflation": "conflation=none|auto|250ms",
    "conflation_key": "conflation_key=[…]",
    "format": f"format={'|'.join(_FORMATS)}",
    "select": "select=[…]",
    "grouping": "grouping=[…]",
    "projection": "projection=[…]",
}
"""The written form of each option."""

RATE_MIN, RATE_MAX = 0.001, 1e9
# Six decimals, because `_number` writes six: a gateway asks its nodes for what it has read
# (test_options_are_written_as_they_are_read).
_RATE = re.compile(r"(\d{1,10}(?:\.\d{1,6})?)(KB|MB|X)?", re.ASCII)
_UNITS = {None: 1, "KB": 1024, "MB": 1024 * 1024}

_PLAIN = re.compile(r"[^,\[]*")
_INSIDE = re.compile(
    r"""(?<!\w)[rR](?:'[^']*'|"[^"]*")|'[^'\\]*(?:\\.[^'\\]*)*'|"[^"\\]*(?:\\.[^"\\]*)*"|\[[^\]]*\]|[^\[\]'"rR]+|[rR]""",
    re.DOTALL,
)
"""One piece inside an option's brackets. Strings and inner brackets hide closing brackets."""

_CLOSING = {"[": "]", "'": "'", '"': '"'}


class ReplayRate(NamedTuple):
    """The replay rate of a subscription: messages or bytes a second, or a multiple of the original speed."""

    amount: float
    unit: Literal["messages", "bytes", "times"]


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a read. `conflation` is an interval in milliseconds or `AUTO`; None means no conflation.

    The docstrings of the fields become the table of docs/api.md (`python -m contract`).
    """

    oof: bool = False
    """Notify when a record stops matching. With the reason `match`, the message contains the new body; with
    `deleted`, `expired` or `entitlement` (the user [may no longer see it](entitlements.md#records)), the previous
    one. With conflation or a [conflated topic](views.md#conflated-topics), the message contains the body that the
    subscriber received."""
    no_empties: bool = False
    """Send nothing to a [delta subscription](#deltas) for a change that changes no field."""
    no_sowkey: bool = False
    """Omit the SOW key."""
    no_redundant: bool = False
    """Send nothing for a write to a document that changes neither content nor tags, and leaves the document in
    focus."""
    send_keys: bool = False
    """Has no effect: deltas always contain the key fields."""
    timestamp: bool = False
    """Add the change's log time to messages and records."""
    intrinsics: bool = False
    """Add `intrinsics`, for [documents](emodb.md#reading-documents), to records, `publish` and `oof`."""
    replace: bool = False
    """Replace the subscription with this `sub_id`: [replacing](#replacing-a-subscription)."""
    pause: bool = False
    """Begin [paused](bookmarks.md#pausing)."""
    current: bool = False
    """For a request at a past time, return the current records of a topic without history."""
    partial: bool = False
    """If a [shard](deploy.md#shards-and-gateways) is unavailable, return the result of a `sow` without it.
    `group_begin` then contains a warning, and `missing` lists the partitions by topic."""
    rank: bool = False
    """Add the [rank](queries.md#ranks), the number of preceding records that you may read, to each record of a sorted
    `sow` and each record and `publish` of a page."""
    bookmark_not_found: str = "fail"
    """What to do [if a bookmark has expired](bookmarks.md#expired-bookmarks): fail (the default), begin now,
    begin at the oldest available position, or send a new group marked `"reset": true`."""
    rate: ReplayRate | None = None
    """Limit the [rate](bookmarks.md#rate): messages or bytes per second, or a multiple of the original
    speed."""
    conflation: int | None = None
    """Send only the result of each interval: [conflation](#conflation)."""
    conflation_key: tuple[Path, ...] = ()
    """In each interval, send only the last of the records with equal values in these fields."""
    format: Literal["json", "native"] = "json"
    """Send records as JSON (the default), or in the [message type of their topic](#native-records)."""
    select: Select | None = None
    """Send only some [fields](#select)."""
    grouping: tuple[Path, ...] = ()
    """Send [groups](#pages-and-groups) of records instead of records; requires `projection`. See
    [aggregation](aggregation.md)."""
    projection: str = ""
    """The fields of the groups; requires `grouping`."""

    @property
    def reset(self) -> bool:
        """Whether the client wants a new snapshot (`group_begin` to `group_end`) if its bookmark has expired."""
        return self.bookmark_not_found == "reset"

    @property
    def is_typed(self) -> bool:
        """Whether records are sent in the message type of their topic."""
        return self.format == "native"

    def shows_like(self, other: "Options", *, is_same_order: bool = True) -> bool:
        """Return whether both show a record, or a group, with the same content, and with a rank in the same order."""
        if self.rank and not is_same_order:
            return False
        return (self.select, self.intrinsics, self.grouping, self.projection, self.rank) == (
            other.select,
            other.intrinsics,
            other.grouping,
            other.projection,
            other.rank,
        )


def parse_options(text: str) -> Options:
    """Return the options in a text; raise `invalid options` for an unknown or malformed option.

    Raise `invalid grouping` for a malformed grouping, and `projection clause too large` for a projection of more than
    `PROJECTION_BYTES_MAX` bytes. The content of the projection is not checked here.
    """
    if len(text) > OPTIONS_CHARS_MAX:
        raise _invalid(f"expected at most {OPTIONS_CHARS_MAX} characters of options, got {len(text)}")
    given: dict[str, Any] = {}
    for option in _split(text):
        name, equals, value = option.partition("=")
        if option in _WORDS:
            given[option] = True
        elif equals and name == "bookmark_not_found" and value in _NOT_FOUND:
            given["bookmark_not_found"] = value
        elif option == "reset":
            given["bookmark_not_found"] = option
        elif equals and name == "format" and value in _FORMATS:
            given["format"] = value
        elif equals and name in _CLAUSES:
            if name in given:
                raise _invalid(f"expected {name}= once, got it twice")
            given[name] = _CLAUSES[name](value)
        else:
            raise _invalid(f"expected any of {', '.join(FORMS.values())}, got {option[:100]!r}")
    return _consistent(Options(**given))


def options_text(options: Options) -> str:
    """Return the options as they are written; defaults are left out."""
    written = [word for word in _WORDS if getattr(options, word)]
    if options.bookmark_not_found != "fail":
        written.append(f"bookmark_not_found={options.bookmark_not_found}")
    if options.rate is not None:
        written.append(f"rate={_rate_text(options.rate)}")
    if options.conflation is not None:
        written.append(f"conflation={f'{options.conflation}ms' if options.conflation else 'auto'}")
    if options.conflation_key:
        written.append(f"conflation_key=[{', '.join(map(str, options.conflation_key))}]")
    if options.is_typed:
        written.append(f"format={options.format}")
    if options.select is not None:
        written.append(f"select={options.select.text}")
    if options.projection:
        written.append(f"grouping=[{', '.join(map(str, options.grouping))}]")
        written.append(f"projection=[{options.projection}]")
    return ",".join(written)


def _rate_text(rate: ReplayRate) -> str:
    if rate.unit != "bytes":
        return _number(rate.amount) + ("X" if rate.unit == "times" else "")
    # In MB where the number of KB is above the limit: `rate=1000000000MB` could not be read back.
    unit = "KB" if rate.amount / _UNITS["KB"] <= RATE_MAX else "MB"
    return f"{_number(rate.amount / _UNITS[unit])}{unit}"


def _number(amount: float) -> str:
    # Never with an exponent, which could not be read back (test_options_are_written_as_they_are_read).
    return f"{amount:.6f}".rstrip("0").rstrip(".")


def _consistent(options: Options) -> Options:
    if bool(options.grouping) is not bool(options.projection):
        raise _invalid("expected grouping=[…] and projection=[…] together, got one of them")
    if options.projection and options.select is not None:
        raise _invalid("expected projection=[…] without select=[…]: the projection decides what is sent")
    if options.projection and options.intrinsics:
        raise _invalid("expected projection=[…] without intrinsics: a group is no document")
    if options.is_typed and (options.projection or options.select is not None):
        unfit = "projection=[…]" if options.projection else "select=[…]"
        raise _invalid(
            f"expected format=native without {unfit}: a message type can only express whole records; use JSON"
        )
    if options.rank and options.no_empties:
        # A record can move because of a field that the subscriber has not selected: its delta is empty.
        raise _invalid(
            "expected rank without no_empties, which leaves out messages that only report a new rank"
        )
    if options.conflation_key and options.conflation is None:
        raise _invalid("expected conflation=… together with conflation_key=[…], got the key alone")
    if options.rate is not None and (options.conflation is not None or options.projection):
        raise _invalid("expected rate=… without conflation, grouping and projection")
    return options


def _rate(text: str) -> ReplayRate:
    match = _RATE.fullmatch(text)
    amount = float(match[1]) if match is not None else 0.0
    if match is None or not RATE_MIN <= amount <= RATE_MAX:
        raise _invalid(f"expected rate=100 (messages a second), 64KB, 2MB or 2X, got {text[:60]!r}")
    if match[2] == "X":
        return ReplayRate(amount, "times")
    return ReplayRate(amount * _UNITS[match[2]], "bytes" if match[2] else "messages")


def _conflation(text: str) -> int | None:
    if text in ("none", "auto"):
        return None if text == "none" else AUTO
    try:
        interval = parse_duration_ms(text)
    except ValueError:
        interval = 0
    if not 1 <= interval <= INTERVAL_MS_MAX:
        raise _invalid(
            f"expected conflation=none, auto or an interval of 1ms to 1h such as 250ms, got {text[:60]!r}"
        )
    return interval


def _conflation_key(clause: str) -> tuple[Path, ...]:
    try:
        return parse_grouping(_between_brackets("conflation_key", clause))
    except GroupingError as error:
        raise _invalid(f"{error.message}, in the conflation_key") from None


def _grouping(clause: str) -> tuple[Path, ...]:
    return parse_grouping(_between_brackets("grouping", clause))


def _projection(clause: str) -> str:
    text = _between_brackets("projection", clause)
    if len(text.encode()) > PROJECTION_BYTES_MAX:
        raise SowlineError(
            "projection clause too large",
            f"expected a projection of at most {PROJECTION_BYTES_MAX} bytes, got {len(text.encode())}",
        )
    if not text:
        raise _invalid("expected projection=[…] to hold at least one field, got none")
    # Large options are parsed in a worker thread. Their user finds the projection, or its error, in the cache,
    # and does not block the event loop (test_long_texts_are_parsed_in_the_worker_thread).
    prepare_projection(text)
    return text


def _between_brackets(name: str, clause: str) -> str:
    if not clause.startswith("[") or _after_bracket(clause, 0) != len(clause):
        raise _invalid(f"expected {name}=[…], got {clause[:60]!r}")
    return clause[1:-1].strip()


_CLAUSES: dict[str, Callable[[str], Any]] = {
    "conflation": _conflation,
    "conflation_key": _conflation_key,
    "rate": _rate,
    "select": parse_select,
    "grouping": _grouping,
    "projection": _projection,
}


def _split(text: str) -> Iterator[str]:
    """Yield the parts of a text, split at commas outside of brackets; skip blank parts."""
    start = position = 0
    while position < len(text):
        position = _PLAIN.match(text, position).end()  # type: ignore[union-attr]
        if text[position : position + 1] == "[":
            position = _after_bracket(text, position)
            continue
        if part := text[start:position].strip():
            yield part
        start = position = position + 1
    if part := text[start:].strip():
        yield part


def _after_bracket(text: str, opening: int) -> int:
    """Return the index after the bracket that closes the one at index `opening`."""
    position = opening + 1
    while (inside := _INSIDE.match(text, position)) is not None:
        position = inside.end()
    if text[position : position + 1] == "]":
        return position + 1
    begun = position if position < len(text) else opening
    raise _invalid(
        f"expected a closing {_CLOSING[text[begun]]} for the {text[begun]} at column {begun + 1}, got the end"
    )


def _invalid(message: str) -> SowlineError:
    return SowlineError("invalid options", message)
