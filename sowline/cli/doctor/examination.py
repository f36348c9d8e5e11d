"""Examines settings, topics, Kafka, the state directory and services, one after the other."""

import getpass
import os
import shutil
import time
from collections.abc import Iterable, Iterator
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sowline.cli.connection import ConnectionOptions
from sowline.cli.doctor.access_checks import access_findings
from sowline.cli.doctor.checks import directory_findings, service_findings
from sowline.cli.doctor.facts import DirectoryFacts, KafkaFacts, ServiceFacts
from sowline.cli.doctor.finding import Finding, count
from sowline.cli.doctor.kafka import ask_kafka
from sowline.cli.doctor.kafka_checks import kafka_findings, missing_kafka
from sowline.cli.http import HttpAnswer, get, served_topics
from sowline.config.settings import SettingsError, read_settings
from sowline.config.topics import Topics, load_topics
from sowline.config.yaml_file import YamlFileError
from sowline.errors import SowlineError
from sowline.serving.access.watched_access import WatchedAccess

HEALTH = ("healthz", "startupz", "readyz")


def examined(given: dict[str, Any], urls: Iterable[str], connection: ConnectionOptions) -> Iterator[Finding]:
    """Examine everything; what can't be examined is a finding, and the examination continues."""
    try:
        settings = read_settings(**given)
    except SettingsError as error:
        yield from _wrong_settings(error)
        return
    topics, kafka = None, None
    try:
        topics = load_topics(settings.config)
        yield Finding("topics", "ok", str(settings.config), "a file of topics", _counted(topics))
    except SowlineError as error:
        yield from _wrong_topics(str(settings.config), error)
    if topics is not None:
        try:
            kafka = ask_kafka(settings, topics)
            yield from kafka_findings(kafka, topics, settings)
        except SowlineError as error:
            yield missing_kafka(settings.kafka, error.message)
        logs = [topic.log for topic in topics.topics]
        yield from directory_findings(see_directory(settings.data_dir), logs)
        yield from _access(settings.access, topics)
    yield from _services(urls, connection, topics, kafka)


def _counted(topics: Topics) -> str:
    counts = {"topic": len(topics.declared), "view": len(topics.computed), "fanout": len(topics.fanouts)}
    return ", ".join(count(number, what) for what, number in counts.items())


def _access(path: str, topics: Topics) -> Iterator[Finding]:
    """Examine the access file, if one is configured."""
    if not path:
        return
    try:
        access = WatchedAccess(Path(path)).content
    except SowlineError as error:
        advice = "correct the file: no query service starts with it"
        yield Finding("access_file", "error", path, "an access file", error.message, advice)
        return
    yield from access_findings(path, access, topics)


def _services(
    urls: Iterable[str], connection: ConnectionOptions, topics: Topics | None, kafka: KafkaFacts | None
) -> Iterator[Finding]:
    for url in urls:
        yield from service_findings(see_service(url.rstrip("/"), connection), topics, kafka)


def _wrong_settings(error: SettingsError) -> Iterator[Finding]:
    for misfit in error.misfits:
        advice = "docs/settings.md has every setting with its limits"
        yield Finding(
            "settings", "error", misfit.variable, misfit.expected, misfit.found or "another", advice
        )


def _wrong_topics(path: str, error: SowlineError) -> Iterator[Finding]:
    advice = "correct the file: no service starts with it"
    if not isinstance(error, YamlFileError):
        advice = "name the file with --config or SOWLINE_CONFIG"
        yield Finding("topics_file", "error", path, "a file of topics", error.message, advice)
        return
    for problem in error.problems:
        yield Finding("topics_file", "error", problem.address, "a valid definition", problem.reason, advice)


def see_directory(path: Path) -> DirectoryFacts:
    """Examine a state directory; in a directory of `sowline up`, the part of the materializer."""
    if (path / "kafka").is_dir() and (path / "sow").is_dir():
        path = path / "sow"
    if not path.is_dir():
        return DirectoryFacts(str(path), is_there=False)
    logs = tuple(sorted(filter(None, map(_log_in, path.iterdir())))) if os.access(path, os.R_OK) else ()
    is_writable = os.access(path, os.W_OK | os.X_OK)
    free = shutil.disk_usage(path).free
    return DirectoryFacts(str(path), True, is_writable, _owner(path), getpass.getuser(), free, logs)


def _log_in(directory: Path) -> str:
    """Return the log whose state a directory holds, from its numbered partitions; empty if it holds none."""
    if not directory.is_dir() or not os.access(directory, os.R_OK):
        return ""
    return directory.name if any(one.name.isdecimal() for one in directory.iterdir()) else ""


def _owner(path: Path) -> str:
    try:
        return path.owner()
    except KeyError:
        return f"user {path.stat().st_uid}"


def see_service(url: str, connection: ConnectionOptions) -> ServiceFacts:
    """Ask a service for its health. Ask a query service also for its topics, and if it needs credentials for that."""
    try:
        health = {question: get(f"{url}/{question}", connection) for question in HEALTH}
        # At once: the time that further questions take would count as a difference of the clocks.
        ahead_ms = _ahead_ms(health["readyz"], time.time())
        topics = get(f"{url}/v1/topics", connection)
        core = get(f"{url}/status", connection).field("core")
    except SowlineError as error:
        return ServiceFacts(url, away=error.message)
    return ServiceFacts(
        url,
        health={question: (answer.status, answer.sentence) for question, answer in health.items()},
        version=health["healthz"].headers.get("sowline-version"),
        core=core,
        ahead_ms=ahead_ms,
        topics=served_topics(topics),
        refusal=topics.sentence if topics.status in (401, 403) else "",
        is_open=not _is_loopback(url) and _tells_anybody(url, connection),
    )


def _tells_anybody(url: str, connection: ConnectionOptions) -> bool:
    """Return whether a service describes its topics to clients without credentials."""
    try:
        return (
            served_topics(get(f"{url}/v1/topics", ConnectionOptions(ca_file=connection.ca_file))) is not None
        )
    except SowlineError:
        return False


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")


def _ahead_ms(answer: HttpAnswer, now: float) -> int | None:
    """Return how much a service's clock is ahead, from the whole second in its answer."""
    if "date" not in answer.headers:
        return None
    # The header has whole seconds: a clock that agrees may be anywhere within this one, and is no finding.
    began = parsedate_to_datetime(answer.headers["date"]).timestamp()
    return round(1000 * (began - now if began > now else min(0.0, began + 1 - now)))
