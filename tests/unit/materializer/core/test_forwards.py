"""Log records that other partitions must apply."""

from pathlib import Path

import pytest

from sowline.commands.command import CopyOf, LogRecord, Origin
from sowline.model.key import partition_of
from sowline_materializer.core.step import Forward
from tests.unit.generators import install
from tests.unit.materializer.core.test_applier import HERE, THERE, Core, only, reasons


def test_a_misplaced_record_is_forwarded_unchanged() -> None:
    """A record of another partition is not applied here but sent there, with where it came from."""
    core = Core(partitions=2)
    step = core.write({"id": THERE}, "delta_publish", correlation="c")
    forward = step.forwards[0]
    assert forward == Forward(1, forward.record, CopyOf("log", Origin(0, 0)))
    assert forward.record.headers == [("sow.correlation", b"c"), ("sow.command", b"delta_publish")]
    assert (step.changes, step.outcomes, core.body(THERE)) == ([], {"0": "forwarded 1"}, None)


def test_a_forwarded_record_does_not_travel_on() -> None:
    """A record with an origin that is still in the wrong place is refused: it would circle for ever."""
    assert reasons(Core(partitions=2).write({"id": THERE}, origin="log:1@7")) == ["bad header"]


def test_a_record_too_large_with_its_origin_is_refused() -> None:
    """A record whose headers leave no room for an origin is a dead letter, not a message that Kafka refuses."""
    core = Core(partitions=2, record_bytes_max=64)
    junk = ("x", b"x" * core.definition.kafka.log_bytes_max)
    step = core.apply(LogRecord(0, 0, None, b'{"id":"%s"}' % THERE.encode(), [junk]))
    assert (reasons(step), step.forwards) == (["too large"], [])


def test_a_misplaced_message_is_forwarded_as_it_came() -> None:
    """Its key is computed to find its owner, who computes it once more."""
    core = Core(2, preprocessing=["/name AS /id"], enrichment=["1 AS /n"])
    body = b'{"name" : "%s"}' % THERE.encode()
    step = core.write(body)
    assert step.forwards == [Forward(1, LogRecord(0, 1000, None, body, []), CopyOf("log", Origin(0, 0)))]
    core.write({"name": HERE}, origin="log:1@0")
    assert core.body(HERE) == {"name": HERE, "id": HERE, "n": 1}


def test_the_first_append_decides_a_generated_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A forwarded copy has it in its headers, so that its owner makes the same key."""
    install(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    core = Core(partitions=2, key={"generator": "placed"})
    steps = [core.write({"id": 1}) for _ in range(20)]
    forwarded = [forward.record for step in steps for forward in step.forwards]
    assert 0 < len(forwarded) < 20
    assert all(("sow.origin_time", b"1000") in (record.headers or ()) for record in forwarded)
    offset = next(number for number in range(99) if partition_of(f"77/1/{number}", 2) == 0)
    change = only(core.write({"id": 1}, origin=f"log:1@{offset}", origin_time="77").changes)
    assert change.sow_key == f"77/1/{offset}".encode()


def test_a_forward_names_its_original() -> None:
    """By log, partition and offset; the record is as it came."""
    core = Core(partitions=2)
    (forward,) = core.write({"id": THERE}).forwards
    assert (forward.partition, forward.origin) == (1, CopyOf("log", Origin(0, 0)))
    assert forward.record.value == b'{"id":"%s"}' % THERE.encode()


def test_a_command_for_all_that_was_forwarded_goes_no_further() -> None:
    """Each partition would send it to all others again."""
    core = Core(partitions=2)
    assert len(core.write(None, "sow_delete", filter="/a = 1").forwards) == 1
    assert core.write(None, "sow_delete", filter="/a = 1", origin="log:1@5").forwards == []
