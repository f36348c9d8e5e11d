"""Processes that start together create and change the same topics: another one may always be first."""

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError

from sowline.config.topics import Topics
from sowline.errors import SowlineError
from sowline.kafka.admin import Cluster
from tests.unit.sowline.kafka.broker import Broker, Topic, error_of

DEFINED = {"name": "orders", "key": "/id", "partitions": 2}
TOPICS = Topics.model_validate(
    {
        "topics": [DEFINED],
        "fanouts": [{"name": "f", "topic": "orders", "delta": True}],
    }
)
ORDERS = TOPICS.topics[0]
GROWN: dict[str, Topic] = {
    "orders": (3, {}),
    "orders.changes": (2, {}),
    "fanout.f": (2, {"cleanup.policy": "compact"}),
}

ENSURE: dict[str, Callable[[Cluster], None]] = {
    "topic": lambda cluster: cluster.ensure_topic(ORDERS),
    "fanout": lambda cluster: cluster.ensure_fanout(TOPICS.fanouts[0], ORDERS),
    "deletion": lambda cluster: cluster.delete_topics(["orders"]),
}


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pause between two looks."""
    monkeypatch.setattr("sowline.kafka.admin.LOOK_AGAIN_SECONDS", 0)


def on(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Return a cluster of a broker."""
    monkeypatch.setattr("sowline.kafka.admin.AdminClient", lambda options: broker)
    return Cluster({})


@pytest.mark.parametrize("found", [{}, GROWN], ids=["new", "a log that was given a partition"])
@pytest.mark.parametrize("what", ENSURE)
def test_another_process_is_first(
    what: str, found: dict[str, Topic], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before each change, another process makes all of them; nothing fails, and the outcome is the same."""
    alone = Broker(found or {"orders": (2, {})} if what == "deletion" else found)
    ENSURE[what](on(alone, monkeypatch))
    raced: list[str] = []

    def overtake(kind: str) -> None:
        # The other one's changes come here, too.
        if kind not in raced:
            raced.append(kind)
            ENSURE[what](on(contended, monkeypatch))

    contended = Broker(found or {"orders": (2, {})} if what == "deletion" else found, before=overtake)
    ENSURE[what](on(contended, monkeypatch))
    assert contended.topics == alone.topics
    assert raced


def test_schemas_get_partitions_although_the_changes_have_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that grew one of them may have been killed before the other."""
    (topic,) = Topics.model_validate({"topics": [{**DEFINED, "message_type": "bson"}]}).topics
    broker = Broker({"orders": (3, {}), "orders.changes": (3, {}), "orders.schemas": (2, {})})
    on(broker, monkeypatch).ensure_topic(topic)
    assert broker.topics["orders.schemas"][0] == 3


class Deaf(Broker):
    """A broker that accepts changes of settings, or says that partitions are there, and does nothing."""

    def _alter(self, resource: Any) -> None:
        """Do nothing."""

    def _grow(self, name: str, partitions: int) -> None:
        raise error_of(KafkaError.INVALID_PARTITIONS)


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        ({"orders": (3, {}), "orders.changes": (2, {})}, "orders.changes did not get 3 partitions"),
        ({"orders": (2, {})}, "orders did not get message.timestamp.type=LogAppendTime"),
    ],
)
def test_the_outcome_is_checked(
    found: dict[str, Topic], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer that stands for "done already" is no proof: what is missing then is named."""
    monkeypatch.setattr("sowline.kafka.admin.ADMIN_SECONDS", 0.02)
    with pytest.raises(SowlineError, match=sentence):
        on(Deaf(found), monkeypatch).ensure_topic(ORDERS)


def refuse(*_: Any) -> None:
    """Refuse a change for good."""
    raise error_of(KafkaError.POLICY_VIOLATION)


def test_what_kafka_refuses_names_the_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka's own sentence does not name it."""
    broker = Broker({}, KafkaError.POLICY_VIOLATION, 1)
    with pytest.raises(SowlineError, match=r"^Kafka topic orders\.dead can't be created: .*POLICY_VIOLATION"):
        on(broker, monkeypatch).ensure_topic(ORDERS)
    broker = Broker(GROWN | {"orders.dead": (1, {})})
    monkeypatch.setattr(broker, "_grow", refuse)
    with pytest.raises(SowlineError, match=r"^Kafka topic orders\.changes can't get 3 partitions: "):
        on(broker, monkeypatch).ensure_topic(ORDERS)
