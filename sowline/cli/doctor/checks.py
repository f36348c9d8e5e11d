"""Checks of a machine and its services: from collected facts to findings, each with what to do.

This module sends no requests.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from sowline.cli.doctor.facts import DirectoryFacts, KafkaFacts, ServiceFacts, TopicFacts
from sowline.cli.doctor.finding import BEHIND_RECORDS_MAX, CLOCK_MS_MAX, Finding, Severity, count, few
from sowline.config.topic_definition import TopicDefinition
from sowline.config.topics import Topics
from sowline.model.bookmark import EPOCH, parse_bookmark
from sowline.version import __version__, installing

ROOM_BYTES_MIN: Final = 64 << 20
"""Free bytes below which a materializer stops."""

ROOM_BYTES_SCARCE: Final = 1 << 30


def directory_findings(seen: DirectoryFacts, logs: Iterable[str]) -> Iterator[Finding]:
    """Yield the findings for the directory in which a materializer keeps its state."""
    if not seen.is_there:
        yield Finding(
            "state_none",
            "note",
            seen.path,
            "the state of a materializer",
            "no such directory",
            "nothing, if materializers run elsewhere or none has run yet; otherwise give the right --data-dir",
        )
        return
    if not seen.is_writable:
        yield Finding(
            "state_unwritable",
            "error",
            seen.path,
            f"a directory that {seen.me} may write to",
            f"one of {seen.owner}",
            f"run the materializer as {seen.owner}, or change the owner of the directory (chown)",
        )
    if seen.free_bytes < ROOM_BYTES_SCARCE:
        yield Finding(
            "state_room",
            "error" if seen.free_bytes < ROOM_BYTES_MIN else "warning",
            seen.path,
            f"at least {ROOM_BYTES_SCARCE >> 20} MiB of free space",
            f"{seen.free_bytes >> 20} MiB",
            f"free some space: with less than {ROOM_BYTES_MIN >> 20} MiB a materializer stops",
        )
    if strange := sorted(set(seen.logs) - set(logs)):
        yield Finding(
            "state_strange",
            "note",
            seen.path,
            "state of the logs in topics.yaml only",
            f"also state of {few(strange)}",
            "nothing, if another installation defines these topics; otherwise delete their state to free its space",
        )
    if seen.is_writable and seen.free_bytes >= ROOM_BYTES_SCARCE:
        state, room = (
            f"state of {count(len(seen.logs), 'log')}",
            f"{seen.free_bytes >> 20:,} MiB of free space",
        )
        found = f"{state}, {room}, owned by {seen.owner}"
        yield Finding("state", "ok", seen.path, "a directory to write to", found)


# services


def service_findings(
    seen: ServiceFacts, topics: Topics | None, kafka: KafkaFacts | None
) -> Iterator[Finding]:
    """Yield the findings for a service, and for the topics of a query service."""
    if seen.away is not None:
        advice = "start it, or give its address"
        yield Finding("service_away", "error", seen.url, "a service that answers", seen.away, advice)
        return
    complaints = list(_health_findings(seen))
    yield from complaints
    if seen.version is not None and seen.version != __version__:
        yield Finding(
            "version",
            "warning",
            seen.url,
            f"version {__version__}, like this command",
            seen.version,
            "run the same version everywhere",
        )
    if seen.ahead_ms is not None and abs(seen.ahead_ms) > CLOCK_MS_MAX:
        yield Finding(
            "clock_differs",
            "warning",
            seen.url,
            "the time of this machine",
            f"{abs(seen.ahead_ms) / 1000:.0f} s {'ahead' if seen.ahead_ms > 0 else 'behind'}",
            "set both clocks (NTP)",
        )
    yield from _connection_findings(seen)
    if seen.core == "python":
        advice = f"{installing('native')}, and unset SOWLINE_CORE; docs/performance.md has what it gives"
        yield Finding("python_core", "note", seen.url, "the native core", "the Python core", advice)
    if not complaints:
        core = f", core={seen.core}" if seen.core else ""
        found = f"ready, version {seen.version or 'unknown'}{core}"
        yield Finding("service", "ok", seen.url, "a healthy service", found)
    if seen.topics is not None and topics is not None:
        for topic in topics.topics:
            yield from _served_findings(seen, topic, kafka)


def _connection_findings(seen: ServiceFacts) -> Iterator[Finding]:
    """Yield the findings for logons."""
    if seen.is_open:
        yield Finding(
            "no_access_file",
            "warning",
            seen.url,
            "an access file for a service that listens beyond its machine",
            "none: every client that reaches it may read and write",
            "give the service an access file (SOWLINE_ACCESS; docs/security.md), or let it listen on loopback only",
        )
    if seen.refusal:
        advice = (
            "give a token (--token-file, SOWLINE_TOKEN) or a client certificate: its topics were not checked"
        )
        yield Finding("logon_needed", "warning", seen.url, "an accepted logon", seen.refusal, advice)


_HEALTH: Final[Mapping[str, tuple[str, Severity, str]]] = {
    "healthz": ("service_dead", "error", "restart it, and keep its log"),
    "startupz": ("service_starting", "warning", "wait while it starts; if it takes long, read its log"),
    "readyz": (
        "service_unready",
        "error",
        "do what it says; if that is no restart, it then continues by itself",
    ),
}
"""For each health path: code, severity if the answer is 503, and what to do. The first failure is reported."""


def _health_findings(seen: ServiceFacts) -> Iterator[Finding]:
    for question, (code, severity, advice) in _HEALTH.items():
        status, sentence = seen.health.get(question, (404, "no such path: this is not a Sowline service"))
        if status != 200:
            yield Finding(code, severity, seen.url, f"200 at /{question}", f"{status}: {sentence}", advice)
            return
    if note := seen.health["readyz"][1]:
        advice = "fix what it reports; it continues meanwhile"
        yield Finding("service_says", "warning", seen.url, "no warning", note, advice)


def _served_findings(
    seen: ServiceFacts, topic: TopicDefinition, kafka: KafkaFacts | None
) -> Iterator[Finding]:
    served = next((one for one in seen.topics or () if one["name"] == topic.name), None)
    where = f"{topic.name} at {seen.url}"
    if served is None:
        advice = "give it this topics.yaml (SOWLINE_CONFIG) and restart it"
        yield Finding(
            "topic_unserved", "error", where, "a topic that it serves", "no topic with this name", advice
        )
        return
    defined = {
        "log": topic.log,
        "key": topic.key_sent,
        "partitions": topic.partitions,
        "sow": topic.has_sow,
        "documents": topic.documents,
    }
    if wrong := {name: served.get(name) for name, value in defined.items() if served.get(name) != value}:
        yield Finding(
            "topic_differs",
            "error",
            where,
            ", ".join(f"{name} {defined[name]}" for name in wrong) + ", as in topics.yaml",
            ", ".join(f"{name} {value}" for name, value in wrong.items()),
            "give it this topics.yaml (SOWLINE_CONFIG) and restart it, or give this command the service's file",
        )
        return
    log = kafka.topics.get(topic.log) if kafka is not None else None
    if log is not None and not served["loading"]:
        yield _bookmark_finding(where, topic, served["bookmark"], log)


def _bookmark_finding(where: str, topic: TopicDefinition, bookmark: str, log: TopicFacts) -> Finding:
    held = {} if bookmark == EPOCH else parse_bookmark(bookmark).get(topic.log, {})
    behind = 0
    for number, part in log.partitions.items():
        stands = held[number].offset + 1 if number in held else 0
        # What the log no longer holds can't be applied any more, and does not count.
        behind += max(0, part.end - max(part.start, stands)) if number < topic.partitions else 0
    if behind > BEHIND_RECORDS_MAX:
        return Finding(
            "service_behind",
            "warning",
            where,
            f"at most {count(BEHIND_RECORDS_MAX, 'record')} behind the log",
            count(behind, "record"),
            "run `sowline top` to see what is slow: the materializers, or this replica",
        )
    return Finding("served", "ok", where, "the log's end", f"{count(behind, 'record')} behind the log")
