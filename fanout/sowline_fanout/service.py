"""The fanout process: a runner for each configured fanout."""

import threading
from contextlib import ExitStack

import structlog
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily

from sowline.config.definition_changes import Kind
from sowline.config.settings import Settings
from sowline.config.topics import Topics
from sowline.kafka.runner_service import Runners, RunnerService, RunnerState, RunnerWaits
from sowline.registry.client import Registry, RegistryAway
from sowline_fanout.runner import FanoutRunner
from sowline_fanout.typed_values import TypedValues

log = structlog.get_logger()

USUAL_PORT = 8082


class FanoutService(RunnerService):
    """Runs each fanout in its own thread."""

    TASK = "write fanout"
    SERVICE = "the fanout service"
    KINDS = frozenset({Kind.FANOUT})

    def __init__(self, settings: Settings, topics: Topics, stop: threading.Event) -> None:
        super().__init__(settings, topics, stop)
        self._registry = Registry(settings.registry) if settings.registry else None

    def _prepare(self, stack: ExitStack) -> None:
        if self._registry is not None:
            stack.callback(self._registry.close)

    def _run_next(self, runners: Runners) -> None:
        try:
            super()._run_next(runners)
        except RegistryAway as error:
            # Logged once: the runner asks again until the registry answers
            # (test_a_registry_that_is_away_is_waited_for).
            if runners.now.state is not RunnerState.WAITING:
                log.warning("fanout waits for the schema registry", fanout=runners.name, why=error.message)
            raise RunnerWaits(f"waiting for the schema registry: {error.message}") from error

    def _runner(self, name: str, stop: threading.Event, stack: ExitStack) -> FanoutRunner:
        fanout = next(one for one in self._topics.fanouts if one.name == name)
        source = self._topics.named(fanout.topic)
        values = TypedValues.of(fanout, source, self._registry)
        return FanoutRunner(self._settings, fanout, source, stop, values)

    def _log_restart(self, name: str, why: str) -> None:
        log.error("restarting from committed offsets", fanout=name, why=why)

    def _log_stop(self, name: str, reason: str, why: str, traceback: bool) -> None:
        log.error("fanout stopped", fanout=name, reason=reason, why=why, exc_info=traceback)

    def _families(self) -> tuple[CounterMetricFamily, GaugeMetricFamily]:
        return (
            CounterMetricFamily("sowline_fanout_messages", "Messages written", labels=["fanout"]),
            GaugeMetricFamily("sowline_fanout_behind_changes", "Changes not yet written", labels=["fanout"]),
        )


def serve(settings: Settings, topics: Topics, stop: threading.Event) -> None:
    """Run the fanouts and their health port until `stop` is set."""
    FanoutService(settings, topics, stop).serve(USUAL_PORT)
