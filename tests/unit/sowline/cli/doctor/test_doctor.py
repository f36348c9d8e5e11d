"""What `sowline doctor` finds in a set-up: from facts to findings, and its command where nobody answers."""

import re
import socket
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import CliRunner

from sowline import __version__
from sowline.cli import main
from sowline.cli.doctor import kafka as doctor_kafka
from sowline.cli.doctor.access_checks import access_findings
from sowline.cli.doctor.checks import ROOM_BYTES_MIN, ROOM_BYTES_SCARCE, directory_findings, service_findings
from sowline.cli.doctor.examination import see_directory
from sowline.cli.doctor.facts import (
    DeadFacts,
    DirectoryFacts,
    GroupFacts,
    KafkaFacts,
    PartitionFacts,
    ServiceFacts,
    TopicFacts,
)
from sowline.cli.doctor.finding import BEHIND_RECORDS_MAX, CLOCK_MS_MAX, Finding
from sowline.cli.doctor.kafka_checks import TRANSACTION_MS_MAX, kafka_findings
from sowline.config.settings import Settings
from sowline.config.topics import Topics, parse_topics
from sowline.kafka.topic_settings import kafka_topics
from sowline.model.log_time import CREATE_TIME
from sowline.serving.authorization.access_file import parse_access

NOW = 1_790_000_000_000
TOPICS = parse_topics(
    "{topics: [{name: orders, key: /id, partitions: 2, replication: 2}],"
    " fanouts: [{name: late, topic: orders}]}"
)
ORDERS = TOPICS.named("orders")
SETTINGS = Settings(group="g", session_timeout_ms=6000)
GROUPS = {
    "g-materializer": GroupFacts(1, frozenset({("orders", 0), ("orders", 1)})),
    "g-fanout-late": GroupFacts(1, frozenset({("orders.changes", 0), ("orders.changes", 1)})),
}
PART = PartitionFacts(replicas=2, in_sync=2, start=0, end=10)


def sound_topics(topics: Topics = TOPICS) -> dict[str, TopicFacts]:
    """Return Kafka topics as the services make them."""
    return {
        name: TopicFacts(dict.fromkeys(range(partitions), PART), settings, NOW)
        for topic in topics.topics
        for name, (partitions, settings) in kafka_topics(topic).items()
    }


SOUND = KafkaFacts(3, NOW, sound_topics(), GROUPS, {("orders", 0): 9, ("orders", 1): 9}, session_min_ms=6000)


def wrong(findings: Iterable[Finding]) -> list[tuple[str, str, str]]:
    """Return code, severity and place of all that is not in order."""
    return [(one.code, one.severity, one.where) for one in findings if one.severity != "ok"]


def of_kafka(
    kafka: KafkaFacts, settings: Settings = SETTINGS, topics: Topics = TOPICS
) -> list[tuple[str, str, str]]:
    """Return what is not in order of a Kafka."""
    return wrong(kafka_findings(kafka, topics, settings))


def with_topic(name: str, **changed: Any) -> KafkaFacts:
    """Return a sound Kafka, but for one topic."""
    return replace(SOUND, topics={**SOUND.topics, name: replace(SOUND.topics[name], **changed)})


def with_settings(name: str, **settings: str) -> KafkaFacts:
    """Return a sound Kafka, but for some settings of one topic."""
    given = {key.replace("_", "."): value for key, value in settings.items()}
    return with_topic(name, settings={**SOUND.topics[name].settings, **given})


def with_parts(name: str, *parts: PartitionFacts) -> KafkaFacts:
    """Return a sound Kafka, but for the partitions of one topic."""
    return with_topic(name, partitions=dict(enumerate(parts)))


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


# views

VIEWS = parse_topics(
    """
topics: [{name: orders, key: /id, partitions: 2, replication: 2}]
views:
  - {name: totals, from: orders, replication: 2, grouping: [/desk], projection: [COUNT(1) AS /n, MAX(/qty) AS /most]}
  - {name: open, from: orders, replication: 2, filter: "/status = 'open'"}
  - {name: brief, from: orders, replication: 2, projection: [/id, /desk, /qty * 2 AS /twice]}
  - {name: renamed, from: orders, replication: 2, grouping: [/desk], projection: [MAX(/qty) AS /desk]}
"""
)
WITH_VIEWS = replace(
    SOUND,
    topics=sound_topics(VIEWS),
    groups={
        "g-materializer": GroupFacts(1, frozenset((topic.log, n) for topic in VIEWS.topics for n in (0, 1))),
        **{f"g-view-{view.name}": GroupFacts(1, GROUPS["g-fanout-late"].owned) for view in VIEWS.views},
    },
    applied={(topic.log, n): 9 for topic in VIEWS.topics for n in (0, 1)},
    reflected={("totals.partials", 0): {0: 9, 1: 9}, ("totals.partials", 1): {0: 9, 1: 9}},
)


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


def shown_to(*rights: str) -> list[tuple[str, str]]:
    """Return what the doctor finds of a role with these rights to read, by view."""
    access = parse_access(f"roles: {{desk: {{read: [{', '.join(rights)}]}}}}")
    ok, *found = access_findings("access.yaml", access, VIEWS)
    assert (ok.code, ok.found) == ("access", "1 role")
    assert {(one.code, one.severity, one.where) for one in found} <= {("view_rights", "warning", "role desk")}
    return [(re.findall(r"view (\w+)", one.expected)[0], one.found) for one in found]


NY = "filter: \"/desk = 'NY'\""
ONLY_NY = "only records with /desk = 'NY'"


@pytest.mark.parametrize(
    ("rights", "found"),
    [
        (["{topics: '^.*'}"], []),
        (["{topics: orders}"], []),
        (["{topics: totals}"], [("totals", "no right to read orders")]),
        # A filter on what records are grouped by limits groups, unless a field of another value has its name.
        ([f"{{topics: '^.*', {NY}}}"], [("renamed", ONLY_NY)]),
        (["{topics: totals}", f"{{topics: orders, {NY}}}"], [("totals", ONLY_NY)]),
        # A view that has the filter itself has no other records.
        (["{topics: open}", "{topics: orders, filter: \"/status = 'open'\"}"], []),
        (["{topics: open}", f"{{topics: orders, {NY}}}"], [("open", ONLY_NY)]),
        # Records of a group have many statuses, those of an ungrouped view one; one view does not show it.
        (
            ["{topics: '^.*', filter: \"/status = 'open'\"}"],
            [(name, "only records with /status = 'open'") for name in ("totals", "brief", "renamed")],
        ),
        # Fields that a view shows, or computes others of.
        (
            ["{topics: '^.*', select: '[-/,+/desk,+/id,+/status]'}"],
            [(name, "only the fields [-/,+/desk,+/id,+/status]") for name in ("totals", "brief", "renamed")],
        ),
        (
            ["{topics: '^.*', select: '[-/,+/desk,+/id,+/qty]'}"],
            [("open", "only the fields [-/,+/desk,+/id,+/qty]")],
        ),
        (
            ["{topics: '^(totals|open)'}", "{topics: orders, select: '[-/cost]'}"],
            [("open", "only the fields [-/cost]")],
        ),
    ],
)
def test_a_view_that_shows_what_a_role_may_not_read(rights: list[str], found: list[tuple[str, str]]) -> None:
    """Rights to a view are its own, so that may be intended: it is a warning."""
    assert shown_to(*rights) == found


JOINED = parse_topics(
    """
topics: [{name: orders, key: /id}, {name: customers, key: /id}]
views:
  - {name: known, from: orders, join: [{topic: customers, on: /customer = /id, as: c}]}
conflated:
  - {name: slow, from: orders, interval: 1s}
"""
)


@pytest.mark.parametrize(
    ("rights", "found"),
    [
        (["{topics: '^.*'}"], []),
        (["{topics: orders}", "{topics: known}"], ["no right to read customers"]),
        (["{topics: customers}", "{topics: slow}"], ["no right to read orders"]),
        (
            ["{topics: '^(orders|known)'}", "{topics: customers, filter: /vip = 1}"],
            ["only records with /vip = 1"],
        ),
        (
            ["{topics: '^(orders|known)'}", "{topics: customers, select: '[-/cost]'}"],
            ["only the fields [-/cost]"],
        ),
    ],
)
def test_a_view_that_joins_what_a_role_may_not_read(rights: list[str], found: list[str]) -> None:
    """Joined topics count like the source, and conflated topics like views."""
    access = parse_access(f"roles: {{desk: {{read: [{', '.join(rights)}]}}}}")
    _, *others = access_findings("access.yaml", access, JOINED)
    assert [one.found for one in others] == found


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


# the command

run = CliRunner().invoke


def codes(output: str) -> dict[str, dict[str, str]]:
    """Return the findings that the command has printed as JSON, by code."""
    return {line["code"]: line for line in map(orjson.loads, output.splitlines())}


def test_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Kafka and a service that take connections and say nothing are findings, not something to wait for."""
    monkeypatch.setattr(doctor_kafka, "ANSWER_SECONDS_MAX", 0.2)
    monkeypatch.setattr("sowline.cli.http.ANSWER_SECONDS_MAX", 0.2)
    (tmp_path / "topics.yaml").write_text("topics: [{name: orders, key: /id}]")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        partition = f"127.0.0.1:{silent.getsockname()[1]}"
        where = ["--config", str(tmp_path / "topics.yaml"), "--kafka", partition, "--data-dir", str(tmp_path)]
        done = run(main, ["doctor", *where, "--url", f"http://{partition}", "--json"])
        result = run(main, ["doctor", *where])
    assert done.exit_code == 1, done.output
    found = codes(done.output)
    assert [found[code]["severity"] for code in ("topics", "kafka_away", "service_away")] == [
        "ok",
        "error",
        "error",
    ]
    assert result.exit_code == 1
    assert f"error   kafka_away: {partition}: expected a Kafka that answers, found " in result.output
    assert "        start it, or give its address with --kafka" in result.output
    assert result.output.endswith("1 error, 0 warnings, 0 notes\n")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ("", "Connect to ipv4#127.0.0.1:1 failed: Connection refused"),
        ("no.such=1", "No such configuration property"),
    ],
)
def test_why_kafka_is_away(options: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the client was told when it tried to connect, or what is wrong with its options."""
    monkeypatch.setattr(doctor_kafka, "ANSWER_SECONDS_MAX", 1.0)
    monkeypatch.setenv("SOWLINE_KAFKA_OPTIONS", options)
    (tmp_path / "topics.yaml").write_text("topics: [{name: orders, key: /id}]")
    done = run(
        main, ["doctor", "--config", str(tmp_path / "topics.yaml"), "--kafka", "127.0.0.1:1", "--json"]
    )
    assert why in codes(done.output)["kafka_away"]["found"]


def test_files_and_settings_that_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each thing that is wrong in topics.yaml is a finding with its line; so is a file that is not there."""
    (tmp_path / "topics.yaml").write_text(
        "topics:\n- {name: orders}\n- {name: trades, key: /id, color: red}\n"
    )
    done = run(main, ["doctor", "--config", str(tmp_path / "topics.yaml"), "--json"])
    lines = [orjson.loads(line) for line in done.output.splitlines()]
    assert (done.exit_code, [line["code"] for line in lines]) == (1, ["topics_file"] * 2)
    assert [line["where"].rpartition(", ")[2] for line in lines] == [
        "line 2: topics.0.key (orders)",
        "line 3: topics.1.color (trades)",
    ]
    done = run(main, ["doctor", "--config", str(tmp_path / "none.yaml"), "--json"])
    assert "--config" in codes(done.output)["topics_file"]["advice"]
    (tmp_path / "topics.yaml").write_text("topics: [{name: orders, key: /id}]")
    (tmp_path / "access.yaml").write_text("roles: {desk: {reads: []}}")
    where = ["--config", str(tmp_path / "topics.yaml"), "--kafka", "127.0.0.1:1"]
    done = run(main, ["doctor", *where, "--access", str(tmp_path / "access.yaml"), "--json"])
    assert "line 1: roles.desk.reads" in codes(done.output)["access_file"]["found"]
    monkeypatch.setenv("SOWLINE_PORT", "many")
    done = run(main, ["doctor", "--json"])
    assert "no `sowline up` runs here" in done.stderr
    assert (done.exit_code, codes(done.stdout)["settings"]["where"]) == (1, "SOWLINE_PORT")
