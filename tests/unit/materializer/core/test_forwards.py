"""Log records that other partitions must apply."""

from sowline.commands.command import CopyOf, LogRecord, Origin
from sowline_materializer.core.step import Forward
from tests.unit.materializer.core.test_applier import HERE, THERE, Core, reasons


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
