"""Operating a topic's state from the command line, over a real Kafka and beside workers that run."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sowline import Client, Message
from sowline.changes.change import RESET, Change
from sowline.kafka.admin import ensure_topics
from sowline.kafka.clients import exact_producer
from sowline.model.position import Position
from sowline_materializer.admin.backup import open_backup, read_entries
from sowline_materializer.admin.commands import operate
from sowline_materializer.admin.offline_copy import OfflineCopies
from sowline_materializer.core.record import Record, decode_record
from sowline_materializer.partition.kafka_partition import KafkaExtent
from sowline_materializer.partition.state_reset import StateReset
from tests.integration.operated import MORE, Operated
from tests.integration.recovery_rig import BASE, PARTITIONS, lose_both, lose_changes
from tests.integration.services import ROOT, Service
from tests.waiting import SECONDS_MAX, wait_for


@pytest.fixture
def rig(kafka: str, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Operated:
    """A topic of the test's own, with something of everything on its log; the commands know of its group."""
    monkeypatch.setenv("SOWLINE_GROUP", prefix)
    rig = Operated(kafka, f"{prefix}ops", tmp_path)
    ensure_topics(rig.settings.kafka_client, rig.topics)
    rig.write()
    return rig


@pytest.mark.long
def test_three_recovery_sources_print_one_dump(rig: Operated, capfd: pytest.CaptureFixture[str]) -> None:
    """The local store, beside the worker that has it open, the changes, and the log: the same lines."""

    def dumped_alike() -> str | None:
        stored, *others = (rig.run(capfd, "dump", "--from", one) for one in ("store", "changes", "log"))
        assert stored[0] == 0
        return stored[1] if others == [stored, stored] else None

    with rig.working() as worker:
        rig.settle(worker)
        text = wait_for(dumped_alike, "the worker to flush its stores")
        one = rig.run(capfd, "dump", "--partition", "1")[1]
        assert text.endswith(one)
        rig.write(12)
        rig.settle(worker)
        assert wait_for(dumped_alike, "the worker to flush its stores again") != text
    lines = [json.loads(line) for line in text.splitlines()]
    checkpoints = [line for line in lines if "partition" in line]
    assert [checkpoint["partition"] for checkpoint in checkpoints] == list(range(PARTITIONS))
    first = lines[1 : lines.index(checkpoints[1])]
    assert [line["sow_key"] for line in first] == sorted(line["sow_key"] for line in first)
    assert checkpoints[0]["records"] == sum("data" in line for line in first)
    assert any("data" not in line and line.get("numbers") for line in lines)


def test_a_sound_topic_is_verified_while_it_runs(rig: Operated, capfd: pytest.CaptureFixture[str]) -> None:
    """Log, local state and changes are equal; without the log's begin, state and changes are."""
    with rig.working() as worker:
        rig.settle(worker)
        rig.write(12)
        code, text = rig.run(capfd, "verify", "--json")
        assert code == 0, text
        verdicts = [json.loads(line) for line in text.splitlines()]
        assert [verdict["partition"] for verdict in verdicts] == list(range(PARTITIONS))
        for verdict in verdicts:
            assert [(one["left"], one["right"]) for one in verdict["comparisons"]] == [
                ("log", "store"),
                ("log", "changes"),
            ]
            assert verdict["equal"]
            assert verdict["comparisons"][1]["records"] > 0
        rig.settle(worker)
        rig.cut_log(0, 5)
        rig.write(24)
        code, text = rig.run(capfd, "verify", "--partition", "0")
    assert code == 0, text
    assert "can't be verified from the log: the log" in text
    assert "begins at offset 5, and the era of the state at 0" in text
    assert "store and changes at" in text
    assert "are equal" in text


def test_what_differs_is_named(rig: Operated) -> None:
    """A change that the log did not make is found, with both sides of its record."""
    rig.work()
    newest = [event for event in rig.changes(0) if isinstance(event, Change) and event.body is not None][-1]
    wrong = msgspec.structs.replace(
        newest, body=b'{"id":1,"wrong":true}', position=newest.position._replace(nth=7)
    )
    producer = exact_producer(rig.settings.kafka_client)
    producer.produce(rig.topic.changes, wrong.body, wrong.sow_key, 0, headers=wrong.headers())  # type: ignore[arg-type]
    assert producer.flush(SECONDS_MAX) == 0
    arguments = rig.arguments("verify", "--partition", "0")
    ended = subprocess.run(
        [sys.executable, "-m", "sowline", *arguments], cwd=ROOT, capture_output=True, text=True
    )
    assert (ended.returncode, ended.stderr) == (1, "")
    text = ended.stdout
    assert "log and store at" in text
    assert "are equal" in text
    assert "log and changes at" in text
    assert f"SOW key {wrong.sow_key.decode()}:" in text
    assert '"wrong":true' in text


# backup and restore

NUMBER = [("sow.publisher", b"p"), ("sow.sequence", b"1")]


def produce(rig: Operated, value: bytes, *headers: tuple[str, bytes], partition: int = 0) -> None:
    """Write a record to a log partition."""
    producer = exact_producer(rig.settings.kafka_client)
    producer.produce(rig.topic.log, value, None, partition, headers=list(headers))
    assert producer.flush(SECONDS_MAX) == 0


def backed_up(rig: Operated, capfd: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """Write more, back up while that is being applied, and write more again; returns what the command prints."""
    with rig.working() as worker:
        rig.settle(worker)
        produce(rig, b'{"id":"%s","left":true}' % BASE.encode(), ("sow.expiration", b"3600"))
        rig.write(12)
        code, text = rig.run(capfd, "backup", str(rig.directory / "b"))
        assert code == 0, text
        rig.write(24)
        rig.settle(worker)
    report: dict[str, Any] = json.loads(text)
    return report


def test_a_backup_goes_on_over_its_log(rig: Operated, capfd: pytest.CaptureFixture[str]) -> None:
    """Changes and local state are lost, and of the log all that the backup stands for: the state is what it was."""
    report = backed_up(rig, capfd)
    before = rig.states()
    code, text = rig.run(capfd, "restore", str(rig.directory / "b"))
    assert (code, "changes present" in text) == (1, True)
    lose_both(rig)
    for partition, position in report["positions"].items():
        rig.cut_log(int(partition), Position.parse(position).offset + 1)
    code, text = rig.run(capfd, "restore", str(rig.directory / "b"))
    assert (code, json.loads(text)) == (0, report)
    assert rig.work().stopped == {}
    for partition, (records, checkpoint) in enumerate(before):
        now, head_now = rig.state(partition)
        assert (now, head_now.origins) == (records, checkpoint.origins)
        assert head_now.position >= checkpoint.position
        assert head_now.position.era == 0
        assert rig.compacted(partition) == records
    assert any(record.expires for record in rig.state()[0].values())
    with rig.working() as worker:
        repeats = rig.settle(worker).counts.repeats
        produce(rig, b'{"id":0,"n":"again"}', *NUMBER)
        log_id = rig.cluster.topic_id(rig.topic.log)
        produce(rig, b'{"id":0,"n":"again"}', ("sow.origin", f"{log_id}:1@0".encode()))
        rig.settle(worker)
        assert worker.statistics().counts.repeats == repeats + 2
        code, text = rig.run(capfd, "restore", str(rig.directory / "b"))
        assert (code, "workers active" in text) == (1, True)
    assert rig.records() == [records for records, _ in before]


def _cut_short(*_: object) -> None:
    raise KeyError("cut short")


def test_a_backup_begins_an_era_over_another_log(
    rig: Operated, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under another name, with a log of its own: the records are the backup's, and new ones come on top.

    A restore that was cut short is no state: the partition stops. The other one has begun in an era of its own.
    """
    backed_up(rig, capfd)
    other = Operated(rig.settings.kafka, f"{rig.name}-other", rig.directory / "other")
    other.directory.mkdir()
    other.define("key_domain: another")
    code, text = other.run(capfd, "restore", str(rig.directory / "b"))
    assert (code, "definition changed" in text) == (1, True)
    other.define(MORE)
    with monkeypatch.context() as patched:
        patched.setattr("sowline_materializer.admin.restore.progress_of", _cut_short)
        with pytest.raises(KeyError):
            operate.main(other.arguments("restore", str(rig.directory / "b")), standalone_mode=False)
    stopped = other.work().stopped
    assert "holds no position of its changes" in stopped[other.topic_partition(0)]
    lose_changes(other)
    code, text = other.run(capfd, "restore", str(rig.directory / "b"))
    assert code == 0, text
    other.work()
    backup = open_backup(rig.directory / "b")
    for partition, part in enumerate(backup.parts):
        records, checkpoint = other.state(partition)
        assert records == {key: decode_record(data) for key, data in read_entries(backup, part)}
        assert checkpoint.position == checkpoint.last_change == Position(3, -1, 1)
        assert other.compacted(partition) == records
    other.write(48)
    other.work()
    records, checkpoint = other.state()
    assert checkpoint.position.era == 3
    assert {record.position.era for record in records.values()} == {0, 3}
    assert other.compacted() == records
    code, text = other.run(capfd, "verify")
    assert code == 0, text
    assert "era 3 began with records that no log made" in text


def test_local_state_that_is_further_than_a_restore_stays(
    rig: Operated, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its owner writes everything to the new changes topic again."""
    backed_up(rig, capfd)
    lose_changes(rig)
    assert rig.run(capfd, "restore", str(rig.directory / "b"))[0] == 0
    rig.work()
    rig.check()


# rebuild


def bodies(rig: Operated, states: list[dict[bytes, Record]]) -> dict[str, Any]:
    """Return all live records by SOW key."""
    return {
        key.decode(): json.loads(record.body)
        for records in states
        for key, record in records.items()
        if record.body is not None
    }


class Watcher:
    """A live subscription's view, kept as its messages say."""

    def __init__(self, messages: Iterator[Message], view: dict[str, Any]) -> None:
        self.messages = messages
        self.view = dict(view)
        self.left: list[str] = []
        self.bookmark = ""

    def read_until(self, expected: dict[str, Any]) -> None:
        """Read on until the view is this; the test's time is the limit."""
        while self.view != expected or not self.bookmark:
            message = next(self.messages)
            self.bookmark = message.bookmark or self.bookmark
            if message.command in ("sow", "publish"):
                self.view[message.sow_key or ""] = message.data
            elif message.command == "oof":
                del self.view[message.sow_key or ""]
                self.left.append(f"{message.sow_key} {message.reason}")


def test_a_rebuilt_state_is_what_the_new_definition_makes_of_the_log(
    rig: Operated, capfd: pytest.CaptureFixture[str]
) -> None:
    """Live subscribers see every record go and come as it is now; clients that come back with a bookmark, too."""
    rig.work()
    before = bodies(rig, rig.records())
    rig.arguments("dump")
    service = Service(
        "query_service", rig.directory, kafka=rig.settings.kafka, config=rig.directory / "topics.yaml"
    )
    with closing(service), Client(service.start().wait_ready().url) as client:
        watcher = Watcher(client.sow_and_subscribe(rig.name, options="oof"), {})
        watcher.read_until(before)
        old = watcher.bookmark
        rig.define(f"{MORE}, enrichment: ['COALESCE(/n, 0) * 2 AS /twice']")
        stopped = rig.work().stopped
        assert all("sowline rebuild" in why for why in stopped.values())
        assert len(stopped) == PARTITIONS
        code, text = rig.run(capfd, "rebuild")
        assert code == 0, text
        assert json.loads(text)["records_ended"] == len(before)
        assert rig.work().stopped == {}
        made = [rig.made_by_log(partition) for partition in range(PARTITIONS)]
        after = bodies(rig, made)
        assert {key for key, body in after.items() if "twice" in body} == after.keys() == before.keys()
        watcher.read_until(after)
        assert set(watcher.left[: len(before)]) == {f"{key} deleted" for key in before}
        back = Watcher(client.subscribe(rig.name, bookmark=old, options="oof"), before)
        back.read_until(after)
        assert sorted(back.left) == sorted(watcher.left)
    assert bodies(rig, rig.records()) == after
    for partition, (records, checkpoint) in enumerate(rig.states()):
        assert (checkpoint.position.era, checkpoint.definition) == (1, rig.topic.digest)
        assert rig.compacted(partition) == records
    code, text = rig.run(capfd, "verify")
    assert code == 0, text
    assert text.count("are equal") == 2 * PARTITIONS


def test_a_store_that_has_nothing_of_a_rebuild_is_equal(
    rig: Operated, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its owner has loaded that all records have ended, and applies the log. The changes are ahead of its store."""
    rig.work()
    assert rig.run(capfd, "rebuild")[0] == 0
    ended: dict[int, KafkaExtent] = {}
    extent = OfflineCopies.extent
    with monkeypatch.context() as patched:
        patched.setattr(OfflineCopies, "extent", lambda self: ended.setdefault(self.partition, extent(self)))
        assert rig.run(capfd, "verify")[0] == 0
    rig.work()
    monkeypatch.setattr(OfflineCopies, "from_store", lambda self, _: self.from_changes(ended[self.partition]))
    code, text = rig.run(capfd, "verify")
    assert code == 0, text
    assert text.count("log and store at 1/-1") == PARTITIONS


def test_a_rebuild_that_was_cut_short_is_done_by_the_next(
    rig: Operated, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some records have ended when it dies; and without the log's begin it needs to be told that this is meant."""
    rig.work()
    count = sum(len(records) for records in rig.records())
    ends = StateReset.ends
    with monkeypatch.context() as patched:
        patched.setattr(StateReset, "ends", lambda self, store: iter([next(ends(self, store, 2)), [None]]))
        with pytest.raises(AttributeError):
            operate.main(rig.arguments("rebuild"), standalone_mode=False)
    assert sum(isinstance(event, Change) and event.op == RESET for event in rig.changes(0)) == 2
    rig.cut_log(1, 3)
    code, text = rig.run(capfd, "rebuild")
    assert code == 1
    assert "begins at offset 3" in text
    assert "--accept-loss" in text
    code, text = rig.run(capfd, "rebuild", "--accept-loss")
    assert code == 0, text
    assert json.loads(text)["records_ended"] < count
    assert rig.work().stopped == {}
    assert rig.state(0)[1].position.era == 2
    assert bodies(rig, [rig.state(0)[0]]) == bodies(rig, [rig.made_by_log(0)])
    assert rig.compacted(1) == rig.state(1)[0]
    code, text = rig.run(capfd, "verify")
    assert code == 0, text
