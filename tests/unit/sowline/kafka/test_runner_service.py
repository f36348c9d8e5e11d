"""The states of the runners of one name."""

from itertools import product

import pytest

from sowline.kafka.runner_service import NEXT, Life, RunnerState, Situation

CASES = list(product(RunnerState, RunnerState))


@pytest.mark.parametrize(("before", "after"), CASES)
def test_a_state_follows_or_is_refused(before: RunnerState, after: RunnerState) -> None:
    """What has stopped stays so, and nothing starts twice; each state may stay."""
    life = Life("f")
    life.now = Situation(before)
    if after is before or after in NEXT[before]:
        life.move(after, "why")
        assert life.now == (after, "why")
    else:
        with pytest.raises(AssertionError):
            life.move(after)
        assert life.now == (before, "")


@pytest.mark.parametrize("state", RunnerState)
def test_what_waits_or_stopped_has_begun(state: RunnerState) -> None:
    """Start-up waits for partitions only, and health says what else is missing."""
    life = Life("f")
    life.now = Situation(state, "why")
    assert life.has_begun == (state in (RunnerState.WAITING, RunnerState.STOPPED))
    assert life.waiting() == ("why" if state is RunnerState.WAITING else None)
    assert life.stopped() == ("why" if state is RunnerState.STOPPED else None)
