"""Writes to records: what a publish or a delta publish makes of them."""

import orjson

from sowline.codecs.schema import Schema
from sowline.commands.command import Headers, LogRecord
from sowline.model.key import sow_key
from sowline.model.position import Position
from tests.unit.materializer.core.test_applier import DOMAIN, Core, only, reasons
from tests.unit.materializer.core.test_bodies import TypedCore, refusal


def test_a_publish_inserts_a_record_as_it_was_written() -> None:
    """The first publish of a key is a change without a previous body; the bytes are not touched."""
    body = b'{ "id" : 1, "price": 1.50 }'
    change = only(Core().write(body).changes)
    assert (change.body, change.previous, change.op) == (body, None, "publish")
    assert (change.sow_key, change.position, change.after) == (
        sow_key(DOMAIN, "1"),
        Position(0, 0),
        Position(0, -1),
    )


def test_a_publish_replaces_a_record_whole() -> None:
    """The second publish of a key replaces the first and carries it as the previous body."""
    core = Core()
    core.write({"id": 1, "a": 1})
    change = only(core.write({"id": "1", "b": 2}).changes)
    assert core.body("1") == {"id": "1", "b": 2}
    assert (change.previous, change.after) == (b'{"id":1,"a":1}', Position(0, 0))


def test_a_delta_publish_merges() -> None:
    """The order of the chapter: two workers each add their part, and the change carries the whole record."""
    core = Core()
    core.write({"id": 735, "customer": "Patrick", "item": 90123, "qty": 1000, "state": "new"})
    core.write({"id": 735, "inventory": "available"}, "delta_publish")
    change = only(core.write({"id": 735, "credit": "approved"}, "delta_publish").changes)
    assert orjson.loads(change.body or b"") == {
        "id": 735,
        "customer": "Patrick",
        "item": 90123,
        "qty": 1000,
        "state": "new",
        "inventory": "available",
        "credit": "approved",
    }
    assert change.op == "delta_publish"


def test_a_delta_of_nothing_is_the_record() -> None:
    """Without a record, a delta publish makes one with the delta's fields and only those."""
    core = Core()
    core.write({"id": 1, "a": None}, "delta_publish")
    assert core.body("1") == {"id": 1, "a": None}


def test_a_delta_that_changes_nothing_is_still_an_update() -> None:
    """Setting a field to what it is counts as an update and is a change."""
    core = Core()
    core.write({"id": 1, "a": 1})
    assert len(core.write({"id": 1, "a": 1}, "delta_publish").changes) == 1


def test_a_delta_after_a_delete_starts_from_nothing() -> None:
    """A deleted record's fields do not come back."""
    core = Core()
    core.write({"id": 1, "a": 1}, publisher="p", sequence="1")
    core.write({"id": 1}, "sow_delete", publisher="p", sequence="2")
    core.write({"id": 1, "b": 1}, "delta_publish")
    assert core.body("1") == {"id": 1, "b": 1}


def test_a_merge_may_not_outgrow_the_limit() -> None:
    """A delta that makes a record too large is refused, and the record stays."""
    core = Core(record_bytes_max=64)
    core.write({"id": 1, "a": "x" * 30})
    assert reasons(core.write({"id": 1, "b": "x" * 30}, "delta_publish")) == ["too large"]
    assert core.body("1") == {"id": 1, "a": "x" * 30}


def test_a_change_carries_the_numbers() -> None:
    """Anyone who loads the changes knows what each record has seen."""
    core = Core()
    core.write({"id": 1}, publisher="p", sequence="5.1")
    change = only(core.write({"id": 1}, "sow_delete", publisher="q", sequence="1").changes)
    assert change.numbers == {"p": (5, 1, 1000), "q": (1, 0, 1000)}


def test_correlation_and_due_time_travel_with_the_change() -> None:
    """What the writer says beside the body is on the change."""
    change = only(Core().write({"id": 1}, correlation="c", expiration="2.5").changes)
    assert (change.correlation, change.expires) == ("c", 3500)
    assert only(Core().write({"id": 1}, expiration="0").changes).expires is None


def test_several_updates_in_a_batch_follow_each_other() -> None:
    """Each sees the record as the one before it has left it, whether or not that is in the store."""
    core = Core(enrichment=["COALESCE(/n OF PREVIOUS, 0) + 1 AS /n"])
    core.write({"id": 1})
    delete: Headers = [("sow.command", b"sow_delete")]
    step = core.apply(
        LogRecord(1, 0, None, b'{"id":1}'),
        LogRecord(2, 0, None, b'{"id":2}'),
        LogRecord(3, 0, None, b'{"id":1}'),
        LogRecord(4, 0, None, b'{"id":1}', delete),
        LogRecord(5, 0, None, b'{"id":1}'),
    )
    bodies = [change.body and orjson.loads(change.body)["n"] for change in step.changes]
    assert bodies == [2, 1, 3, None, 1]


def test_a_computed_key_must_be_the_one_of_the_record() -> None:
    """FIX makes `Y` of a boolean. The key of the stored record would be another one after a load of the changes."""
    options, order = Schema("fix", "{}"), b"38=7\x01"
    core = TypedCore(options, key="/11", preprocessing=["/38 > 5 AS /11"])
    assert refusal(core.write(order))[0] == "bad message"
    core = TypedCore(options, key="/11", preprocessing=["CONCAT(/38, 'x') AS /11"])
    assert not core.write(order).dead
    assert core.bodies == [{"38": "7", "11": "7x"}]
