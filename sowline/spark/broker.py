"""Requests of a job to Kafka: partitions, offsets, settings. Uses the Java client, with the options of the job."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from sowline.errors import SowlineError

Offsets = dict[int, int]
"""An offset of each partition."""

TIMEOUT_MS = 20_000


class Broker:
    """A connection of one job to Kafka; `connected` lends one."""

    def __init__(self, jvm: Any, admin: Any, kafka: str) -> None:
        self._jvm = jvm
        self._admin = admin
        self._kafka = kafka

    def has(self, topic: str) -> bool:
        """Whether there is a topic of this name."""
        return bool(self._names.contains(topic))

    @cached_property
    def _names(self) -> Any:
        """The names of all topics, requested once."""
        return self._admin.listTopics().names().get()

    def partitions(self, topic: str) -> int:
        """Return the number of a topic's partitions; raise `invalid topic` if there is no such topic."""
        self.require(topic)
        found = self._admin.describeTopics(self._jvm.java.util.List.of(topic)).allTopicNames().get()
        return int(found.get(topic).partitions().size())

    def require(self, topic: str) -> None:
        """Raise `invalid topic` if there is no such topic."""
        if not self.has(topic):
            raise SowlineError(
                "invalid topic",
                f"expected the Kafka topic {topic} at {self._kafka}, got none: check the name; a materializer"
                " makes the topics that are defined",
            )

    def topic_id(self, topic: str) -> str:
        """Return Kafka's id of a topic, which changes when the topic is deleted and created again.

        It has the form that services use: librdkafka has the usual Base64 alphabet, Java the URL-safe one.
        """
        found = self._admin.describeTopics(self._jvm.java.util.List.of(topic)).allTopicNames().get()
        return str(found.get(topic).topicId().toString()).replace("-", "+").replace("_", "/")

    def setting(self, topic: str, name: str) -> str:
        """Return a setting of a topic."""
        config = self._jvm.org.apache.kafka.common.config.ConfigResource
        resource = config(config.Type.TOPIC, topic)
        found = self._admin.describeConfigs(self._jvm.java.util.List.of(resource)).all().get()
        return str(found.get(resource).get(name).value())

    def starts(self, topic: str, partitions: int) -> Offsets:
        """Return the offset of the first record that each partition still holds."""
        return self._offsets(topic, dict.fromkeys(range(partitions), self._which.earliest()))

    def ends(self, topic: str, partitions: int) -> Offsets:
        """Return the offset after the last committed record of each partition."""
        return self._offsets(topic, dict.fromkeys(range(partitions), self._which.latest()))

    def newest_ends(self, topic: str, partitions: int) -> Offsets:
        """Return the offset after the last record of each partition, committed or not."""
        return self._offsets(
            topic, dict.fromkeys(range(partitions), self._which.latest()), "READ_UNCOMMITTED"
        )

    def since(self, topic: str, times: Mapping[int, int]) -> dict[int, int | None]:
        """Return the offset of the first record with this time (ms) or a later one, in each partition."""
        found = self._offsets(topic, {p: self._which.forTimestamp(time) for p, time in times.items()})
        return {partition: None if offset < 0 else offset for partition, offset in found.items()}

    @property
    def _which(self) -> Any:
        return self._jvm.org.apache.kafka.clients.admin.OffsetSpec

    def _offsets(
        self, topic: str, asked_offsets: Mapping[int, Any], isolation: str = "READ_COMMITTED"
    ) -> Offsets:
        asked = self._jvm.java.util.HashMap()
        asked_partitions = {
            p: self._jvm.org.apache.kafka.common.TopicPartition(topic, p) for p in asked_offsets
        }
        for partition, which in asked_offsets.items():
            asked.put(asked_partitions[partition], which)
        level = self._jvm.org.apache.kafka.common.IsolationLevel.valueOf(isolation)
        options = self._jvm.org.apache.kafka.clients.admin.ListOffsetsOptions(level)
        found = self._admin.listOffsets(asked, options).all().get()
        return {partition: int(found.get(at).offset()) for partition, at in asked_partitions.items()}


@contextmanager
def connected(spark: SparkSession, kafka: str, options: Mapping[str, str]) -> Iterator[Broker]:
    """Lend a connection; `options` are those of Java's clients. Raise `no kafka` if it does not answer."""
    jvm: Any = spark._jvm
    settings = jvm.java.util.HashMap()
    for name, value in {**options, "bootstrap.servers": kafka}.items():
        settings.put(name, value)
    for name in ("default.api.timeout.ms", "request.timeout.ms"):
        settings.put(name, str(TIMEOUT_MS))
    with _refused(kafka):
        admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(settings)
        try:
            yield Broker(jvm, admin, kafka)
        finally:
            admin.close()


@contextmanager
def _refused(kafka: str) -> Iterator[None]:
    """Return the error of Kafka's client as a sentence."""
    try:
        yield
    except Py4JJavaError as error:
        # Java's futures wrap the error of Kafka, whose message names the cause.
        found = error.java_exception
        while found.getCause() is not None:
            found = found.getCause()
        if not str(found.getClass().getName()).startswith("org.apache.kafka."):
            raise
        raise SowlineError("no kafka", f"expected Kafka at {kafka}, got: {found.getMessage()}") from error
