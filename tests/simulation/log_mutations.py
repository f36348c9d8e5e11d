"""Small mistakes about logs that are replaced, and about open transactions, as somebody might make them."""

from collections.abc import Iterable
from typing import Any
from unittest.mock import patch

from confluent_kafka import Consumer

from sowline.kafka.clients import plain_consumer
from sowline.kafka.cluster_answer import ClusterAnswer
from sowline.kafka.fetched_ids import FetchedIds
from sowline_materializer.worker.assignment import Assignment
from sowline_materializer.worker.worker import Worker
from sowline_query_service.replica.log_end import Reached
from tests.simulation.log_world import simulate_logs
from tests.simulation.mistake import Mistake, mistakes_in, seeds_with_errors

_reopen = Assignment.reopen
_plain_consumer = plain_consumer


def _id_of_the_log_not_compared() -> list[Any]:
    return [patch.object(FetchedIds, "is_other", lambda self, topic, topic_id: False)]


def _records_of_a_replaced_log_applied() -> list[Any]:
    def of_known_logs(self: Worker, messages: Any) -> Any:
        if replaced := self._replaced.take():
            self._assignment.reopen(self._consumer, replaced)
        return messages

    return [patch.object(Worker, "_reopen_replaced", of_known_logs)]


def _new_era_read_from_the_old_offset() -> list[Any]:
    class Deaf:
        def __init__(self, consumer: Consumer) -> None:
            self._consumer = consumer

        def __getattr__(self, name: str) -> Any:
            return (lambda some: None) if "incremental" in name else getattr(self._consumer, name)

    def reopen(self: Assignment, consumer: Any, partition_ids: Any) -> None:
        _reopen(self, Deaf(consumer), partition_ids)  # type: ignore[arg-type]

    return [patch.object(Assignment, "reopen", reopen)]


def _lag_of_another_log() -> list[Any]:
    return [patch.object(Reached, "is_of", lambda self, log_id: True)]


def _lag_counts_to_the_stable_end() -> list[Any]:
    return [patch.object(ClusterAnswer, "newest_ends", ClusterAnswer.ends)]


def _unreadable_headers_taken_for_none() -> list[Any]:
    return [patch("sowline.kafka.messages._unreadable", lambda message: [])]


def _open_transaction_applied() -> list[Any]:
    def consumer(kafka: Any, options: Any, group: str) -> Consumer:
        return _plain_consumer(kafka, {**options, "isolation.level": "read_uncommitted"}, group)

    return [patch("sowline_materializer.worker.worker.plain_consumer", consumer)]


LOG_MISTAKES: dict[str, Mistake] = mistakes_in(globals())
"""Each mistake, by what it is."""


LOGS_FOUND_BY: dict[str, tuple[int, ...]] = {"lag of another log": (2, 81)}
"""The seeds that found a mistake that few of them find: they are tried first."""


def seeds_that_find(mistake: str, seeds: Iterable[int], wanted: int) -> list[int]:
    """Return the first seeds that fail with a mistake about logs, no more than are wanted."""
    known = LOGS_FOUND_BY.get(mistake, ())
    made = LOG_MISTAKES[mistake]
    return seeds_with_errors(made, seeds, known, lambda seed: simulate_logs(seed).error, wanted)
