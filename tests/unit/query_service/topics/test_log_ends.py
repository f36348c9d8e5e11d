"""Whose ends are sampled: all of few logs, of many those in turn, and always those that a reader waits for."""

from collections import Counter

import pytest

from sowline.wire.node_queries import (
    SAMPLE_SECONDS,
    SAMPLE_TURN_SECONDS_MAX,
    SAMPLED_MAX,
    sample_turn_seconds,
)
from sowline_query_service.topics.log_ends import LogTurns


def test_few_logs_are_all_sampled_each_time() -> None:
    """A lag is then as old as one sample."""
    turns = LogTurns({"a": 8, "b": SAMPLED_MAX - 8})
    for _ in range(3):
        assert sorted(turns.next([])) == ["a", "b"]


@pytest.mark.parametrize(
    ("logs", "partitions"), [(200, 8), (2000, 8), (300, 1), (3, 5 * SAMPLED_MAX), (200, 60)]
)
def test_many_logs_come_in_turn(logs: int, partitions: int) -> None:
    """A sample has a share of them, and each comes as often as the others, and within the turn.

    A gateway judges the age of a lag by this turn.
    """
    turns = LogTurns({str(number): partitions for number in range(logs)})
    rounds = int(SAMPLE_TURN_SECONDS_MAX / SAMPLE_SECONDS)
    samples = [turns.next([]) for _ in range(3 * rounds)]
    share = max(SAMPLED_MAX, logs * partitions / rounds)
    assert all(len(sample) * partitions < share + 1 + partitions for sample in samples)
    counts = Counter(log for sample in samples for log in sample)
    assert len(counts) == logs
    assert max(counts.values()) - min(counts.values()) <= 1
    turn = round(sample_turn_seconds(logs * partitions) / SAMPLE_SECONDS)
    for begin in range(len(samples) - turn):
        assert len({log for sample in samples[begin : begin + turn] for log in sample}) == logs


def test_what_is_asked_for_comes_at_once() -> None:
    """Readers that demand freshness wait for no turn; the others' turns go on."""
    turns = LogTurns({str(number): SAMPLED_MAX // 2 for number in range(10)})
    assert turns.next(["7"]) == ["7", "0", "1"]
    assert turns.next(["7", "1"]) == ["7", "1", "2", "3"]
    seen = [log for _ in range(3) for log in turns.next(["7"]) if log != "7"]
    assert seen == ["4", "5", "6", "8", "9", "0"]
