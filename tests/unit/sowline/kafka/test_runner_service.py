"""The states of the runners of one name."""

from itertools import product

import pytest

from sowline.kafka.runner_service import NEXT, Runners, RunnerState, Situation

CASES = list(product(RunnerState, RunnerState))


@pytest.mark.parametrize(("before", "after"), CASES)
def test_a_state_follows_or_is_refused(before: RunnerState, after: RunnerState) -> None:
    """What has stopped stays so, and nothing starts twice; each state may stay."""
    runners = Runners("f")
    runners.now = Situation(before)
    if after is before or after in NEXT[before]:
        runners.move(after, "why")
        assert runners.now == (after, "why")
    else:
        with pytest.raises(AssertionError):
            runners.move(after)
        assert runners.now == (before, "")


@pytest.mark.parametrize("state", RunnerState)
def test_what_waits_or_stopped_has_begun(state: RunnerState) -> None:
    """Start-up waits for partitions only, and health says what else is missing."""
    runners = Runners("f")
    runners.now = Situation(state, "why")
    assert runners.has_started == (state in (RunnerState.WAITING, RunnerState.STOPPED))
    assert runners.waits_for() == ("why" if state is RunnerState.WAITING else None)
    assert runners.why_stopped() == ("why" if state is RunnerState.STOPPED else None)
