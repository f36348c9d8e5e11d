"""The skeleton of a service of runners: each runner in a thread of its own, with their health and metrics.

A runner that ends by an error that passes is followed by a new one. Each kind of runner has a subclass.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from enum import Enum
from typing import Any, ClassVar, Final, NamedTuple

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from sowline.config.settings import Settings
from sowline.config.topics import Topics
from sowline.errors import SowlineError, fault_sentence
from sowline.kafka.admin import await_topics
from sowline.kafka.health import KafkaHealth
from sowline.kafka.retriable import ENDS_A_LIFE
from sowline.kafka.runner import Runner
from sowline.runtime.health import HealthServer

PAUSE_SECONDS = 1.0
"""The time between two runners of one name."""


class RunnerState(Enum):
    """What one name of a service has at the moment."""

    STARTING = "starting"
    RUNNING = "running"
    """It has a runner, or the next one comes in a moment."""
    WAITING = "waiting"
    """The next runner needs something that is away."""
    STOPPED = "stopped"
    """No runner can continue: an operator decides."""


NEXT: Final[Mapping[RunnerState, frozenset[RunnerState]]] = {
    RunnerState.STARTING: frozenset({RunnerState.RUNNING, RunnerState.WAITING, RunnerState.STOPPED}),
    RunnerState.RUNNING: frozenset({RunnerState.WAITING, RunnerState.STOPPED}),
    RunnerState.WAITING: frozenset({RunnerState.RUNNING, RunnerState.STOPPED}),
    RunnerState.STOPPED: frozenset(),
}
"""The states that may come after each state."""


class Situation(NamedTuple):
    """The state of a name, and what it waits for, or why it stopped. Other threads read both at once."""

    state: RunnerState
    why: str = ""


class RunnerWaits(Exception):
    """Something that a runner needs is away; the text says what. A new runner tries again."""


class Life:
    """The runners of one name, one after the other; other threads ask it for its health."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.runner: Runner[Any] | None = None
        """The present one, or the one before."""
        self.now = Situation(RunnerState.STARTING)

    def move(self, state: RunnerState, why: str = "") -> None:
        """Go on to a state; to stay in one is always allowed."""
        before = self.now.state
        assert state is before or state in NEXT[before], f"{before} is not followed by {state}"
        self.now = Situation(state, why)

    @property
    def has_begun(self) -> bool:
        """Whether it has partitions, or says what it waits for."""
        is_assigned = self.runner is not None and self.runner.assigned
        return is_assigned or self.now.state in (RunnerState.WAITING, RunnerState.STOPPED)

    def waiting(self) -> str | None:
        """Return what it waits for; None if for nothing."""
        state, why = self.now
        if state is RunnerState.WAITING:
            return why
        return None if self.runner is None else self.runner.waiting()

    def stopped(self) -> str | None:
        """Return why no runner can continue; None if one can."""
        state, why = self.now
        return why if state is RunnerState.STOPPED else None


class RunnerService(ABC):
    """Runs each name in its own thread. A runner that fails is replaced, or the service reports why it can't be."""

    TASK: ClassVar[str]
    """What a runner is to do, without the name: `write fanout`."""
    SERVICE: ClassVar[str]
    """What an operator calls the service: `the fanout service`."""

    def __init__(
        self, settings: Settings, topics: Topics, stop: threading.Event, names: Iterable[str]
    ) -> None:
        self._settings = settings
        self._topics = topics
        self._stop = stop
        self.lives = {name: Life(name) for name in names}
        self._kafka_health = KafkaHealth(settings.kafka_client, topics.topics[0].log)

    @abstractmethod
    def _runner(self, name: str, stack: ExitStack) -> Runner[Any]:
        """Return a new runner of a name; `stack` ends what it needs. Raise `RunnerWaits` if something is away."""

    @abstractmethod
    def _families(self) -> tuple[CounterMetricFamily, GaugeMetricFamily]:
        """Return the metrics, still empty, of how much each name has written, and of how far it is behind."""

    @abstractmethod
    def _log_restart(self, name: str, why: str) -> None:
        """Log that the next runner of a name begins."""

    @abstractmethod
    def _log_stop(self, name: str, reason: str, why: str, traceback: bool) -> None:
        """Log that no runner of a name can continue."""

    def run(self) -> None:
        """Run all until the service stops."""
        self._kafka_health.start()
        if not await_topics(self._settings.kafka_client, self._topics, self._stop):
            return
        with ExitStack() as stack:
            self._prepare(stack)
            threads = [threading.Thread(target=self.keep, args=(life,)) for life in self.lives.values()]
            for thread in threads:
                thread.start()
            self._stop.wait()
            for thread in threads:
                thread.join()

    @abstractmethod
    def _prepare(self, stack: ExitStack) -> None:
        """Open what all runners share; `stack` closes it when they have ended."""

    def keep(self, life: Life) -> None:
        """Run one runner after the other until the service stops, or none can continue."""
        while not self._stop.is_set():
            try:
                self._run_one(life)
            except RunnerWaits as error:
                life.move(RunnerState.WAITING, str(error))
                self._stop.wait(PAUSE_SECONDS)
            except ENDS_A_LIFE as error:
                self._log_restart(life.name, str(error))
                self._stop.wait(PAUSE_SECONDS)
            except SowlineError as error:
                self._log_stop(life.name, error.reason, error.message, traceback=False)
                life.move(RunnerState.STOPPED, error.message)
                return
            except Exception as error:
                why = fault_sentence(f"{self.TASK} {life.name}", error, self.SERVICE)
                self._log_stop(life.name, "unexpected", why, traceback=True)
                life.move(RunnerState.STOPPED, why)
                return

    def _run_one(self, life: Life) -> None:
        with ExitStack() as stack:
            life.runner = self._runner(life.name, stack)
            life.move(RunnerState.RUNNING)
            life.runner.run()

    # health

    def not_started(self) -> str | None:
        """Return which names have no partitions yet; None if all have some."""
        waiting = [life.name for life in self.lives.values() if not life.has_begun]
        return (
            self._kafka_health.lost() or f"waiting for partitions: {', '.join(waiting)}" if waiting else None
        )

    def not_ready(self) -> str | None:
        """Return which names have stopped, that Kafka is away, or what they wait for; None if ready."""
        stopped = self._sentences(Life.stopped)
        return stopped or self._kafka_health.lost() or self._sentences(Life.waiting)

    def _sentences(self, say: Callable[[Life], str | None]) -> str | None:
        whys = {life.name: say(life) for life in self.lives.values()}
        return "; ".join(f"{name}: {why}" for name, why in whys.items() if why is not None) or None

    def not_alive(self) -> str | None:
        """Return why only a restart can help: always None, as long as the process answers."""
        return None

    def metrics(self) -> Iterable[Metric]:
        """Yield the metrics; docs/metrics.md describes each."""
        written, behind = self._families()
        for name, life in self.lives.items():
            if (runner := life.runner) is not None:
                written.add_metric([name], runner.written)
                if (events := runner.behind) is not None:
                    behind.add_metric([name], events)
        yield written
        yield behind
        yield from self._kafka_health.metrics()

    def serve(self, usual_port: int) -> None:
        """Run all, and serve their health port, until the service stops."""
        health = HealthServer(self, self._settings.host, self._settings.port or usual_port)
        health.start()
        try:
            self.run()
        finally:
            health.stop()
