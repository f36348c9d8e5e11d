"""A Kafka of topics and groups for one process, whose answers may be refused: what an `AdminClient` talks to."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition

DEFAULTS = {
    "cleanup.policy": "delete",
    "retention.ms": "604800000",
    "retention.bytes": "-1",
    "message.timestamp.type": "CreateTime",
    "max.message.bytes": "1048588",
    "min.compaction.lag.ms": "0",
    "delete.retention.ms": "86400000",
}

Topic = tuple[int, dict[str, str]]
"""The number of partitions, and the settings."""


def error_of(code: int) -> KafkaException:
    """Return the exception of a code."""
    return KafkaException(KafkaError(code))


class Broker:
    """Answers an `AdminClient`; the first `refusals` calls of each kind end with the error `code`.

    A change that is refused is made all the same if `answers_are_lost`. `before` is called before each change, with
    its kind: what other processes do meanwhile.
    """

    def __init__(
        self,
        topics: Mapping[str, Topic] | None = None,
        code: int = 0,
        refusals: int = 0,
        *,
        answers_are_lost: bool = False,
        before: Callable[[str], None] = lambda kind: None,
    ) -> None:
        self.topics = {name: (number, DEFAULTS | config) for name, (number, config) in (topics or {}).items()}
        self.asked: Counter[str] = Counter()
        self._error = error_of(code)
        self._refusals = refusals
        self._answers_are_lost = answers_are_lost
        self._before = before

    def _refuses(self, kind: str) -> bool:
        self.asked[kind] += 1
        return self.asked[kind] <= self._refusals

    def _answers(self, kind: str, keys: Iterable[Any], answer: Callable[[Any], Any]) -> dict[Any, Any]:
        """Return a future for each key; if this call is refused, that of the last one fails."""
        keys = list(keys)
        last = keys[-1] if self._refuses(kind) else None
        return {key: self._future(answer, key, key is last) for key in keys}

    def _changes(self, kind: str, keys: Iterable[Any], change: Callable[[Any], Any]) -> dict[Any, Any]:
        self._before(kind)
        return self._answers(kind, keys, change)

    def _future(self, answer: Callable[[Any], Any], key: Any, is_refused: bool) -> "Future[Any]":
        future: Future[Any] = Future()
        try:
            result = None if is_refused and not self._answers_are_lost else answer(key)
            if is_refused:
                raise self._error
            future.set_result(result)
        except KafkaException as error:
            future.set_exception(error)
        return future

    # what an `AdminClient` is asked

    def create_topics(self, topics: list[Any], **_: Any) -> dict[str, Any]:
        """Create topics."""
        new = {topic.topic: topic for topic in topics}
        return self._changes("create_topics", new, lambda name: self._create(name, new[name]))

    def _create(self, name: str, new: Any) -> None:
        if name in self.topics:
            raise error_of(KafkaError.TOPIC_ALREADY_EXISTS)
        self.topics[name] = (new.num_partitions, DEFAULTS | new.config)

    def create_partitions(self, new: list[Any]) -> dict[str, Any]:
        """Add partitions to topics."""
        wanted = {one.topic: one.new_total_count for one in new}
        return self._changes("create_partitions", wanted, lambda name: self._grow(name, wanted[name]))

    def _grow(self, name: str, partitions: int) -> None:
        number, config = self._found(name)
        if partitions <= number:
            raise error_of(KafkaError.INVALID_PARTITIONS)
        self.topics[name] = (partitions, config)

    def incremental_alter_configs(self, resources: list[Any]) -> dict[Any, Any]:
        """Change settings of topics."""
        return self._changes("incremental_alter_configs", resources, self._alter)

    def _alter(self, resource: Any) -> None:
        number, config = self._found(resource.name)
        changed = {entry.name: entry.value for entry in resource.incremental_configs}
        self.topics[resource.name] = (number, config | changed)

    def delete_topics(self, names: list[str], **_: Any) -> dict[str, Any]:
        """Delete topics."""
        return self._changes("delete_topics", names, lambda name: self._found(name) and self.topics.pop(name))

    def describe_topics(self, wanted: Any) -> dict[str, Any]:
        """Return ids and partitions of topics."""
        return self._answers("describe_topics", wanted.topic_names, self._described)

    def _described(self, name: str) -> Any:
        number, _ = self._found(name)
        return SimpleNamespace(
            topic_id=f"id of {name}", partitions=[_partition(one) for one in range(number)]
        )

    def describe_configs(self, resources: list[Any]) -> dict[Any, Any]:
        """Return the settings of topics."""
        return self._answers("describe_configs", resources, self._config)

    def _config(self, resource: Any) -> Any:
        _, config = self._found(resource.name)
        return {key: SimpleNamespace(value=value) for key, value in config.items()}

    def _found(self, name: str) -> Topic:
        if name not in self.topics:
            raise error_of(KafkaError.UNKNOWN_TOPIC_OR_PART)
        return self.topics[name]

    def list_offsets(self, asked: Mapping[TopicPartition, Any], **_: Any) -> dict[TopicPartition, Any]:
        """Return where partitions begin (3) and end (7); no record has any given time or a later one."""
        offsets = {-1: 7, -2: 3}
        return self._answers(
            "list_offsets",
            asked,
            lambda partition: SimpleNamespace(offset=offsets.get(asked[partition]._value, -1)),
        )

    def list_topics(self, *_: Any, **__: Any) -> Any:
        """Return the names of topics."""
        if self._refuses("list_topics"):
            raise self._error
        return SimpleNamespace(topics=dict.fromkeys(self.topics))

    def list_consumer_groups(self, **_: Any) -> Any:
        """Return the one group; its broker may be refused among others that answer."""
        future: Future[Any] = Future()
        refused = [self._error] if self._refuses("list_consumer_groups") else []
        valid = [] if refused else [SimpleNamespace(group_id="workers")]
        future.set_result(SimpleNamespace(valid=valid, errors=refused))
        return future

    def describe_consumer_groups(self, names: list[str]) -> dict[str, Any]:
        """Return the one member of each group, which reads a partition of `orders`."""
        owned = SimpleNamespace(topic_partitions=[TopicPartition("orders", 1)])
        member = SimpleNamespace(assignment=owned)
        return self._answers(
            "describe_consumer_groups", names, lambda name: SimpleNamespace(members=[member])
        )


def _partition(number: int) -> Any:
    """Return Kafka's description of a partition on two brokers, of which the first leads; none leads the third."""
    first, second = SimpleNamespace(id=1), SimpleNamespace(id=2)
    return SimpleNamespace(id=number, leader=None if number == 2 else first, replicas=[first, second])
