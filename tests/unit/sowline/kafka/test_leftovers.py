"""What `drop` deletes, and in which order."""

from typing import Any

import pytest

from sowline.config.kafka_names import KafkaNames
from sowline.config.settings import Settings
from sowline.kafka import leftovers
from sowline.kafka.leftovers import Leftovers

ORDERS = KafkaNames.of_log("orders")


def test_the_changes_are_deleted_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """A drop that dies halfway, or that Kafka refuses in part, is repeated: it still finds the log by them."""
    done: list[Any] = []

    class Cluster:
        def __init__(self, kafka: Any) -> None: ...

        def delete_topics(self, names: list[str]) -> None:
            done.append(names)

    monkeypatch.setattr(leftovers, "Cluster", Cluster)
    monkeypatch.setattr(
        leftovers, "note_last_eras", lambda kafka, gone, kept: done.append(("eras", gone, kept))
    )
    left = Leftovers("orders", ("orders.changes", "orders.dead"), (), (ORDERS,))
    left.delete(Settings(kafka="127.0.0.1:1"), with_log=True)
    left.delete(Settings(kafka="127.0.0.1:1"), with_log=False)
    assert done == [
        ("eras", [ORDERS], []),
        ["orders.dead", "orders"],
        ["orders.changes"],
        ("eras", [], [ORDERS]),
        ["orders.dead"],
        ["orders.changes"],
    ]
