"""What `sowline doctor` finds in Kafka: topics, their settings, owners, what waits, dead letters and views."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from sowline.cli.doctor.facts import (
    DeadFacts,
    GroupFacts,
    KafkaFacts,
)
from sowline.cli.doctor.finding import BEHIND_RECORDS_MAX, CLOCK_MS_MAX
from sowline.cli.doctor.kafka_checks import TRANSACTION_MS_MAX, kafka_findings
from sowline.config.topics import parse_topics
from sowline.model.log_time import CREATE_TIME
from tests.unit.sowline.cli.doctor.sound_kafka import (
    GROUPS,
    NOW,
    PART,
    SETTINGS,
    SOUND,
    TOPICS,
    VIEWS,
    WITH_VIEWS,
    of_kafka,
    sound_topics,
    with_parts,
    with_settings,
    with_topic,
)


def test_a_sound_kafka_has_nothing_wrong() -> None:
    """Each thing that was looked at says so."""
    assert of_kafka(SOUND) == []
    codes = [one.code for one in kafka_findings(SOUND, TOPICS, SETTINGS)]
    assert codes == ["kafka", "materializer", "applied", "fanout"]


@pytest.mark.parametrize(
    ("name", "settings", "code", "severity"),
    [
        ("orders", {"message_timestamp_type": "CreateTime"}, "log_time", "error"),
        ("orders", {"max_message_bytes": "1048588"}, "message_bytes", "error"),
        ("orders", {"retention_ms": "604800000"}, "log_retention", "warning"),
        ("orders", {"retention_bytes": "1000000"}, "log_retention", "warning"),
        ("orders", {"cleanup_policy": "compact,delete"}, "log_compacted", "error"),
        ("orders", {"min_insync_replicas": "3"}, "replicas_too_few", "error"),
        ("orders.changes", {"cleanup_policy": "delete"}, "changes_policy", "error"),
        ("orders.changes", {"cleanup_policy": "compact,delete"}, "changes_policy", "error"),
        ("orders.changes", {"max_message_bytes": "1048588"}, "message_bytes", "error"),
        ("orders.changes", {"min_compaction_lag_ms": "0"}, "compaction_lag", "warning"),
        ("orders.changes", {"delete_retention_ms": "1000"}, "tombstones", "warning"),
        ("orders.dead", {"max_message_bytes": "1048588"}, "message_bytes", "error"),
        ("orders.dead", {"retention_ms": "604800000"}, "dead_retention", "note"),
    ],
)
def test_a_setting_that_does_not_serve(name: str, settings: dict[str, str], code: str, severity: str) -> None:
    """It is found, with its code, on the topic that has it."""
    assert of_kafka(with_settings(name, **settings)) == [(code, severity, name)]


def test_a_limit_that_is_larger_serves() -> None:
    """Sowline sets minima: who gives more has no finding; nor has a topic whose settings Kafka does not tell."""
    assert (
        of_kafka(
            with_settings("orders.changes", max_message_bytes="99999999", min_compaction_lag_ms="99999999")
        )
        == []
    )
    assert of_kafka(with_topic("orders", settings={})) == []


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({"cleanup.policy": "compact"}, "schemas_retention"),
        ({"retention.ms": "604800000"}, "schemas_retention"),
        ({"retention.bytes": "1000000"}, "schemas_retention"),
        ({"max.message.bytes": "1048588"}, "message_bytes"),
    ],
)
def test_the_schemas_of_a_topic_are_kept(settings: dict[str, str], code: str) -> None:
    """Without them, no message can be read again."""
    topics = parse_topics("topics: [{name: fix, key: /11, message_type: fix}]")
    groups = {"g-materializer": GroupFacts(1, frozenset({("fix", 0)}))}
    sound = replace(SOUND, brokers=1, topics=sound_topics(topics), applied={("fix", 0): 9}, groups=groups)
    assert of_kafka(sound, topics=topics) == []
    schemas = sound.topics["fix.schemas"]
    changed = replace(schemas, settings={**schemas.settings, **settings})
    kafka = replace(sound, topics={**sound.topics, "fix.schemas": changed})
    assert of_kafka(kafka, topics=topics) == [(code, "error", "fix.schemas")]


def test_changes_of_a_topic_without_a_sow() -> None:
    """They are kept for a time, not compacted."""
    topics = parse_topics("topics: [{name: ticks, sow: false}]")
    kafka = replace(SOUND, brokers=1, topics=sound_topics(topics), applied={("ticks", 0): 9})
    kafka = replace(kafka, groups={"g-materializer": GroupFacts(1, frozenset({("ticks", 0)}))})
    assert of_kafka(kafka, topics=topics) == []
    changes = kafka.topics["ticks.changes"]
    short = replace(changes, settings={**changes.settings, "retention.ms": "1000"})
    kafka = replace(kafka, topics={**kafka.topics, "ticks.changes": short})
    assert of_kafka(kafka, topics=topics) == [("changes_retention", "warning", "ticks.changes")]


@pytest.mark.parametrize(
    ("kafka", "expected"),
    [
        (with_parts("orders.changes", PART), ("partitions_fewer", "error", "orders.changes")),
        (with_parts("orders.dead", PART, PART), None),
        (
            with_parts("orders", PART, replace(PART, has_leader=False, in_sync=0)),
            ("partition_offline", "error", "orders"),
        ),
        (with_parts("orders", PART, replace(PART, in_sync=1)), ("replicas_behind", "warning", "orders")),
        (
            with_parts("orders.dead", replace(PART, replicas=1, in_sync=1)),
            ("replication_low", "warning", "orders.dead"),
        ),
        (with_topic("orders", newest_ms=NOW + CLOCK_MS_MAX + 1), ("clock_ahead", "warning", "orders")),
        (
            with_topic("orders", newest_ms=NOW + CLOCK_MS_MAX + 1, newest_time_type=CREATE_TIME),
            ("producer_time", "warning", "orders"),
        ),
        (
            with_topic("orders", newest_ms=2**63 - 1, newest_time_type=CREATE_TIME),
            ("producer_time", "warning", "orders"),
        ),
        (with_topic("orders", newest_ms=NOW + CLOCK_MS_MAX), None),
        (
            with_parts("orders", PART, replace(PART, transaction_ms=NOW - TRANSACTION_MS_MAX - 1)),
            ("transaction_open", "warning", "orders [1]"),
        ),
        (with_parts("orders", PART, replace(PART, transaction_ms=NOW - TRANSACTION_MS_MAX)), None),
        (with_topic("orders", newest_ms=None), None),
        (replace(SOUND, unanswered=("no",)), ("unanswered", "note", "Kafka")),
        (replace(SOUND, session_min_ms=6001), ("session_timeout", "error", "SOWLINE_SESSION_TIMEOUT_MS")),
        (replace(SOUND, session_min_ms=None), None),
        (
            replace(SOUND, dead={"orders.dead": DeadFacts(3, 3, {"not json": 2, "bad key": 1}, NOW)}),
            ("dead_letters", "warning", "orders.dead"),
        ),
        (
            with_parts("orders", PART, replace(PART, start=11, end=11)),
            ("log_incomplete", "warning", "orders"),
        ),
    ],
)
def test_what_else_kafka_may_lack(kafka: KafkaFacts, expected: tuple[str, str, str] | None) -> None:
    """Partitions, replicas, clocks, dead letters: one thing is wrong, and one thing is found."""
    assert of_kafka(kafka) == ([] if expected is None else [expected])


def test_partitions_beyond_the_definition() -> None:
    """The log may have more, and then so must the changes."""
    kafka = with_parts("orders", PART, PART, PART)
    assert of_kafka(kafka) == [
        ("partitions_unowned", "error", "materializers"),
        ("partitions_more", "note", "orders"),
        ("partitions_fewer", "error", "orders.changes"),
        ("behind", "warning", "orders"),
    ]


def test_missing_topics() -> None:
    """The advice tells brokers that are too few from topics that nobody has made."""
    kafka = replace(SOUND, topics={})
    missing = [one for one in kafka_findings(kafka, TOPICS, SETTINGS) if one.code == "topic_missing"]
    assert [one.where for one in missing] == ["orders", "orders.changes", "orders.dead"]
    assert all(one.severity == "error" and "start a service" in one.advice for one in missing)
    few = next(
        one
        for one in kafka_findings(replace(kafka, brokers=1), TOPICS, SETTINGS)
        if one.code == "topic_missing"
    )
    assert "it is 2, with 1 broker" in few.advice


def test_one_replica_among_many_brokers() -> None:
    """It is said of the log, where the definition does not ask for more."""
    topics = parse_topics("topics: [{name: orders, key: /id, partitions: 2}]")
    one = replace(PART, replicas=1, in_sync=1)
    made = {
        name: replace(of, partitions=dict.fromkeys(of.partitions, one)) for name, of in SOUND.topics.items()
    }
    assert of_kafka(replace(SOUND, topics=made), topics=topics) == [("replication_one", "note", "orders")]
    assert of_kafka(replace(SOUND, topics=made, brokers=1), topics=topics) == []


@pytest.mark.parametrize(
    ("groups", "applied", "expected"),
    [
        (
            {},
            (9, 9),
            [("materializer_none", "error", "materializers"), ("fanout_none", "error", "fanout late")],
        ),
        (
            {**GROUPS, "g-materializer": GroupFacts()},
            (9, 4),
            [("materializer_none", "error", "materializers"), ("behind", "warning", "orders")],
        ),
        (
            {**GROUPS, "g-materializer": GroupFacts(2, frozenset({("orders", 0)}))},
            (0, 9),
            [("partitions_unowned", "error", "materializers")],
        ),
        (
            {**GROUPS, "g-materializer": GroupFacts(2, frozenset({("orders", 0)}))},
            (9, 0),
            [("partitions_unowned", "error", "materializers"), ("behind", "warning", "orders")],
        ),
        (GROUPS, (-1, 0), []),
    ],
)
def test_owners_and_what_waits(
    groups: Mapping[str, GroupFacts], applied: tuple[int, int], expected: list[tuple[str, str, str]]
) -> None:
    """A partition without an owner is an error, and what waits in it is told; with one, only if it is much."""
    kafka = replace(SOUND, groups=groups, applied={("orders", n): at for n, at in enumerate(applied)})
    assert of_kafka(kafka) == expected


def test_much_that_waits() -> None:
    """So many records are told also where a partition has its owner; those cut off the log do not wait."""
    long = replace(PART, start=5, end=BEHIND_RECORDS_MAX + 6)
    kafka = replace(with_parts("orders", long, PART), applied={("orders", 1): 9})
    assert of_kafka(kafka) == [("behind", "warning", "orders")]
    (behind,) = [one for one in kafka_findings(kafka, TOPICS, SETTINGS) if one.code == "behind"]
    assert behind.found == "10,001 records that wait"
    assert of_kafka(replace(kafka, applied={("orders", 0): 5, ("orders", 1): 9})) == []


def test_a_log_that_was_replaced() -> None:
    """The newest changes are of a log that is not there any more."""
    assert of_kafka(replace(SOUND, replaced=frozenset({"orders"}))) == [("log_replaced", "warning", "orders")]
    assert of_kafka(SOUND) == []


def test_dead_letters_are_counted() -> None:
    """By reason, the most frequent first; where not all were read, it says so."""
    dead = {"orders.dead": DeadFacts(5000, 3, {"bad key": 1, "not json": 2}, NOW)}
    (found,) = [
        one
        for one in kafka_findings(replace(SOUND, dead=dead), TOPICS, SETTINGS)
        if one.code == "dead_letters"
    ]
    assert (
        found.found
        == "5,000 (2 not json, 1 bad key of the newest 3), the newest from 2026-09-21T14:13:20+00:00"
    )
    assert "sowline dead list orders " in found.advice


def test_sound_views_have_nothing_wrong() -> None:
    """Each view says so, and so does each of its topics."""
    assert of_kafka(WITH_VIEWS, topics=VIEWS) == []
    codes = [one.code for one in kafka_findings(WITH_VIEWS, VIEWS, SETTINGS)]
    assert codes == ["kafka", "materializer", *["applied"] * 5, *["views"] * 4]


@pytest.mark.parametrize(
    ("group", "code"),
    [
        (GroupFacts(), "views_none"),
        (GroupFacts(1, frozenset({("orders.changes", 1)})), "partitions_unowned"),
    ],
)
def test_a_view_that_is_not_computed(group: GroupFacts, code: str) -> None:
    """Its group has no members, or none of these has a partition of its source."""
    kafka = replace(WITH_VIEWS, groups={**WITH_VIEWS.groups, "g-view-open": group})
    assert of_kafka(kafka, topics=VIEWS) == [(code, "error", "view open")]


@pytest.mark.parametrize(("reflected", "is_found"), [(10, False), (9, True)])
def test_a_view_that_is_behind(reflected: int, is_found: bool) -> None:
    """The partitions of the view and of its source that are furthest apart count."""
    end = BEHIND_RECORDS_MAX + 10
    kafka = replace(
        WITH_VIEWS,
        applied={**WITH_VIEWS.applied, ("orders", 1): end},
        reflected={("totals.partials", 0): {0: 9, 1: end}, ("totals.partials", 1): {0: 9, 1: reflected}},
    )
    wanted = [("view_behind", "warning", "view totals")]
    assert of_kafka(kafka, topics=VIEWS) == (wanted if is_found else [])


def test_dead_letters_of_a_view() -> None:
    """Nothing can be published to a view, so the advice is another one."""
    kafka = replace(WITH_VIEWS, dead={"open.dead": DeadFacts(1, 1, {"partials missing": 1}, NOW)})
    (found,) = [one for one in kafka_findings(kafka, VIEWS, SETTINGS) if one.code == "dead_letters"]
    assert "publish" not in found.advice
