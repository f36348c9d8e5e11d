"""The last eras of deleted logs: what `drop` stores, and the era that a log begins with afterwards."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from sowline.changes.progress import PROGRESS_KEY, Progress
from sowline.config.kafka_names import LAST_ERAS, KafkaNames
from sowline.errors import SowlineError
from sowline.kafka import last_eras
from sowline.kafka.last_eras import NEVER_DELETED, LastEras, note_last_eras
from sowline.model.position import Position

ORDERS = KafkaNames.of_log("orders")
VIEW = KafkaNames.of_view("totals")


class Kept:
    """The records of a Kafka's partitions, as pairs of key and value; quacks like `Cluster` and `_Output`."""

    def __init__(self) -> None:
        self.held: dict[tuple[str, int], list[tuple[bytes, bytes]]] = {}
        self.looks = 0
        self.refused: int | None = None

    def progress(self, changes: str, number: int, *eras: int) -> None:
        """Add a progress event of each of these eras to a partition."""
        for era in eras:
            event = Progress(Position(era, 5), Position(era, 5), 6, {}, "", "", 0, {})
            self.held.setdefault((changes, number), []).append((PROGRESS_KEY, event.value()))

    def last_era(self, log: str) -> int:
        """Return the last era of a log."""
        return LastEras({}, self).of(log)  # type: ignore[arg-type]

    def is_there(self, topic: str) -> bool:
        """Return whether there is a topic of this name; count the question."""
        self.looks += 1
        if self.refused is not None:
            raise KafkaException(KafkaError(self.refused))
        return any(topic == one for one, _ in self.held)

    def partitions(self, topic: str) -> int:
        """Return the number of partitions."""
        return sum(one == topic for one, _ in self.held)

    def starts(self, topic: str, numbers: range) -> dict[int, int]:
        """Return where partitions begin."""
        return dict.fromkeys(numbers, 0)

    def ends(self, topic: str, numbers: range) -> dict[int, int]:
        """Return where partitions end."""
        return {number: len(self.held[topic, number]) for number in numbers}

    def ensure_compacted(self, name: str) -> None:
        """Create a topic."""
        self.held.setdefault((name, 0), [])

    def write(self, eras: dict[str, int]) -> None:
        """Write last eras."""
        self.held[LAST_ERAS, 0] += [(log.encode(), b'{"last_era":%d}' % era) for log, era in eras.items()]

    def close(self) -> None:
        """Need nothing."""

    def read(self, _: Any, topic: str, number: int, start: int, end: int) -> Iterator[list[Any]]:
        """Yield messages."""
        for key, value in self.held[topic, number][start:end]:
            about = {"key": key, "value": value, "headers": None}
            yield [SimpleNamespace(**{name: lambda of=of: of for name, of in about.items()})]


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Kept:
    """A Kafka with nothing in it."""
    made = Kept()
    monkeypatch.setattr(last_eras, "Cluster", lambda kafka: made)
    monkeypatch.setattr(last_eras, "_Output", lambda kafka: made)
    monkeypatch.setattr(last_eras, "read_range", made.read)
    return made


def test_a_log_ends_in_the_newest_era_of_its_partitions(kept: Kept) -> None:
    """A stalled owner may have written the last event."""
    kept.progress("orders.changes", 0, 0, 1)
    kept.progress("orders.changes", 1, 2, 3, 0)
    kept.progress("totals.changes", 0, 0)
    assert kept.last_era("orders") == NEVER_DELETED
    note_last_eras({}, [ORDERS, VIEW])
    assert (kept.last_era("orders"), kept.last_era("totals.partials"), kept.last_era("totals")) == (3, 0, -1)


def test_eras_go_on_with_each_deletion(kept: Kept) -> None:
    """A log that was never opened in between, or whose deletion is repeated, has no era of its own."""
    kept.held["orders.changes", 0] = [(b"1", b"no event")]
    note_last_eras({}, [ORDERS])
    assert not kept.is_there(LAST_ERAS)
    kept.progress("orders.changes", 0, 0)
    note_last_eras({}, [ORDERS])
    kept.held["orders.changes", 0] = []
    note_last_eras({}, [ORDERS])
    assert kept.last_era("orders") == 0
    kept.progress("orders.changes", 0, 1)
    note_last_eras({}, [ORDERS])
    assert kept.last_era("orders") == 1


def test_a_kept_log_begins_in_its_first_era_again(kept: Kept) -> None:
    """Unless a later one has begun: that one has positions of its own."""
    kept.progress("orders.changes", 0, 0)
    note_last_eras({}, [], [ORDERS])
    assert kept.last_era("orders") == NEVER_DELETED
    kept.progress("orders.changes", 0, 1)
    note_last_eras({}, [], [ORDERS])
    assert kept.last_era("orders") == 1
    kept.progress("orders.changes", 0, 2)
    note_last_eras({}, [], [ORDERS])
    assert kept.last_era("orders") == 1


def test_all_logs_are_read_at_once(kept: Kept) -> None:
    """A worker that opens thousands of partitions asks Kafka once."""
    kept.progress("orders.changes", 0, 4)
    kept.progress("totals.changes", 0, 2)
    note_last_eras({}, [ORDERS, VIEW])
    found, kept.looks = LastEras({}, kept), 0  # type: ignore[arg-type]
    assert [found.of(log) for log in ("orders", "totals.partials", "none")] == [4, 2, NEVER_DELETED]
    assert kept.looks == 1


def test_an_era_that_may_not_be_read(kept: Kept) -> None:
    """No log begins in an era that it may have had already; the error names the missing rights."""
    kept.refused = KafkaError.TOPIC_AUTHORIZATION_FAILED
    with pytest.raises(SowlineError, match=r"Describe and Read on it") as refused:
        kept.last_era("orders")
    assert refused.value.reason == "bad topic"
    assert LAST_ERAS in refused.value.message
    kept.refused = KafkaError.CLUSTER_AUTHORIZATION_FAILED
    with pytest.raises(KafkaException):
        kept.last_era("orders")
