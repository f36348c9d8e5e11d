"""What `sowline verify` computes of a view: its source's records at a position, and the view's records of them."""

from contextlib import nullcontext, suppress
from random import Random
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowline.config.topic_definition import define_topic
from sowline.errors import SowlineError
from sowline.model.position import Position
from sowline_materializer.admin.earlier_state import EarlierState
from sowline_materializer.admin.recomputed import JoinedRecords, SourceRecord, recomputed, rows_of
from sowline_materializer.core.record import Record, decode_record
from tests.memory_store import MemoryStore
from tests.property import test_view_joins
from tests.property.join_steps import TOPICS, step
from tests.property.join_world import Joins, Side
from tests.property.view_reference import VIEWS, Body
from tests.property.view_sources import SourceModel
from tests.property.view_world import as_text, defined
from tests.simulation.view_runs import GROUPS, VALUES

ORDERS = define_topic(name="orders", key={"from": "kafka_key"})
SOURCES = 2
KEYS = (b"1", b"2", b"3")

bodies = st.fixed_dictionaries(
    {},
    optional={
        "g": st.sampled_from(GROUPS),
        "h": st.sampled_from((1, 2)),
        "q": st.sampled_from(VALUES),
        "f": st.sampled_from((0, 1)),
    },
)
steps = st.one_of(
    st.tuples(st.just("write"), st.tuples(st.sampled_from(KEYS), st.none() | bodies, st.booleans())),
    st.tuples(st.sampled_from(("report", "era")), st.none()),
    st.tuples(st.sampled_from(("stale", "compact")), st.integers(0, 99)),
)


def taken(model: SourceModel, kind: str, given_: Any) -> None:
    """Take one step with a source."""
    if kind == "write":
        key, body, in_same_record = given_
        model.write(b"%d.%b" % (model.number, key), body, in_same_record=in_same_record)
    elif kind == "report":
        model.report(model.position._replace(offset=model.position.offset + 2, nth=0))
    elif kind == "era":
        model.begin_era()
    elif kind == "stale":
        model.write_again(given_)
    else:
        chance = Random(given_)
        model.compact(lambda: chance.random() < 0.5)


def loaded(model: SourceModel, position: Position) -> dict[bytes, Record]:
    """Return the live records at a position, as the command loads them from what the changes topic has now."""
    store = MemoryStore()
    loader = EarlierState(store, ORDERS, "", position)
    loader.load([event for _, event in model.held], [offset for offset, _ in model.held])
    assert loader.is_whole
    loader.finish()
    loader.require_exact()
    records = {key: decode_record(data) for key, data in store.scan()}
    return {key: record for key, record in records.items() if record.body is not None}


@given(st.lists(steps, max_size=30), st.data())
def test_records_at_an_earlier_position(made: list[tuple[str, Any]], data: st.DataObject) -> None:
    """They are exact, or the refusal says so. Only compaction makes that necessary, and never at the newest one."""
    model = SourceModel(0)
    for kind, given_ in made:
        taken(model, kind, given_)
    model.report(model.position)
    positions = [model.position, *(change.position for change in model.changes)]
    position = data.draw(st.sampled_from(positions))
    can_be_refused = position != model.position and "compact" in [kind for kind, _ in made]
    with suppress(SowlineError) if can_be_refused else nullcontext():
        found = loaded(model, position)
        expected = {key: seen.change for key, seen in model.at(position).items()}
        assert {key: (one.body, one.position, one.time) for key, one in found.items()} == {
            key: (one.body, one.position, one.time) for key, one in expected.items()
        }


def test_a_change_whose_predecessor_is_gone_is_noticed() -> None:
    """Compaction has removed the state of a record at the position. The only change behind it shows that."""
    model = SourceModel(0)
    model.write(b"0.1", {"q": 1})
    position = model.position
    model.write(b"0.1", {"q": 2})
    model.report(model.position)
    assert [one.body for one in loaded(model, position).values()] == [b'{"q":1}']
    model.compact(lambda: False)
    with pytest.raises(SowlineError, match="orders has moved on from 0, and compaction has removed changes"):
        loaded(model, position)


def test_a_position_that_the_changes_do_not_have_is_refused() -> None:
    """The changes topic was deleted, and another one does not go so far."""
    model = SourceModel(0)
    model.write(b"0.1", {"q": 1})
    model.report(model.position)
    with pytest.raises(SowlineError, match="expected changes of orders up to 7, found them up to 0"):
        loaded(model, Position(0, 7))


@pytest.mark.parametrize("view", VIEWS)
@given(writes=st.lists(st.tuples(st.integers(0, SOURCES - 1), st.sampled_from(KEYS), st.none() | bodies)))
def test_a_view_computed_again(view: str, writes: list[tuple[int, bytes, Body | None]]) -> None:
    """The records of each partition are those of the recomputation of the tests."""
    text, recompute = VIEWS[view]
    definition = defined(text, SOURCES, 2)
    models = [SourceModel(number) for number in range(SOURCES)]
    for number, key, body in writes:
        taken(models[number], "write", (key, body, False))
    for model in models:
        model.report(model.position)
    records = [
        SourceRecord(model.number, key, record)
        for model in models
        for key, record in loaded(model, model.position).items()
    ]
    expected = recompute({key: seen for model in models for key, seen in model.at(model.position).items()})
    found: dict[str, Body] = {}
    for partition in range(2):
        for sow_key, made in recomputed(definition, partition, rows_of(records)):
            assert sow_key.decode() not in found
            found[sow_key.decode()] = orjson.loads(made)
    assert as_text(found) == as_text(expected)


def records_of(side: Side, number: int) -> list[tuple[bytes, Record]]:
    """Return the records of a partition of a topic."""
    return [
        (change.sow_key, Record(body=change.body, key_text="", position=change.position, time=change.time))
        for change in side.live(number)
    ]


@pytest.mark.parametrize("view", test_view_joins.VIEWS)
@given(taken=st.lists(test_view_joins.steps, max_size=40))
def test_a_view_with_joins_computed_again(view: str, taken: list[tuple[str, Any, Any]]) -> None:
    """The records of each partition are those of the view, which equals another recomputation."""
    joins = Joins(TOPICS, view)
    for kind, given_, more in taken:
        step(joins, kind, given_, more)
    joins.settle()
    joined = []
    for join in joins.joins:
        side = joins.sides[join.topic]
        records = [one for number in side.positions for one in records_of(side, number)]
        joined.append(JoinedRecords(join, side.topic, records))
    sources = [
        SourceRecord(number, *one)
        for number in joins.source.positions
        for one in records_of(joins.source, number)
    ]
    for number, merged in enumerate(joins.merged):
        found = recomputed(joins.view, number, rows_of(sources, joined))
        assert {key.decode(): orjson.loads(body) for key, body in found} == merged.records
