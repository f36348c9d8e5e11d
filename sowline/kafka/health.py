"""Checks repeatedly, in its own thread, whether Kafka answers, for a service's health."""

import threading
import time
from collections.abc import Iterator

import structlog
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from sowline.config.kafka_options import KafkaConfig
from sowline.kafka.clients import logged

log = structlog.get_logger()

ASK_SECONDS = 1.0
"""The time between an answer and the next question."""

ANSWER_SECONDS_MAX = 2.0


class KafkaHealth:
    """Tracks since when Kafka hasn't answered; each question is a client's request for the list of brokers."""

    def __init__(self, kafka: KafkaConfig) -> None:
        self._kafka = kafka
        self._away_since: float | None = None
        self._why = ""
        """The error of the client's last attempt to connect since Kafka answered."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reach", daemon=True)

    def start(self) -> None:
        """Start asking."""
        self._thread.start()

    def stop(self) -> None:
        """Stop asking."""
        self._stop.set()

    def _run(self) -> None:
        client = AdminClient(logged({**self._kafka, "error_cb": self._on_error}))
        while not self._stop.is_set():
            asked = time.monotonic()
            try:
                # A question about a topic would fail, or create the topic, once that is dropped.
                client.describe_cluster(request_timeout=ANSWER_SECONDS_MAX).result()
            except KafkaException as error:
                # The client calls `error_cb` only while it is polled. Without that, the reason would be a timeout,
                # whatever has failed (test_the_reason_is_the_clients_own).
                client.poll(0)
                self.note(asked, self._why or error.args[0].str())
            else:
                client.poll(0)
                # The reason of this outage is not that of the next one.
                self._why = ""
                self.note(asked)
            self._stop.wait(ASK_SECONDS)

    def _on_error(self, error: KafkaError) -> None:
        # This error only says that all attempts have failed. The earlier ones have the reason
        # (test_the_reason_is_the_clients_own).
        if error.code() != KafkaError._ALL_BROKERS_DOWN:
            self._why = error.str()

    def note(self, asked: float, failure: str = "") -> None:
        """Take the outcome of a question that was asked at this time of the monotonic clock."""
        if failure and self._away_since is None:
            self._away_since = asked
            log.warning("Kafka does not answer", why=failure)
        elif not failure and self._away_since is not None:
            log.info("Kafka answers again", after_seconds=round(self.away_seconds, 1))
            self._away_since = None

    @property
    def away_seconds(self) -> float:
        """Seconds since Kafka last answered; 0 while it answers."""
        since = self._away_since
        return 0.0 if since is None else time.monotonic() - since

    def lost(self) -> str | None:
        """Return a sentence that Kafka doesn't answer, and since when; None if it does."""
        if self._away_since is None:
            return None
        where = self._kafka["bootstrap.servers"]
        return (
            f"Kafka at {where} has not answered for {self.away_seconds:.0f} s: waiting for it; nothing is lost, and"
            " the service continues when it answers"
        )

    def metrics(self) -> Iterator[Metric]:
        """Yield the metric of how long Kafka hasn't answered."""
        yield GaugeMetricFamily(
            "sowline_kafka_away_seconds",
            "Seconds since Kafka last answered; 0 while it answers",
            value=self.away_seconds,
        )
