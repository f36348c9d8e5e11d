"""Checks repeatedly, in its own thread, whether Kafka answers, for a service's health."""

import threading
import time
from collections.abc import Iterator

import structlog
from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient
from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from sowline.config.kafka_options import KafkaConfig
from sowline.kafka.clients import logged

log = structlog.get_logger()

ASK_SECONDS = 1.0
"""The time between an answer and the next question."""

ANSWER_SECONDS_MAX = 2.0


class KafkaHealth:
    """Tracks since when Kafka hasn't answered; each question is a client's request to describe a topic.

    Any answer of a broker counts, also that it doesn't know the topic or that the service has no right to it. The
    topic is one that the service reads, so a cluster with rights doesn't note a refusal for each question.
    """

    def __init__(self, kafka: KafkaConfig, topic: str) -> None:
        self._kafka = kafka
        self._topic = TopicCollection([topic])
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
            error = self._ask(client)
            # The client calls `error_cb` only while it is polled. Without that, the reason would be a timeout,
            # whatever has failed (test_the_reason_is_the_clients_own).
            client.poll(0)
            if error is None:
                # The reason of this outage is not that of the next one.
                self._why = ""
                self.note(asked)
            else:
                self.note(asked, self._why or error.str())
            self._stop.wait(ASK_SECONDS)

    def _ask(self, client: AdminClient) -> KafkaError | None:
        """Return the client's own error; None if a broker has answered."""
        # Don't ask for the cluster: a single broker that starts may answer without any broker, and librdkafka 2.16
        # aborts the process then (rd_kafka_admin_response_parse, "rko_result").
        (answer,) = client.describe_topics(self._topic, request_timeout=ANSWER_SECONDS_MAX).values()
        try:
            answer.result()
        except KafkaException as failure:
            error = failure.args[0]
            # The client's own codes are negative.
            return error if error.code() < 0 else None
        return None

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
