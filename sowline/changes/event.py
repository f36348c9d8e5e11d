"""Events, which are changes or progress events, and how they are read from the records of a changes topic."""

from typing import Any

import msgspec
import orjson
from msgspec.structs import replace

from sowline.changes.change import Change, read_accounts
from sowline.changes.partials import read_reflected
from sowline.changes.position_text import read_position, read_position_before
from sowline.changes.progress import CATCH_UP_KEY, LOG_BEGIN, PROGRESS_KEY, Begin, Progress
from sowline.commands.command import Headers, Origin
from sowline.commands.stored_format import FIRST_FORMAT, read_limits, require_format
from sowline.commands.traceparent import TRACEPARENT, read_traceparent
from sowline.model.position import Position

Event = Change | Progress


def read_event(key: bytes, value: bytes | None, headers: Headers | None) -> Event:
    """Return the event in a record of a changes topic.

    Raise ValueError or KeyError if the record is not an event, and `unknown format` if an unknown version of Sowline
    wrote it.
    """
    if key in (PROGRESS_KEY, CATCH_UP_KEY):
        return _read_progress(orjson.loads(value or b""), key == CATCH_UP_KEY)
    named = dict(headers or ())
    about = named.get("sow")
    if about is None:
        raise ValueError(f"expected a change with a 'sow' header, got none at key {key!r}")
    change = _read_change(key, value, named.get("sow.previous"), _read_about(about))
    trace, accounts, states = named.get(TRACEPARENT), named.get("sow.document"), named.get("sow.states")
    if trace is not None:
        change = replace(change, traceparent=read_traceparent(trace))
    if states is not None:
        # An empty value is a hidden group, not a deletion (`Change.value`).
        change = replace(change, body=value or None, states=states)
    if accounts is None:
        return change
    # An empty value is a deleted document (`Change.value`).
    of, text = read_accounts(accounts), named.get("sow.text")
    return replace(change, body=value or None, writes=of.now, writes_before=of.before, text=text)


class _About(msgspec.Struct, gc=False):
    """The content of the header `sow`."""

    position: str
    after: str
    op: str
    time: int
    era: int = 0
    last: bool = True
    reason: str | None = None
    expires: int | None = None
    correlation: str | None = None
    numbers: dict[str, tuple[int, int, int]] | None = None
    schema_id: int | None = None
    log_time: int | None = None
    origin: str | None = None
    outcome: str | None = None
    key_text: str | None = None
    emitted_in: int | None = None
    emitted_in_format_1: int | None = msgspec.field(default=None, name="said_in")
    reflects: tuple[int, str] | None = None
    taken: str | None = None
    v: Any = FIRST_FORMAT
    by: Any = None


_read_about = msgspec.json.Decoder(_About).decode


def _read_change(key: bytes, value: bytes | None, previous: bytes | None, about: _About) -> Change:
    if about.v is not FIRST_FORMAT:
        require_format("a change", about.v, about.by)
    era, origin = about.era, about.origin
    return Change(
        key,
        value,
        previous,
        read_position(era, about.position),
        read_position_before(era, about.after),
        about.op,
        about.time,
        about.last,
        about.reason,
        about.expires,
        about.correlation,
        about.numbers,
        about.schema_id,
        None if origin is None else Origin(*(int(part) for part in origin.split("@"))),
        about.outcome,
        about.key_text,
        # A compacted topic keeps repairs that a version of format 1 wrote. Without this name they would rank too low
        # (test_an_event_written_again_in_the_first_format_is_read).
        about.emitted_in_format_1 if about.emitted_in is None else about.emitted_in,
        reflects=None if about.reflects is None else (about.reflects[0], Position.parse(about.reflects[1])),
        taken=about.taken,
        log_time=about.log_time,
    )


def _read_progress(about: dict[str, Any], is_catching_up: bool) -> Progress:
    require_format("a progress event", about.get("format", FIRST_FORMAT), about.get("by"))
    era = about["era"]
    return Progress(
        read_position(era, about["position"]),
        read_position_before(era, about["after"]),
        about["end"],
        {int(partition): offset for partition, offset in about["origins"].items()},
        about["definition"],
        about["log_id"],
        about["time"],
        about["outcomes"],
        read_limits(about["limits"], about),
        about["numbers_since"],
        _begin(era, about),
        about.get("changes_id", ""),
        *read_reflected(about),
        is_catching_up,
    )


def _begin(era: int, about: dict[str, Any]) -> Begin | None:
    """Return the start of the era. Older events do not contain it: then only the first era's start is known."""
    fields = about.get("begin", None if era else LOG_BEGIN)
    return None if fields is None else Begin(*fields)
