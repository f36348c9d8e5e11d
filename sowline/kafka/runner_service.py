"""The skeleton of a service of runners, with its health and metrics. Each kind of runner has a subclass.

The service has a thread for each name, such as that of a fanout. The thread runs one runner. If the runner ends by
one of the `RESTART_ERRORS`, the thread runs a new one. After any other error the name stops until its definition
changes or an operator restarts the service; the other names continue. Call `serve`.

While it serves, it follows `topics.yaml`: the thread of a name begins, ends or begins again with its definition.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from enum import Enum
from typing import Any, ClassVar, Final, NamedTuple

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from sowline.config.definition_changes import Described, Followed, Kind, describe
from sowline.config.settings import Settings
from sowline.config.topics import Topics
from sowline.errors import SowlineError, fault_sentence
from sowline.kafka.admin import wait_for_topics
from sowline.kafka.definitions_follower import DefinitionsFollower
from sowline.kafka.health import KafkaHealth
from sowline.kafka.leaderless import leaderless_metric
from sowline.kafka.retriable import RESTART_ERRORS
from sowline.kafka.runner import Runner
from sowline.runtime.health import HealthServer

READ_FIELDS: Final = ("log", "reader_schema", "message_format", "schemas", "framing")
"""The fields of a topic, in addition to those that decide its records, by which runners read its changes."""

PAUSE_SECONDS = 1.0
"""The pause between two runners of one name."""


class RunnerState(Enum):
    """The phases of the runners of one name."""

    STARTING = "starting"
    """No runner has started yet."""
    RUNNING = "running"
    """A runner is running, or the next one starts after a pause."""
    WAITING = "waiting"
    """The next runner needs something that is not available."""
    STOPPED = "stopped"
    """No runner can continue: an operator has to act."""
    ENDED = "ended"
    """The thread has ended, because the definition changed or left the file, or the service stops."""


NEXT: Final[Mapping[RunnerState, frozenset[RunnerState]]] = {
    RunnerState.STARTING: frozenset(
        {RunnerState.RUNNING, RunnerState.WAITING, RunnerState.STOPPED, RunnerState.ENDED}
    ),
    RunnerState.RUNNING: frozenset({RunnerState.WAITING, RunnerState.STOPPED, RunnerState.ENDED}),
    RunnerState.WAITING: frozenset({RunnerState.RUNNING, RunnerState.STOPPED, RunnerState.ENDED}),
    RunnerState.STOPPED: frozenset({RunnerState.ENDED}),
    RunnerState.ENDED: frozenset({RunnerState.STARTING}),
}
"""The states that may come after each state."""


class Situation(NamedTuple):
    """The phase of a name, and what it waits for or why it stopped: one tuple, because other threads read both."""

    state: RunnerState
    why: str = ""


class RunnerWaits(Exception):
    """A runner needs something that is not available, which the text names. A new runner tries again."""


class Runners:
    """The runners of one name, one after the other, and their state. Threads that report health read it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.latest: Runner[Any] | None = None
        """The present runner, or the previous one until the next begins."""
        self.now = Situation(RunnerState.STARTING)
        self.stop = threading.Event()
        """Ends the present runner and its thread."""
        self._thread: threading.Thread | None = None

    def begin(self, run: "Callable[[Runners], None]") -> None:
        """Start the thread, which calls `run`."""
        if self.now.state is RunnerState.ENDED:
            # A new event: a thread of the previous runner's clients may still look at the old one.
            self.stop = threading.Event()
            self.move(RunnerState.STARTING)
        self._thread = threading.Thread(target=run, args=(self,), name=self.name)
        self._thread.start()

    def wait_ended(self) -> None:
        """Wait for the thread, once `stop` is set."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        # After the join: the thread could be moving to another state.
        self.move(RunnerState.ENDED)

    def move(self, state: RunnerState, why: str = "") -> None:
        """Enter a state, or stay in it with another reason."""
        before = self.now.state
        assert state is before or state in NEXT[before], f"{before} is not followed by {state}"
        self.now = Situation(state, why)

    @property
    def has_started(self) -> bool:
        """Whether startup need not wait for this name: it has partitions, or readiness names what else is missing."""
        if self.now.state in (RunnerState.WAITING, RunnerState.STOPPED):
            return True
        return self.latest is not None and self.latest.assigned

    def waits_for(self) -> str | None:
        """Return what the next runner, or this runner's partitions, wait for; None if they don't wait."""
        state, why = self.now
        if state is RunnerState.WAITING:
            return why
        return None if self.latest is None else self.latest.waiting()

    def why_stopped(self) -> str | None:
        """Return why no runner can continue; None if one can."""
        state, why = self.now
        return why if state is RunnerState.STOPPED else None


class RunnerService(ABC):
    """Runs each name in its own thread, and reports their health."""

    TASK: ClassVar[str]
    """The task of a runner, without the name: `write fanout`."""
    SERVICE: ClassVar[str]
    """The service's name in messages: `the fanout service`."""
    KINDS: ClassVar[frozenset[Kind]]
    """The lists of `topics.yaml` whose names have runners."""

    def __init__(self, settings: Settings, topics: Topics, stop: threading.Event) -> None:
        self._settings = settings
        self._topics = topics
        self._stop = stop
        self.runners = {name: Runners(name) for name in _made_of(topics, self.KINDS)}
        """By name. Threads that report health iterate over it, so it is replaced and never changed."""
        self._at_start = frozenset(self.runners)
        """The names that startup waits for: those that have had one definition since the service started."""
        self.definitions = DefinitionsFollower(settings, topics, stop, self.redefine)
        self._kafka_health = KafkaHealth(settings.kafka_client, topics.topics[0].log)

    @abstractmethod
    def _runner(self, name: str, stop: threading.Event, stack: ExitStack) -> Runner[Any]:
        """Return a new runner of a name; raise `RunnerWaits` if it needs something that is not available.

        It ends once `stop` is set. `stack` closes the runner's resources when it has ended.
        """

    @abstractmethod
    def _families(self) -> tuple[CounterMetricFamily, GaugeMetricFamily]:
        """Return two metrics without samples: how much each name has written, and how far it is behind."""

    @abstractmethod
    def _log_restart(self, name: str, why: str) -> None:
        """Log that the next runner of a name starts."""

    @abstractmethod
    def _log_stop(self, name: str, reason: str, why: str, traceback: bool) -> None:
        """Log that no runner of a name can continue."""

    def run(self, *, follows: bool = False) -> None:
        """Run all names until the service stops; if it `follows` the file, those that it has meanwhile."""
        self._kafka_health.start()
        if not wait_for_topics(self._settings.kafka_client, self._topics, self._stop):
            return
        with ExitStack() as stack:
            self._prepare(stack)
            for runners in self.runners.values():
                runners.begin(self.run_each)
            if follows:
                self.definitions.start()
            self._stop.wait()
            # First: it may be beginning runners.
            self.definitions.join()
            # The runners use what the stack closes, until they have ended.
            _end(self.runners.values())

    def redefine(self, followed: Followed) -> None:
        """Begin, end and begin again the runners of definitions that differ, or that read one that differs."""
        before, after = _made_of(self._topics, self.KINDS), _made_of(followed.topics, self.KINDS)
        differ = frozenset(
            name for name in before.keys() | after.keys() if before.get(name) != after.get(name)
        )
        _end([runners for name, runners in self.runners.items() if name in differ])
        self._topics = followed.topics
        # A load balancer must not take away a service that has started, only because it has a new name.
        self._at_start -= differ
        self.runners = {name: self.runners.get(name) or Runners(name) for name in after}
        for name in after:
            if name in differ:
                self.runners[name].begin(self.run_each)

    @abstractmethod
    def _prepare(self, stack: ExitStack) -> None:
        """Open the resources that all runners share; `stack` closes them when the runners have ended."""

    def run_each(self, runners: Runners) -> None:
        """Run the runners of a name, one after the other, until the service stops or none can continue."""
        while not (self._stop.is_set() or runners.stop.is_set()):
            try:
                self._run_next(runners)
            except RunnerWaits as error:
                runners.move(RunnerState.WAITING, str(error))
                runners.stop.wait(PAUSE_SECONDS)
            # Some of these are SowlineErrors. Below, a changes topic that was replaced would stop its readers until
            # the service is restarted (test_a_topic_that_is_replaced_makes_it_begin_again).
            except RESTART_ERRORS as error:
                # An output that waits for space ends with such an error when it is stopped, and nothing starts again
                # (test_a_runner_that_is_stopped_reports_no_restart).
                if not runners.stop.is_set():
                    self._log_restart(runners.name, str(error))
                    runners.stop.wait(PAUSE_SECONDS)
            except SowlineError as error:
                self._log_stop(runners.name, error.reason, error.message, traceback=False)
                runners.move(RunnerState.STOPPED, error.message)
                return
            except Exception as error:
                why = fault_sentence(f"{self.TASK} {runners.name}", error, self.SERVICE)
                self._log_stop(runners.name, "unexpected", why, traceback=True)
                runners.move(RunnerState.STOPPED, why)
                return

    def _run_next(self, runners: Runners) -> None:
        with ExitStack() as stack:
            runners.latest = self._runner(runners.name, runners.stop, stack)
            runners.move(RunnerState.RUNNING)
            runners.latest.run()

    # health

    def not_started(self) -> str | None:
        """Return which names wait for their first partitions, or that Kafka is away; None if no name waits."""
        waiting = [
            name for name, one in self.runners.items() if name in self._at_start and not one.has_started
        ]
        if not waiting:
            return None
        return self._kafka_health.lost() or f"waiting for partitions: {', '.join(waiting)}"

    def not_ready(self) -> str | None:
        """Return why names have stopped, else that Kafka is away, else what names wait for; None if ready."""
        stopped = self._of_each(Runners.why_stopped)
        return stopped or self._kafka_health.lost() or self._of_each(Runners.waits_for)

    def _of_each(self, report: Callable[[Runners], str | None]) -> str | None:
        whys = {runners.name: report(runners) for runners in self.runners.values()}
        return "; ".join(f"{name}: {why}" for name, why in whys.items() if why is not None) or None

    def not_alive(self) -> str | None:
        """Return None: restarting the process alone would help no name."""
        return None

    def details(self) -> dict[str, Any]:
        """Return the definitions in effect, for `/status`."""
        return self.definitions.details()

    def metrics(self) -> Iterable[Metric]:
        """Yield the metrics; docs/metrics.md describes each."""
        written, behind = self._families()
        for name, runners in self.runners.items():
            if (runner := runners.latest) is not None:
                written.add_metric([name], runner.written)
                if (events := runner.behind) is not None:
                    behind.add_metric([name], events)
        yield written
        yield behind
        latest = [one.latest for one in self.runners.values()]
        yield leaderless_metric(len({part for one in latest if one is not None for part in one.leaderless}))
        yield from self._kafka_health.metrics()
        yield from self.definitions.metrics()

    def serve(self, usual_port: int) -> None:
        """Run all, follow the file, and serve their health port, until the service stops."""
        port = self._settings.port or usual_port
        health = HealthServer(self, self._settings.host, port, self.details, self.definitions.note)
        health.start()
        try:
            self.run(follows=True)
        finally:
            health.stop()


def _made_of(topics: Topics, kinds: Collection[Kind]) -> dict[str, tuple[Described, ...]]:
    """Return by name, for definitions of these kinds, the description of each one and of those that it reads."""
    described = {one.key: one for one in describe(topics)}
    return {
        one.name: (one, *(_as_read(described[False, read]) for read in one.reads))
        for one in described.values()
        if one.kind in kinds
    }


def _as_read(source: Described) -> Described:
    """Return the part of a description that concerns who reads the topic's changes.

    Without it, a view of a million records would be loaded again for another index of its source.
    """
    return replace(source, fields={name: source.fields.get(name, "") for name in READ_FIELDS})


def _end(ended: Collection[Runners]) -> None:
    """End the threads of names, all at once."""
    for runners in ended:
        runners.stop.set()
    for runners in ended:
        runners.wait_ended()
