"""Histories of a few events, by hand: the smallest that keeps a guarantee, and the smallest that breaks it."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from sowline.check.history import (
    CheckedTopic,
    Event,
    HistoryBegin,
    HistoryEvent,
    MessageRead,
    ReadEnded,
    ReadOpened,
    TotalsOf,
    WriteAnswered,
    WriteSent,
)
from sowline.check.judge.judging import judge
from sowline.check.judge.verdict import Judgment

Body = dict[str, Any]
Parts = HistoryEvent | Sequence["Parts"]
"""An event, or some in a row, which may be such parts themselves."""

TOTALS = TotalsOf("t", "status", "records", "qty", "qty")
TOPIC = CheckedTopic("t", "t:0@0,1@0")
VIEW = CheckedTopic("v", "", "status", TOTALS)
ORDERS = CheckedTopic("orders", "orders:0@0")
"""Another topic, whose writes are no business of the first."""

WINDOW_SECONDS = 600.0


def sent(
    id: str,
    data: Body | None,
    command: Literal["publish", "delta_publish", "sow_delete", "delta"] = "publish",
    *,
    topic: str = "t",
    writer: str = "a",
    **about: Any,
) -> WriteSent:
    """Return a write."""
    return WriteSent(id, topic, command, writer, 0.0, data, **about)


def answered(id: str, position: str = "", **about: Any) -> WriteAnswered:
    """Return the answer to a write."""
    return WriteAnswered(id, "acknowledged", 0.0, position, **about)


def written(id: str, position: str, data: Body | None, command: Any = "publish", **about: Any) -> list[Event]:
    """Return a write, and the answer that names its position."""
    return [sent(id, data, command, **about), answered(id, position)]


def opened(command: Any = "subscribe", read: str = "r", *, topic: str = "t", **about: Any) -> ReadOpened:
    """Return the beginning of a read; that of a subscription is the beginning of the topic."""
    begin = {} if command.startswith("sow") else {"bookmark": TOPIC.begin}
    return ReadOpened(read, command, topic, 0.0, **{**begin, **about})


def got(
    bookmark: str, data: Body | None, write: str = "", *, command: Any = "", read: str = "r", **about: Any
) -> MessageRead:
    """Return a message about a change: an `oof` if it has a reason, else a `publish`."""
    named: Any = command or ("oof" if about.get("reason") else "publish")
    return MessageRead(read, named, 0.0, bookmark, data=data, correlation_id=write, **about)


def group(bookmark: str, *records: Body, read: str = "r", begin: str = "", **about: Any) -> list[Event]:
    """Return a group of records."""
    return [
        MessageRead(read, "group_begin", 0.0, begin or bookmark),
        *(MessageRead(read, "sow", 0.0, data=one) for one in records),
        MessageRead(read, "group_end", 0.0, bookmark, **about),
    ]


def progress(bookmark: str, *, read: str = "r", **about: Any) -> MessageRead:
    """Return the message that everything up to a bookmark was sent, with a checksum or without."""
    return MessageRead(read, "progress", 0.0, bookmark, **about)


def ended(bookmark: str = "", reason: str = "", *, read: str = "r", age_seconds: float = 0) -> ReadEnded:
    """Return the end of a read, which has received everything up to a bookmark."""
    return ReadEnded(read, 0.0, bookmark, reason, age_seconds)


def history(*parts: Parts) -> list[Event]:
    """Return the events of parts, behind the beginning of a history."""
    return [HistoryBegin((TOPIC, VIEW, ORDERS), WINDOW_SECONDS), *_events(parts)]


def _events(parts: Parts) -> Iterator[Event]:
    if not isinstance(parts, HistoryEvent):
        for part in parts:
            yield from _events(part)
    elif isinstance(parts, Event):
        yield parts


def judged(*parts: Parts) -> Judgment:
    """Return the verdict on a history."""
    return judge(history(*parts))


def broken(*parts: Parts) -> list[str]:
    """Return each violation of a history as text, with the records that it names."""
    return [f"{one}{''.join(f' [{key}]' for key in one.keys)}" for one in judged(*parts).violations]
