"""Makes the table of `sowline top` from two looks at the services. No I/O.

Each query service holds all records, so the furthest one counts. The numbers of clients are added up.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from sowline.cli.columns import columns, number, tenths
from sowline.cli.metrics_text import Numbers
from sowline.model.bookmark import EPOCH, parse_bookmark

Kind = Literal["query service", "materializer", "views", "fanout"]

SORTS: Final = ("topic", "records", "log", "changes", "lag", "subscriptions")
"""The orders of topics: by name from a to z, by all others from the largest."""


_SENT: Final[Mapping[Kind, str]] = {
    "query service": "sowline_messages_sent_total",
    "views": "sowline_view_states_total",
    "fanout": "sowline_fanout_messages_total",
}
"""The messages that a service sends. A materializer has no such metric."""


@dataclass(frozen=True)
class Look:
    """One service's answer: `away` is why it did not answer, `complaint` the problem that it reports."""

    url: str
    away: str | None = None
    complaint: str = ""
    numbers: Numbers | None = None
    topics: tuple[Mapping[str, Any], ...] | None = None

    @property
    def kind(self) -> Kind | None:
        """The kind of service, recognized by its metrics."""
        if self.numbers is None:
            return None
        if self.topics is not None:
            return "query service"
        for kind, name in _SENT.items():
            if name in self.numbers:
                return kind
        return "materializer"

    def number(self, name: str) -> float:
        """Return a metric, added up over all of its labels; 0 if there is none."""
        return sum((self.numbers or {}).get(name, {}).values())


@dataclass(frozen=True)
class Looks:
    """All services' answers at one time; `taken` is in seconds of a monotonic clock."""

    taken: float
    services: tuple[Look, ...]


@dataclass(frozen=True)
class TopicRow:
    """A topic; rates are per second. Rates and lags that are not known are None.

    `lag` are the log records that queries do not see yet, and `lag_seconds` the time since they saw the log's end.
    The query service that is furthest behind counts.
    """

    topic: str
    records: int
    log_rate: float | None
    change_rate: float | None
    lag: int | None
    lag_seconds: float | None
    subscriptions: int
    loading: bool


@dataclass(frozen=True)
class PartitionRow:
    """A partition of a log: the position of the furthest query service, the materializer that owns it, and the lag.

    The lag is that of the query service furthest behind, or of the owner if no query service was looked at.
    `transaction` is the open transaction that holds the partition, in the form of the API; None without one.
    """

    log: str
    partition: int
    position: str | None
    owner: str | None
    lag: int | None
    lag_seconds: float | None = None
    transaction: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class ServiceRow:
    """A service: its kind, its state, its clients, the messages that it sends, and its memory in bytes.

    `behind` are log records, or changes, that it has not applied yet. `delay_seconds` is the average time from a
    record's append until the service has processed it, since the previous look. Each is None if it is not known.
    """

    url: str
    kind: Kind | None
    state: str
    sessions: int
    message_rate: float | None
    memory: Mapping[str, int]
    behind: int | None
    delay_seconds: float | None


@dataclass(frozen=True)
class TopTable:
    """The whole table."""

    topics: tuple[TopicRow, ...]
    partitions: tuple[PartitionRow, ...]
    services: tuple[ServiceRow, ...]

    def fields(self) -> dict[str, Any]:
        """Return the table as fields of JSON."""
        return asdict(self)


def table(before: Looks | None, now: Looks, sort: str = "topic") -> TopTable:
    """Return the table of two looks, with the topics in an order of `SORTS`."""
    seconds = now.taken - before.taken if before is not None else 0.0
    old = {look.url: look for look in before.services} if before is not None else {}
    pairs = [(old.get(look.url, Look(look.url)), look) for look in now.services]
    partitions = _partitions(now.services)
    topics = sorted(_topics(pairs, seconds), key=lambda row: row.topic)
    if sort != "topic":
        topics.sort(key=_SORTED[sort], reverse=True)
    return TopTable(tuple(topics), tuple(partitions), tuple(_service(*pair, seconds) for pair in pairs))


_SORTED: Final[Mapping[str, Callable[[TopicRow], float]]] = {
    "records": lambda row: row.records,
    "log": lambda row: row.log_rate or 0,
    "changes": lambda row: row.change_rate or 0,
    "lag": lambda row: row.lag or 0,
    "subscriptions": lambda row: row.subscriptions,
}


def _rate(before: float | None, now: float | None, seconds: float) -> float | None:
    """Return the count per second; None if a count is missing or has restarted."""
    if before is None or now is None or seconds <= 0 or now < before:
        return None
    return (now - before) / seconds


def _most(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _positions(about: Mapping[str, Any]) -> dict[int, Any]:
    text = about["bookmark"]
    return {} if text == EPOCH else parse_bookmark(text).get(about["log"], {})


def _about(look: Look, topic: str) -> Mapping[str, Any] | None:
    return next((one for one in look.topics or () if one["name"] == topic), None)


def _applied(look: Look, topic: str) -> float | None:
    """Return how many offsets of a topic's log a query service has applied, in all partitions."""
    about = _about(look, topic)
    return None if about is None else sum(at.offset + 1 for at in _positions(about).values())


def _changes(look: Look, topic: str) -> float | None:
    about = _about(look, topic)
    return None if about is None else about["changes"]


def _worst(values: Iterable[float | None]) -> float | None:
    """Return the largest; None if one is not known, or there are none."""
    known = list(values)
    return None if None in known else max((value for value in known if value is not None), default=None)


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


def _topics(pairs: list[tuple[Look, Look]], seconds: float) -> Iterable[TopicRow]:
    served = dict.fromkeys(one["name"] for _, look in pairs for one in look.topics or ())
    for name in served:
        abouts = [about for _, look in pairs if (about := _about(look, name)) is not None]
        changes = [_rate(_changes(old, name), _changes(new, name), seconds) for old, new in pairs]
        yield TopicRow(
            name,
            max(about["records"] for about in abouts),
            _most(_rate(_applied(old, name), _applied(new, name), seconds) for old, new in pairs),
            _most(changes),
            _whole(_worst(about["lag"] for about in abouts)),
            _worst(about["lag_seconds"] for about in abouts),
            sum(about["subscriptions"] for about in abouts),
            any(about["loading"] for about in abouts),
        )


def _partitions(looks: Iterable[Look]) -> list[PartitionRow]:
    """Return all partitions that a service reports, by log and number."""
    positions: dict[tuple[str, int], Any] = {}
    owners: dict[tuple[str, int], tuple[str, int]] = {}
    lags: dict[tuple[str, int], list[tuple[int | None, float | None]]] = {}
    transactions: dict[tuple[str, int], Mapping[str, Any]] = {}
    for look in looks:
        for about in look.topics or ():
            for one in about["lags"]:
                partition = about["log"], one["partition"]
                lags.setdefault(partition, []).append((one["lag"], one["lag_seconds"]))
                if "transaction" in one:
                    transactions[partition] = one["transaction"]
            for partition_number, position in _positions(about).items():
                partition = about["log"], partition_number
                positions[partition] = max(positions.get(partition, position), position)
        for labels, behind in (look.numbers or {}).get("sowline_behind_records", {}).items():
            where = dict(labels)
            owners[where["topic"], int(where["partition"])] = look.url, int(behind)
    rows = []
    for partition in sorted({*positions, *owners}):
        owner, waits = owners.get(partition, (None, None))
        lag, lag_seconds = waits, None
        if partition in lags:
            lag = _whole(_worst(records for records, _ in lags[partition]))
            lag_seconds = _worst(seconds for _, seconds in lags[partition])
        position = str(positions[partition]) if partition in positions else None
        transaction = transactions.get(partition)
        rows.append(PartitionRow(*partition, position, owner, lag, lag_seconds, transaction))
    return rows


_MEMORY: Final = {
    "indexes": "sowline_index_bytes",
    "histories": "sowline_history_bytes",
    "timelines": "sowline_timeline_bytes",
}


def _service(before: Look, now: Look, seconds: float) -> ServiceRow:
    rate = None
    if now.kind is not None and now.kind in _SENT and before.kind == now.kind:
        name = _SENT[now.kind]
        rate = _rate(before.number(name), now.number(name), seconds)
    memory = {kind: int(now.number(name)) for kind, name in _MEMORY.items()} if now.topics is not None else {}
    state = now.away or now.complaint or "ready"
    sessions = int(now.number("sowline_sessions"))
    return ServiceRow(
        now.url, now.kind, state, sessions, rate, memory, _behind(now), _delay(before, now, seconds)
    )


_BEHIND: Final = {
    "materializer": "sowline_behind_records",
    "query service": "sowline_replica_behind_changes",
    "views": "sowline_view_behind_changes",
    "fanout": "sowline_fanout_behind_changes",
}
_DELAY: Final = {
    "materializer": "sowline_append_to_emit_seconds",
    "query service": "sowline_append_to_delivery_seconds",
}


def _behind(now: Look) -> int | None:
    known = now.kind is not None and (now.numbers or {}).get(_BEHIND[now.kind])
    return int(sum(known.values())) if known else None


def _delay(before: Look, now: Look, seconds: float) -> float | None:
    if now.kind not in _DELAY or before.kind != now.kind:
        return None
    took, times = (
        _rate(before.number(name), now.number(name), seconds)
        for name in (f"{_DELAY[now.kind]}_sum", f"{_DELAY[now.kind]}_count")
    )
    return took / times if took is not None and times else None


# text


def lines(shown: TopTable, chars_max: int, sort: str = "topic") -> list[str]:
    """Return the table as lines of at most this many characters."""
    return [line[:chars_max].rstrip() for line in (*_head(shown, sort), *_body(shown))]


def _head(shown: TopTable, sort: str) -> list[str]:
    sessions = sum(service.sessions for service in shown.services)
    rates = [service.message_rate for service in shown.services if service.message_rate is not None]
    memory = {kind: sum(one.memory.get(kind, 0) for one in shown.services) for kind in _MEMORY}
    return [
        f"sessions {sessions:,}   messages/s {number(sum(rates) if rates else None)}   by {sort}",
        "memory   " + "   ".join(f"{kind} {nbytes / (1 << 20):,.1f} MiB" for kind, nbytes in memory.items()),
        "",
    ]


def _body(shown: TopTable) -> list[str]:
    topics = [
        (
            row.topic,
            f"{row.records:,}{' (loading)' if row.loading else ''}",
            number(row.log_rate),
            number(row.change_rate),
            number(row.lag),
            tenths(row.lag_seconds),
            f"{row.subscriptions:,}",
        )
        for row in shown.topics
    ]
    partitions = [
        (
            f"{row.log} [{row.partition}]",
            row.position or "-",
            number(row.lag),
            tenths(row.lag_seconds),
            row.owner or "-",
            _transaction(row.transaction),
        )
        for row in shown.partitions
    ]
    services = [
        (row.url, row.kind or "-", number(row.behind), _milliseconds(row.delay_seconds), row.state)
        for row in shown.services
    ]
    return [
        *columns(
            ("TOPIC", "RECORDS", "LOG/S", "CHANGES/S", "LAG", "LAG S", "SUBSCRIPTIONS"), topics, "<>>>>>>"
        ),
        "",
        *columns(
            ("PARTITION", "POSITION", "LAG", "LAG S", "OWNER", "OPEN TRANSACTION"), partitions, "<>>><<"
        ),
        "",
        *columns(("SERVICE", "KIND", "BEHIND", "DELAY MS", "STATE"), services, "<<>><"),
    ]


def _transaction(found: Mapping[str, Any] | None) -> str:
    return "" if found is None else f"since offset {found['offset']}, {found['written'] or '-'}"


def _milliseconds(taken: float | None) -> str:
    return number(None if taken is None else taken * 1000)
