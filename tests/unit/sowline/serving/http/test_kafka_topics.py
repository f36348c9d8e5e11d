"""The Kafka topics of the defined topics, as the APIs describe them."""

from types import SimpleNamespace

import pytest

from sowline.config.topic_definition import define_topic
from sowline.errors import SowlineError
from sowline.serving.http import kafka_topics

ORDERS, TRADES = (define_topic(name=name, key="/id") for name in ("orders", "trades"))


async def test_dead_letters_of_a_partition_without_a_leader_are_not_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The reader learns of which, and that it may ask again."""
    known = {("orders.dead", 0): 9}
    answer = SimpleNamespace(is_answered=True, starts=lambda: dict.fromkeys(known, 3), ends=lambda: known)
    cluster = SimpleNamespace(ask=lambda *asked, **given: answer)
    monkeypatch.setattr(kafka_topics, "Cluster", lambda *given: cluster)
    assert await kafka_topics.counted_dead_letters({}, [ORDERS]) == {"orders": 6}
    with pytest.raises(SowlineError, match=r"did not count the dead letters of trades\.dead \[0\]"):
        await kafka_topics.counted_dead_letters({}, [ORDERS, TRADES])
