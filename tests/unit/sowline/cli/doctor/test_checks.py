"""What `sowline doctor` finds on this machine and in services."""

from dataclasses import replace
from pathlib import Path

import pytest

from sowline import __version__
from sowline.cli.doctor.checks import ROOM_BYTES_MIN, ROOM_BYTES_SCARCE, directory_findings, service_findings
from sowline.cli.doctor.examination import see_directory
from sowline.cli.doctor.facts import (
    DirectoryFacts,
    ServiceFacts,
)
from sowline.cli.doctor.finding import BEHIND_RECORDS_MAX, CLOCK_MS_MAX
from tests.unit.sowline.cli.doctor.sound_kafka import PART, SOUND, TOPICS, with_parts, wrong

# this machine

DIRECTORY = DirectoryFacts("var", owner="sow", me="sow", free_bytes=ROOM_BYTES_SCARCE, logs=("orders",))


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (DIRECTORY, []),
        (replace(DIRECTORY, is_there=False), [("state_none", "note")]),
        (replace(DIRECTORY, is_writable=False, owner="root"), [("state_unwritable", "error")]),
        (replace(DIRECTORY, free_bytes=ROOM_BYTES_SCARCE - 1), [("state_room", "warning")]),
        (replace(DIRECTORY, free_bytes=ROOM_BYTES_MIN - 1), [("state_room", "error")]),
        (replace(DIRECTORY, logs=("orders", "trades")), [("state_strange", "note")]),
    ],
)
def test_a_state_directory(seen: DirectoryFacts, expected: list[tuple[str, str]]) -> None:
    """Whose it is, whether it can be written to, its room, and what lies in it."""
    assert [one[:2] for one in wrong(directory_findings(seen, ["orders"]))] == expected


def test_a_directory_is_looked_at(tmp_path: Path) -> None:
    """What it holds are directories of logs."""
    of_all = tmp_path / "sow"
    (of_all / "orders" / "0").mkdir(parents=True)
    (of_all / "other").mkdir()
    (of_all / "file").touch()
    (tmp_path / "kafka").mkdir()
    seen = see_directory(tmp_path)
    # The disk is others' too: its room may have changed between the two looks.
    assert replace(see_directory(of_all), free_bytes=seen.free_bytes) == seen
    assert (seen.is_there, seen.is_writable, seen.logs, seen.owner) == (
        True,
        True,
        ("orders",),
        tmp_path.owner(),
    )
    assert seen.free_bytes > 0
    assert not see_directory(tmp_path / "none").is_there


# services

URL = "http://q:8080"
WELL = dict.fromkeys(("healthz", "startupz", "readyz"), (200, ""))
SERVED = {
    "name": "orders",
    "log": "orders",
    "key": ["/id"],
    "partitions": 2,
    "sow": True,
    "documents": False,
    "loading": False,
    "bookmark": "orders:0@9,1@9",
}
SERVICE = ServiceFacts(URL, None, WELL, __version__, 0, (SERVED,))


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (SERVICE, []),
        (replace(SERVICE, topics=None, version=None, ahead_ms=None), []),
        (ServiceFacts(URL, "refused"), [("service_away", "error")]),
        (replace(SERVICE, health={**WELL, "startupz": (503, "loading")}), [("service_starting", "warning")]),
        (replace(SERVICE, health={**WELL, "readyz": (503, "disk full")}), [("service_unready", "error")]),
        (replace(SERVICE, health=dict.fromkeys(WELL, (503, "gap"))), [("service_dead", "error")]),
        (replace(SERVICE, health={**WELL, "readyz": (200, "Kafka is away")}), [("service_says", "warning")]),
        (replace(SERVICE, health={}), [("service_dead", "error")]),
        (replace(SERVICE, version="0.0.1"), [("version", "warning")]),
        (replace(SERVICE, ahead_ms=CLOCK_MS_MAX + 1), [("clock_differs", "warning")]),
        (replace(SERVICE, ahead_ms=-CLOCK_MS_MAX - 1), [("clock_differs", "warning")]),
        (replace(SERVICE, core="native"), []),
        (replace(SERVICE, core="python"), [("python_core", "note")]),
        (replace(SERVICE, topics=()), [("topic_unserved", "error")]),
        (replace(SERVICE, topics=({**SERVED, "key": ["/n"]},)), [("topic_differs", "error")]),
        (replace(SERVICE, topics=({**SERVED, "bookmark": "epoch"},)), []),
    ],
)
def test_a_service(seen: ServiceFacts, expected: list[tuple[str, str]]) -> None:
    """Its health, version and clock, and whether it serves what topics.yaml says."""
    assert [one[:2] for one in wrong(service_findings(seen, TOPICS, SOUND))] == expected


def test_the_core_of_a_service_is_named() -> None:
    """Where all is well, too; a service that applies and loads nothing has none."""
    found = {
        core: next(one.found for one in service_findings(replace(SERVICE, core=core), None, None))
        for core in ("native", "")
    }
    assert found == {
        "native": f"ready, version {__version__}, core=native",
        "": f"ready, version {__version__}",
    }


def test_a_replica_far_behind_the_log() -> None:
    """So far that it is told; of a log that is not known nothing is said."""
    kafka = with_parts("orders", PART, replace(PART, end=BEHIND_RECORDS_MAX + 11))
    (found,) = [one for one in service_findings(SERVICE, TOPICS, kafka) if one.severity != "ok"]
    assert (found.code, found.severity, found.found) == ("service_behind", "warning", "10,001 records")
    assert wrong(service_findings(SERVICE, TOPICS, None)) == []
    assert (
        wrong(service_findings(replace(SERVICE, topics=({**SERVED, "loading": True},)), TOPICS, kafka)) == []
    )
