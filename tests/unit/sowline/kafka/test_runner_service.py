"""The states of the runners of one name."""

import threading
from itertools import product
from typing import Any

import pytest
from structlog.testing import capture_logs

from sowline.config.definition_changes import followed
from sowline.config.settings import Settings
from sowline.config.topics import parse_topics
from sowline.errors import SowlineError, StartAgain
from sowline.kafka.runner_service import NEXT, Runners, RunnerState, Situation
from sowline_fanout.service import FanoutService
from tests.waiting import wait_for

CASES = list(product(RunnerState, RunnerState))


@pytest.mark.parametrize(("before", "after"), CASES)
def test_a_state_follows_or_is_refused(before: RunnerState, after: RunnerState) -> None:
    """What has stopped stays so until its thread ends, and nothing starts twice; each state may stay."""
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


class Runner:
    """Runs until it is stopped; its fanout fails if it has no filter."""

    waiting = staticmethod(lambda: None)
    assigned, written, behind = False, 0, 0

    def __init__(self, settings: Any, fanout: Any, source: Any, stop: threading.Event, values: Any) -> None:
        self.fanout, self.stop = fanout, stop

    def run(self) -> None:
        """Wait, or fail."""
        if not self.fanout.filter:
            raise SowlineError("gap", "changes are gone")
        self.stop.wait()


class Full(Runner):
    """Waits for space in its producer's queue, until it is stopped."""

    def run(self) -> None:
        """Wait."""
        self.stop.wait()
        raise StartAgain("stopping before the producer has space")


def test_a_runner_that_is_stopped_reports_no_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody has to look into an error at each stop while Kafka is away."""
    monkeypatch.setattr("sowline_fanout.service.FanoutRunner", Full)
    topics = parse_topics("{topics: [{name: t, key: /id}], fanouts: [{name: f, topic: t}]}")
    service = FanoutService(Settings(kafka="127.0.0.1:1"), topics, threading.Event())
    runners = service.runners["f"]
    with capture_logs() as logs:
        runners.begin(service.run_each)
        wait_for(lambda: runners.latest, "the fanout to run")
        runners.stop.set()
        runners.wait_ended()
    assert not logs


def test_definitions_begin_and_end_runners(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of others go on, also with another index of their source; a stopped one begins again with its definition;
    startup doesn't wait for new ones.
    """
    monkeypatch.setattr("sowline_fanout.service.FanoutRunner", Runner)
    topics = "topics: [{name: t, key: /id}, {name: u, key: /id}]"
    kept = "{name: kept, topic: u, filter: /a = 1}"
    old = parse_topics(
        f"{{{topics}, fanouts: [{kept}, {{name: f, topic: t}}, {{name: gone, topic: t, filter: /a = 1}}]}}"
    )
    indexed = topics.replace("name: u,", "name: u, indexes: [/a],")
    new = parse_topics(
        f"{{{indexed}, fanouts: [{kept}, {{name: f, topic: t, filter: /a = 2}}, {{name: new, topic: t}}]}}"
    )
    service = FanoutService(Settings(kafka="127.0.0.1:1"), old, threading.Event())
    before = service.runners
    for runners in before.values():
        runners.begin(service.run_each)
    wait_for(lambda: service.not_ready() == "f: changes are gone", "the fanout to stop")
    wait_for(lambda: before["kept"].latest and before["gone"].latest, "the others to run")
    first = before["kept"].latest
    service.redefine(followed(old, new))
    wait_for(lambda: service.not_ready() == "new: changes are gone", "the new one to stop")
    wait_for(lambda: service.runners["f"].now.state is RunnerState.RUNNING, "the changed one to run")
    assert list(service.runners) == ["kept", "f", "new"]
    assert service.runners["kept"].latest is first
    assert before["gone"].now.state is RunnerState.ENDED
    assert service.not_started() == "waiting for partitions: kept"
    service.redefine(followed(new, parse_topics(f"{{{topics}}}")))
    assert (service.runners, service.not_started(), service.not_ready()) == ({}, None, None)
