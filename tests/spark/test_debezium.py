"""Pipelines that read the events of Debezium: snapshots, updates, deletions, and values that are not there."""

import base64
import json
from operator import itemgetter
from typing import Any

from pyspark.sql import SparkSession

from tests.spark.log import create_topic, read_log
from tests.spark.pipelines import Write, commands, letters, run_once, send


def test_debezium(spark: SparkSession, kafka: str, prefix: str, log: str, write: Write) -> None:
    """Snapshot, insert and update publish the row, a deletion deletes it; with a schema beside it or without."""
    raw = create_topic(kafka, f"{prefix}raw", partitions=1)
    events: list[tuple[str, Any]] = [
        ("1", {"before": None, "after": {"id": 1, "name": "a"}, "op": "r", "ts_ms": 1}),
        ("2", {"schema": {}, "payload": {"before": None, "after": {"id": 2, "name": "b"}, "op": "c"}}),
        ("1", {"before": {"id": 1, "name": "a"}, "after": {"id": 1, "name": None}, "op": "u"}),
        ("2", {"before": {"id": 2}, "after": None, "op": "d"}),
        ("2", None),
        ("3", {"op": "t"}),
        ("3", {"op": "u", "after": None}),
    ]
    send(kafka, raw, *events)
    file = write(
        f"""
        sources:
          db: {{kafka: {raw}, format: debezium, schema: "id BIGINT, name STRING"}}
        key: id
        """
    )
    run_once(file)
    assert sorted(commands(kafka, log), key=itemgetter(3)) == [
        ("publish", "1", {"id": 1, "name": "a"}, "shop/db/0@0"),
        ("publish", "2", {"id": 2, "name": "b"}, "shop/db/0@1"),
        ("publish", "1", {"id": 1}, "shop/db/0@2"),
        ("sow_delete", "2", {"id": 2}, "shop/db/0@3"),
    ]
    assert [key for key, _, _ in letters(kafka, log)] == ["shop/db/0@5", "shop/db/0@6"]


def test_debezium_values_that_are_not_there(
    spark: SparkSession, kafka: str, prefix: str, log: str, write: Write
) -> None:
    """A placeholder leaves the field as it was, in the form of its type; a null beside it is written as null."""
    raw = create_topic(kafka, f"{prefix}raw", partitions=1)
    gone = "__debezium_unavailable_value"
    data = base64.b64encode(gone.encode()).decode()
    whole = {"id": 1, "name": "a", "note": "n", "data": "AAE=", "tags": ["x"], "n": [1], "h": {"k": "v"}}
    lacking = {"note": gone, "data": data, "tags": [gone], "n": list(gone.encode()), "h": {gone: gone}}
    events = [
        {"before": None, "after": whole, "op": "c"},
        {"before": None, "after": {**whole, **lacking, "name": None}, "op": "u"},
        {"before": whole, "after": {**whole, "note": gone, "name": "b"}, "op": "u"},
        {"before": None, "after": {**whole, "note": gone}, "op": "u"},
        {"before": {**whole, **lacking}, "after": None, "op": "d"},
    ]
    send(kafka, raw, *(("1", event) for event in events))
    columns = "id INT, name STRING, note STRING, data BINARY, tags ARRAY<STRING>, n ARRAY<INT>, h MAP<STRING, STRING>"
    file = write(
        f"""
        sources:
          db: {{kafka: {raw}, format: debezium, schema: "{columns}"}}
        transforms:
          - columns: {{size: length(note), note: "coalesce(note, '')", _half: id / 2}}
        key: id
        """
    )
    run_once(file)
    assert commands(kafka, log) == [
        ("publish", "1", {**whole, "size": 1}, "shop/db/0@0"),
        ("delta_publish", "1", {"id": 1, "name": None}, "shop/db/0@1"),
        ("publish", "1", {**whole, "name": "b", "size": 1}, "shop/db/0@2"),
        ("sow_delete", "1", {"id": 1, "name": "a"}, "shop/db/0@4"),
    ]
    (letter,) = read_log(kafka, f"{log}.dead")
    assert json.loads(letter.value or b"") == events[3]
    assert "expected no map in the column h of an update that lacks values" in letter.headers["sow.message"]


def test_debezium_updates_of_the_key(
    spark: SparkSession, kafka: str, prefix: str, log: str, write: Write
) -> None:
    """The old record is deleted, by one event or by two; another placeholder is what its connector has.

    Values that an event lacks would be lost with the old record. So it stays, and the event is refused.
    """
    raw = create_topic(kafka, f"{prefix}raw", partitions=1)
    events = [
        {"before": None, "after": {"id": 1, "code": "a", "note": "x"}, "op": "c"},
        {
            "before": {"id": 1, "code": "a", "note": "x"},
            "after": {"id": 1, "code": "b", "note": "gone"},
            "op": "u",
        },
        {"before": {"id": 1, "code": "b"}, "after": None, "op": "d"},
        {"before": None, "after": {"id": 2, "code": "c", "note": "__debezium_unavailable_value"}, "op": "c"},
        {"before": {"id": 1}, "after": {"id": 2, "code": "c", "note": "y"}, "op": "u"},
        {"before": {"id": 2, "code": "c"}, "after": {"id": 2, "code": "d", "note": "gone"}, "op": "u"},
        {"before": None, "after": {"id": 3, "code": "e", "note": "gone"}, "op": "c"},
        {"before": {"id": 2, "code": "c"}, "after": {"id": 2, "code": "gone", "note": "z"}, "op": "u"},
        {"before": {"id": 2, "code": "c"}, "after": {"id": 2, "code": "c", "note": "gone"}, "op": "u"},
    ]
    send(kafka, raw, *(("k", event) for event in events))
    placeholder = "unavailable_value_placeholder: hex:676f6e65"
    file = write(
        f"""
        sources:
          db: {{kafka: {raw}, format: debezium, schema: "id INT, code STRING, note STRING", {placeholder}}}
        key: code
        """
    )
    run_once(file)
    assert sorted(commands(kafka, log), key=itemgetter(3, 0)) == [
        ("publish", "a", {"id": 1, "code": "a", "note": "x"}, "shop/db/0@0"),
        ("publish", "b", {"id": 1, "code": "b", "note": "x"}, "shop/db/0@1"),
        ("sow_delete", "a", {"id": 1, "code": "a", "note": "x"}, "shop/db/0@1"),
        ("sow_delete", "b", {"id": 1, "code": "b"}, "shop/db/0@2"),
        ("publish", "c", {"id": 2, "code": "c", "note": "__debezium_unavailable_value"}, "shop/db/0@3"),
        ("publish", "c", {"id": 2, "code": "c", "note": "y"}, "shop/db/0@4"),
        ("publish", "c", {"id": 2, "code": "c", "note": "z"}, "shop/db/0@7"),
        ("delta_publish", "c", {"id": 2, "code": "c"}, "shop/db/0@8"),
    ]
    refused = sorted(read_log(kafka, f"{log}.dead"), key=lambda one: one.key)
    assert [(one.key, json.loads(one.value or b"")) for one in refused] == [
        ("shop/db/0@5", events[5]),
        ("shop/db/0@6", events[6]),
    ]
    assert {one.headers["sow.reason"] for one in refused} == {"bad row"}
    assert all("set REPLICA IDENTITY FULL" in one.headers["sow.message"] for one in refused)
