"""Progress events: what a partition reports that advanced without a change."""

import orjson
import pytest

from sowline.changes.progress import CATCH_UP_KEY, PROGRESS_KEY, Begin, ChangesId, Progress
from sowline.model.limits import Limits
from sowline.model.log_time import TIME_MAX
from sowline.model.position import Position

EVENT = Progress(Position(2, 9), Position(1, 7, 3), 10, {2: 5}, "digest", "log id", 99, {"9": "no record"})


@pytest.mark.parametrize(
    ("text", "changes_id"),
    [("a", ChangesId("a", 0)), ("a@7", ChangesId("a", 7)), ("", ChangesId("", 0))],
)
def test_changes_are_named_by_their_topic_and_first_offset(text: str, changes_id: ChangesId) -> None:
    """An offset of 0 is left out."""
    assert ChangesId.parse(text) == changes_id
    assert str(changes_id) == text


def test_what_is_no_offset_counts_as_the_start() -> None:
    """A text that another version wrote is still the id of its topic."""
    assert ChangesId.parse("a@soon") == ChangesId("a", 0)


def test_the_start_of_an_era_has_a_schema_only_in_typed_topics() -> None:
    """A reader of an older version expects two fields."""
    assert Begin(4, 7).fields() == [4, 7]
    assert Begin(4, 7, "digest").fields() == [4, 7, "digest"]


def test_the_key_tells_whether_the_owner_is_behind() -> None:
    """Compaction keeps one event of each."""
    assert EVENT.key == PROGRESS_KEY
    assert EVENT._replace(is_catching_up=True).key == CATCH_UP_KEY


def test_the_value_is_json_with_all_facts() -> None:
    """The era is written once; the position before it names its own."""
    event = EVENT._replace(limits=Limits("enabled"), begin=None, reflected={1: Position(0, 4)})
    value = orjson.loads(event.value())
    assert (value["era"], value["position"], value["after"]) == (2, "9", "1/7.3")
    assert (value["origins"], value["outcomes"], value["begin"]) == ({"2": 5}, {"9": "no record"}, None)
    assert value["limits"] == Limits("enabled").fields()
    assert "reflected" in value
    assert "reflected" not in orjson.loads(EVENT.value())


def test_a_log_time_that_can_not_be_is_not_known() -> None:
    """The partition then counts as one without a time."""
    assert EVENT.partition_time == 99
    assert EVENT._replace(time=TIME_MAX + 1).partition_time == 0
