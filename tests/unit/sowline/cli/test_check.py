"""`sowline check` without a system: the definitions of its topics, and recorded histories."""

import random
from collections.abc import Iterable
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from msgspec import structs

from sowline.check.history import Event, HistoryBegin, MessageRead, event_line, read_history
from sowline.check.judge.judging import judge
from sowline.check.judge.verdict import Guarantee
from sowline.check.topics import WorkloadTopics
from sowline.cli import connection, main
from sowline.cli.check import SHOWN_MAX
from sowline.config.topics import Topics
from sowline.runtime.running_stack import RunningStack
from tests.checked_world import CheckedWorld
from tests.planted import PLANTED, plant


def recorded(path: Path, events: Iterable[Event]) -> Path:
    """Write a history."""
    path.write_bytes(b"".join(event_line(event) + b"\n" for event in events))
    return path


def planted(name: str) -> list[Event]:
    """Return a history with one mistake."""
    mistake = next(one for one in PLANTED if one.name == name)
    events = plant(mistake, CheckedWorld(5).live(), random.Random(5))
    assert events is not None
    return events


def test_the_definitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are those of a file of topics, with the prefix; no system has to run, next to a file of topics either."""
    (tmp_path / "topics.yaml").touch()
    monkeypatch.chdir(tmp_path)
    running = RunningStack(1, "", "/elsewhere", "", "http://127.0.0.1:1", {}, "", "")
    monkeypatch.setattr(connection, "running_stacks", lambda: [running])
    done = CliRunner().invoke(main, ["check", "--definitions", "--prefix", "mine"])
    topics = Topics.model_validate(yaml.safe_load(done.output))
    assert [topic.name for topic in topics.topics] == [
        "mine-records",
        "mine-expiring",
        "mine-documents",
        "mine-totals",
    ]
    fanouts = WorkloadTopics.below("mine").fanouts
    assert [
        (one.name, one.topic, one.filter, one.delta, one.options, one.output) for one in topics.fanouts
    ] == [(one.name, one.topic, one.filter, one.is_delta, "oof", one.output) for one in fanouts]


def test_a_sound_history(tmp_path: Path) -> None:
    """Each guarantee has a row, with what was checked; no other file appears."""
    history = recorded(tmp_path / "run.jsonl", CheckedWorld(1).live(12))
    done = CliRunner().invoke(main, ["check", "--judge", str(history)])
    assert done.exit_code == 0
    head, *rows = done.output.splitlines()
    assert head.split() == ["GUARANTEE", "CHECKED", "BROKEN", "VERDICT"]
    assert [row.split()[-1] for row in rows] == ["kept"] * len(Guarantee)
    assert list(tmp_path.iterdir()) == [history]


def test_what_nothing_has_checked(tmp_path: Path) -> None:
    """It is not called kept."""
    history = recorded(tmp_path / "run.jsonl", CheckedWorld(1).events)
    done = CliRunner().invoke(main, ["check", "--judge", str(history)])
    assert done.exit_code == 0
    assert done.output.count("nothing checked") == len(Guarantee)


def test_fanouts_that_were_not_checked(tmp_path: Path) -> None:
    """The last line says why."""
    begin, *events = CheckedWorld(1).events
    assert isinstance(begin, HistoryBegin)
    begin = structs.replace(begin, unchecked_fanouts="expected changes, got none")
    history = recorded(tmp_path / "run.jsonl", [begin, *events])
    done = CliRunner().invoke(main, ["check", "--judge", str(history)])
    assert done.exit_code == 0
    assert done.output.splitlines()[-1] == "fanouts were not checked: expected changes, got none"


def test_a_broken_guarantee(tmp_path: Path) -> None:
    """The exit code is 1, the violations are listed, and a short history is written."""
    events = planted("a lost publish")
    history = recorded(tmp_path / "run.jsonl", events)
    done = CliRunner().invoke(main, ["check", "--judge", str(history)])
    assert done.exit_code == 1
    assert "broken" in done.output
    *_, violation, last = done.output.splitlines()
    assert violation == str(judge(events).violations[-1])
    short = tmp_path / "run.short.jsonl"
    assert last == f"the events of the first violation are in {short}"
    with short.open("rb") as lines:
        assert judge(read_history(lines)).broken


def test_many_violations(tmp_path: Path) -> None:
    """The rest is counted."""
    events = [
        event
        for number, event in enumerate(CheckedWorld(5).live(20))
        if number % 5 or not isinstance(event, MessageRead)
    ]
    history = recorded(tmp_path / "run.jsonl", events)
    done = CliRunner().invoke(main, ["check", "--judge", str(history)])
    count = len(judge(events).violations) - SHOWN_MAX
    assert f"… and {count} more" in done.output


def test_what_is_no_history(tmp_path: Path) -> None:
    """The error names the line."""
    (tmp_path / "run.jsonl").write_text("{}\n")
    done = CliRunner().invoke(main, ["check", "--judge", str(tmp_path / "run.jsonl")])
    assert done.exit_code == 1
    assert done.output.startswith("bad request: expected an event in line 1: ")
