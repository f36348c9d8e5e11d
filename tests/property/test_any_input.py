"""Whatever lies on a log, a partition applies it or refuses it, and goes on."""

from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from sowline.commands.command import LogRecord
from sowline.config.topic_definition import TopicDefinition, define_topic
from sowline_materializer.core.checkpoint import Checkpoint
from sowline_materializer.partition.changes_loader import ChangesLoader
from sowline_materializer.partition.opened import OpenedPartition
from sowline_materializer.partition.partition import Partition
from sowline_materializer.store.integrity import survey
from tests.examples import examples
from tests.memory_store import MemoryStore
from tests.property.world import dump, written

LIMITED = {"name": "things", "key": ["/id"], "partitions": 2, "record_bytes_max": 500}
PLAIN = define_topic(**LIMITED)
COMPUTED = define_topic(
    **{
        **LIMITED,
        "preprocessing": ["COALESCE(/id, /a) AS /id", "/a AS /b/c HINT SET_CURRENT"],
        "enrichment": [
            "/a * 2 AS /a",
            "/id AS /c/d HINT OPTIONAL",
            "CONCAT(/b/c, /b/d OF PREVIOUS) AS /b/d HINT OPTIONAL",
            "/a OF PREVIOUS AS /e",
        ],
    }
)

EXPIRING = define_topic(**{**LIMITED, "expiration": "5ms", "records_max": 3})
WITHOUT = define_topic(name="things", sow=False, record_bytes_max=500)

words = st.sampled_from(
    [
        "",
        "1",
        "0",
        "9" * 19,
        "9" * 20,
        "1.5",
        "-1",
        "1@2",
        "@",
        "publish",
        "delta_publish",
        "sow_delete",
        "expire",
        "define",
        "1=1",
        "/a > 1",
    ]
)
names = st.sampled_from(
    [
        f"sow.{name}"
        for name in (
            "command",
            "filter",
            "keys",
            "publisher",
            "sequence",
            "correlation",
            "expiration",
            "guard",
            "origin",
        )
    ]
) | st.sampled_from(["sow.", "sow.guard", "x", ""])
headers = st.lists(st.tuples(names, st.none() | st.binary(max_size=4) | words.map(str.encode)), max_size=4)
json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["id", "a", ""]), inner, max_size=3)
    ),
    max_leaves=6,
)


def encoded(value: Any) -> bytes:
    """Return JSON of a value, integers of any size included."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return repr(value).encode()


scalars = st.sampled_from([1, "1", 2, "ü", True, 1.5, None, {"b": 1}])
values = (
    st.none()
    | st.binary(max_size=8)
    | json.map(encoded)
    | st.dictionaries(
        st.sampled_from(["id", "a"]), st.sampled_from([1, "1", 2, "ü", True, 1.5, None, {"b": 1}])
    ).map(encoded)
    | st.integers(1, 1200).map(lambda depth: b'{"id":1,"a":' + b"[" * depth + b"]" * depth + b"}")
)
records = st.builds(
    lambda time, key, value, headers: LogRecord(0, time, key, value, headers),
    st.integers(-1, 2**42),
    st.none() | st.binary(max_size=3) | st.sampled_from([b"1", b"2"]),
    values,
    headers,
)


@examples(300)
@given(st.lists(records, max_size=12), st.sampled_from([PLAIN, COMPUTED, EXPIRING, WITHOUT]))
def test_any_input_is_applied_or_refused(log: list[LogRecord], definition: TopicDefinition) -> None:
    """Every record has its effect or its reason, and what is written of it can be read again."""
    store, loaded = MemoryStore(), MemoryStore()
    checkpoint = Checkpoint(definition=definition.digest, limits=definition.limits)
    opened = OpenedPartition(store, checkpoint, checkpoint.position)
    partition, loader = Partition(definition, 0, opened), ChangesLoader(loaded, definition)
    for offset, record in enumerate(log):
        prepared = partition.prepare([replace(record, offset=offset)], len(log))
        made = {str(change.position.offset) for change in prepared.step.changes}
        assert made | set(prepared.step.outcomes) == {str(offset)}
        events = [written(0, event).event for event in prepared.events]
        assert events == prepared.events
        partition.commit(prepared, 0)
        loader.load(events)
        loader.finish()
    assert survey(store).checksum == store.checksum()
    assert dump(loaded, 0, 0) == dump(store, 0, 0)
