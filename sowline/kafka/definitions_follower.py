"""Follows `topics.yaml` while a service runs: its own thread compares each changed file with what is in effect.

It first creates and checks the Kafka topics of what is new, so that the service never waits for Kafka. A definition
that Kafka refuses is refused alone, and tried again; the rest of the file takes effect.
"""

import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import structlog
from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from sowline.config.definition_changes import (
    ChangeEffect,
    DefinitionChange,
    Followed,
    Key,
    describe,
    digest_of,
    followed,
    located,
)
from sowline.config.settings import Settings
from sowline.config.topics import Topics, open_topics, read_topics
from sowline.errors import SowlineError, fault_sentence
from sowline.kafka.admin import Cluster, wait_for_answer
from sowline.runtime.watched_file import Stamp, WatchedFile, stamp_of

log = structlog.get_logger()

LOOK_SECONDS = 0.5
AGAIN_SECONDS = 10.0
"""How often a definition that Kafka has refused is tried again."""
DIFFERING_SECONDS = 10.0
"""How long the log may have other definitions than this service: services read a changed file at different times."""

Take = Callable[[Followed], None]
"""Called in the follower's thread with the topics to run by from now on, and the differences from before."""


class TopicsFile(WatchedFile[Topics]):
    """The last `topics.yaml` that could be read."""

    def __init__(self, path: Path, topics: Topics) -> None:
        """Watch a file from which a service has read these topics."""
        super().__init__(path, lambda path: read_topics(open_topics(path)), "a file of topics", topics)
        self._seen: Stamp | None = None

    def look(self) -> bool:
        """Read the file if it has changed, and has been the same for two looks."""
        # An editor may be writing it. Half of a file may be valid, and the topics of the other half would be removed
        # (test_a_file_that_is_being_written_waits).
        seen, self._seen = self._seen, stamp_of(self.path, "a file of topics") if self.path.exists() else None
        return seen == self._seen and super().look()

    def log_refused(self, why: str) -> None:
        """Log that the current file is not used."""
        log.error("topics file not taken", path=str(self.path), why=why)


class DefinitionsFollower:
    """The definitions that a service runs by, and why others of its file are not in effect."""

    def __init__(
        self,
        settings: Settings,
        topics: Topics,
        stop: threading.Event,
        take: Take,
        *,
        creates: bool = True,
        log_differences: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        """Follow the file of the settings after `start`; `topics` are those that were read from it.

        Unless it `creates` the Kafka topics of definitions, it doesn't ask Kafka at all. `log_differences` returns a
        sentence for each definition in effect of which the log has another one.
        """
        self.topics = topics
        """The definitions in effect."""
        self.refused: tuple[DefinitionChange, ...] = ()
        """The differences between the file and what is in effect."""
        self._file = TopicsFile(settings.config, topics)
        self._cluster = Cluster(settings.kafka_client, stop) if creates else None
        self._stop = stop
        self._take = take
        self._fault: str | None = None
        self._by_kafka: dict[Key, str] = {}
        self._again_at = 0.0
        self._log_differences = log_differences
        self._differing_since: dict[str, float] = {}
        self.differing: tuple[str, ...] = ()
        """How the definitions in effect differ from those that the log has had for some time."""
        self._thread = threading.Thread(target=self._run, name="definitions", daemon=True)

    def start(self) -> None:
        """Begin to follow the file."""
        self._thread.start()

    def join(self) -> None:
        """Wait for the thread, once the service stops."""
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self.look(time.monotonic())
                self.look_at_the_log(time.monotonic())
                self._stop.wait(LOOK_SECONDS)
        except Exception as error:
            # Without this, the service would seem to follow a file that it no longer reads
            # (test_a_service_that_fails_to_take_a_change_says_so).
            self._fault = fault_sentence("take the changed definitions", error, "the service")
            log.exception("definitions no longer followed", why=self._fault)

    def look(self, now: float) -> None:
        """Take the file if it has changed, or if Kafka has refused a definition some time ago."""
        if self._file.look() or (self._by_kafka and now >= self._again_at):
            self._again_at = now + AGAIN_SECONDS
            self._take_in(self._file)

    def look_at_the_log(self, now: float) -> None:
        """Note, and log once, what the log has had another definition of for some time."""
        self._differing_since = {one: self._differing_since.get(one, now) for one in self._log_differences()}
        differing = tuple(
            one for one, since in self._differing_since.items() if now - since >= DIFFERING_SECONDS
        )
        for one in differing:
            if one not in self.differing:
                log.warning("definition differs from the log", why=one)
        self.differing = differing

    def _take_in(self, file: TopicsFile) -> None:
        """Hand over what can take effect, and note the rest."""
        self._by_kafka = {}
        found = followed(self.topics, file.content)
        while refusals := self._refused_by_kafka(found):
            self._by_kafka |= refusals
            found = followed(self.topics, file.content, self._by_kafka)
        if self._stop.is_set():
            return
        if any(change.effect.is_taken for change in found.changes):
            self._take(found)
            self.topics = found.topics
            log.info(
                "definitions changed",
                new=_names(found.changes, ChangeEffect.NEW),
                live=_names(found.changes, ChangeEffect.LIVE),
                removed=_names(found.changes, ChangeEffect.REMOVED),
            )
        if found.refused != self.refused:
            self.refused = found.refused
            for change in self.refused:
                log.error("definition refused", definition=change.name, why=self._why(change, file))

    def _refused_by_kafka(self, found: Followed) -> dict[Key, str]:
        """Create and check the Kafka topics of what changes; return why Kafka refuses some of it."""
        refusals: dict[Key, str] = {}
        if self._cluster is None:
            return refusals
        taken = {
            change.key for change in found.changes if change.effect in (ChangeEffect.NEW, ChangeEffect.LIVE)
        }
        if any(not is_fanout for is_fanout, _ in taken):
            # A fanout's topic takes what the topic takes that it reads.
            taken |= {(True, fanout.name) for fanout in found.topics.fanouts}
        named = {topic.name: topic for topic in found.topics.topics}
        ensure: dict[Key, Callable[[], None]] = {}
        for topic in named.values():
            ensure[False, topic.name] = partial(self._cluster.ensure_topic, topic)
        for fanout in found.topics.fanouts:
            ensure[True, fanout.name] = partial(self._cluster.ensure_fanout, fanout, named[fanout.topic])
        for key in taken - self._by_kafka.keys():
            try:
                wait_for_answer(ensure[key], self._stop)
            except SowlineError as error:
                refusals[key] = error.message
        return refusals

    def _why(self, change: DefinitionChange, file: TopicsFile) -> str:
        """Return the sentence about a refused change, with its line in the file."""
        try:
            declaration = open_topics(file.path)
        except SowlineError:
            return str(change)
        return str(declaration.problem(located(change, file.content), str(change)))

    # for health and metrics; any thread may call these

    @property
    def _problem(self) -> str | None:
        """The error that stopped the following, or that makes the file unreadable; None without one."""
        return self._fault or self._file.problem

    def note(self) -> str | None:
        """Return what of the file is not in effect, and what is in effect only here; None if there is neither."""
        parts = [*([self._problem] if self._problem else []), *map(str, self.refused)]
        notes = [
            *([f"not in effect: {'; '.join(parts)}"] if parts else []),
            *([f"older or newer than the log: {'; '.join(self.differing)}"] if self.differing else []),
        ]
        return "; ".join(notes) or None

    def details(self) -> dict[str, Any]:
        """Return the definitions in effect, without their content, and what is refused, for `/status`."""
        described = describe(self.topics)
        return {
            "definitions": {
                "digest": digest_of(described),
                "described": [one.sent() for one in described],
                "not_in_effect": [str(change) for change in self.refused],
                "log_differences": list(self._log_differences()),
                "problem": self._problem,
            }
        }

    def metrics(self) -> Iterable[Metric]:
        """Yield the metric; docs/metrics.md describes it."""
        yield GaugeMetricFamily(
            "sowline_definitions_refused",
            "Definitions of the file that are not in effect, counting a file that can't be read as one",
            value=len(self.refused) + (self._problem is not None),
        )
        yield GaugeMetricFamily(
            "sowline_definitions_differing",
            "Definitions in effect here of which the log has another one, older or newer",
            value=len(self.differing),
        )


def _names(changes: Iterable[DefinitionChange], effect: ChangeEffect) -> list[str]:
    return [change.name for change in changes if change.effect is effect]
