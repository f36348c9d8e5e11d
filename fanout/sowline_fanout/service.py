"""The fanout process: a runner for each configured fanout, with their health and metrics."""

import threading
from collections.abc import Iterable

import structlog
from confluent_kafka import KafkaException
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from sowline.changes.changes_reader import ChangesReplaced
from sowline.config.fanouts import FanoutDefinition
from sowline.config.settings import Settings
from sowline.config.topics import Topics
from sowline.errors import SowlineError, fault_sentence
from sowline.kafka.admin import await_topics
from sowline.kafka.health import KafkaHealth
from sowline.registry.client import Registry, RegistryAway
from sowline.runtime.health import HealthServer
from sowline_fanout.runner import Runner
from sowline_fanout.typed_values import TypedValues

log = structlog.get_logger()

USUAL_PORT = 8082
PAUSE_SECONDS = 1.0


class FanoutService:
    """Runs each fanout in its own thread. A fanout that fails restarts, or reports why it can't."""

    def __init__(self, settings: Settings, topics: Topics, stop: threading.Event) -> None:
        self._settings = settings
        self._topics = topics
        self._stop = stop
        self._runners: dict[str, Runner] = {}
        self._stopped: dict[str, str] = {}
        self._held_up: dict[str, str] = {}
        """Why fanouts can't continue for now."""
        self._registry = Registry(settings.registry) if settings.registry else None
        self._kafka_health = KafkaHealth(settings.kafka_client, topics.topics[0].log)

    def run(self) -> None:
        """Write all fanouts until the service stops."""
        self._kafka_health.start()
        if not await_topics(self._settings.kafka_client, self._topics, self._stop):
            return
        threads = [threading.Thread(target=self._keep, args=(fanout,)) for fanout in self._topics.fanouts]
        for thread in threads:
            thread.start()
        self._stop.wait()
        for thread in threads:
            thread.join()
        if self._registry is not None:
            self._registry.close()

    def _keep(self, fanout: FanoutDefinition) -> None:
        source = self._topics.named(fanout.topic)
        while not self._stop.is_set():
            try:
                values = TypedValues.of(fanout, source, self._registry)
                self._held_up.pop(fanout.name, None)
                runner = Runner(self._settings, fanout, source, self._stop, values)
                self._runners[fanout.name] = runner
                runner.run()
            except RegistryAway as error:
                if fanout.name not in self._held_up:
                    log.warning("fanout waits for the schema registry", fanout=fanout.name, why=error.message)
                self._held_up[fanout.name] = f"waiting for the schema registry: {error.message}"
                self._stop.wait(PAUSE_SECONDS)
            except (KafkaException, ChangesReplaced) as error:
                log.error("restarting from committed offsets", fanout=fanout.name, why=str(error))
                self._stop.wait(PAUSE_SECONDS)
            except SowlineError as error:
                log.error("fanout stopped", fanout=fanout.name, reason=error.reason, why=error.message)
                self._stopped[fanout.name] = error.message
                return
            except Exception as error:
                why = fault_sentence(f"write fanout {fanout.name}", error, "the fanout service")
                log.exception("fanout stopped", fanout=fanout.name, reason="unexpected", why=why)
                self._stopped[fanout.name] = why
                return

    def not_started(self) -> str | None:
        """Return which fanouts have no partitions yet; None if all have some."""
        waiting = [f.name for f in self._topics.fanouts if not self._has_begun(f.name)]
        return (
            self._kafka_health.lost() or f"waiting for partitions: {', '.join(waiting)}" if waiting else None
        )

    def _has_begun(self, name: str) -> bool:
        return (
            name in self._stopped
            or name in self._held_up
            or (name in self._runners and self._runners[name].assigned)
        )

    def not_ready(self) -> str | None:
        """Return which fanouts have stopped, that Kafka is away, or what fanouts wait for; None if ready."""
        stopped = "; ".join(f"{name}: {why}" for name, why in self._stopped.items())
        return stopped or self._kafka_health.lost() or self._waiting()

    def _waiting(self) -> str | None:
        waiting = {name: runner.waiting() for name, runner in dict(self._runners).items()} | self._held_up
        return "; ".join(f"{name}: {why}" for name, why in waiting.items() if why is not None) or None

    def not_alive(self) -> str | None:
        """Return why only a restart can help: always None, as long as the process answers."""
        return None

    def metrics(self) -> Iterable[Metric]:
        """Yield the metrics; docs/metrics.md describes each."""
        family = CounterMetricFamily("sowline_fanout_messages", "Messages written", labels=["fanout"])
        for name, runner in dict(self._runners).items():
            family.add_metric([name], runner.messages)
        yield family
        behind = GaugeMetricFamily(
            "sowline_fanout_behind_changes", "Changes not yet written", labels=["fanout"]
        )
        for name, runner in dict(self._runners).items():
            if (events := runner.behind) is not None:
                behind.add_metric([name], events)
        yield behind
        yield from self._kafka_health.metrics()


def serve(settings: Settings, topics: Topics, stop: threading.Event) -> None:
    """Run the fanouts and their health port until `stop` is set."""
    service = FanoutService(settings, topics, stop)
    health = HealthServer(service, settings.host, settings.port or USUAL_PORT)
    health.start()
    try:
        service.run()
    finally:
        health.stop()
