"""Checks of Kafka: from collected facts to findings, each with what to do.

A Kafka topic should be as the services would create it. This module sends no requests.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal

from sowline.cli.doctor.facts import DeadFacts, GroupFacts, KafkaFacts, TopicFacts
from sowline.cli.doctor.finding import BEHIND_RECORDS_MAX, CLOCK_MS_MAX, Finding, Severity, count, few
from sowline.config.settings import FANOUTS, VIEWS, WORKERS, Settings
from sowline.config.topic_definition import TopicDefinition
from sowline.config.topics import Topics
from sowline.config.views import ComputedTopic
from sowline.kafka.topic_settings import kafka_topics, serves
from sowline.model.log_time import LOG_APPEND_TIME, TIME_MAX
from sowline.wire.server_message import iso_time

TRANSACTION_MS_MAX: Final = 10_000
"""How long a transaction may be open."""


def missing_kafka(servers: str, why: str) -> Finding:
    """Return the finding for a Kafka that does not answer."""
    return Finding(
        "kafka_away",
        "error",
        servers,
        "a Kafka that answers",
        why,
        "start it, or give its address with --kafka (TLS and SASL: SOWLINE_KAFKA_OPTIONS)",
    )


def kafka_findings(kafka: KafkaFacts, topics: Topics, settings: Settings) -> Iterator[Finding]:
    """Yield the findings for Kafka, for the topics in it, and for the consumers of these."""
    found = f"{count(kafka.brokers, 'broker')} at {settings.kafka}"
    yield Finding("kafka", "ok", "Kafka", "a Kafka that answers", found)
    for sentence in kafka.unanswered:
        yield Finding(
            "unanswered",
            "note",
            "Kafka",
            "an answer",
            sentence,
            "give this client the right to describe it, so that it can be checked",
        )
    yield from _session_findings(kafka, settings)
    yield from _worker_findings(kafka, topics, settings.group + WORKERS)
    for topic in topics.topics:
        yield from _topic_findings(kafka, topic)
        yield from _log_findings(kafka, topic, kafka.groups.get(settings.group + WORKERS, GroupFacts()))
        if topic.kafka.dead in kafka.dead:
            yield _dead_finding(topic, kafka.dead[topic.kafka.dead])
    for view in topics.computed:
        group = f"{settings.group}{VIEWS}{view.name}"
        changes = topics.named(view.source).changes
        yield from _owner_findings("views", kafka, f"view {view.name}", group, [changes])
        yield from _view_findings(kafka, view, topics)
    for fanout in topics.fanouts:
        group = f"{settings.group}{FANOUTS}{fanout.name}"
        changes = topics.named(fanout.topic).changes
        yield from _owner_findings("fanout", kafka, f"fanout {fanout.name}", group, [changes])


def _session_findings(kafka: KafkaFacts, settings: Settings) -> Iterator[Finding]:
    least = kafka.session_min_ms
    if least is not None and settings.session_timeout_ms < least:
        yield Finding(
            "session_timeout",
            "error",
            "SOWLINE_SESSION_TIMEOUT_MS",
            f"at least {least}, the brokers' minimum (group.min.session.timeout.ms)",
            str(settings.session_timeout_ms),
            "raise it, or lower the brokers' minimum: materializers can't join their group",
        )


def _worker_findings(kafka: KafkaFacts, topics: Topics, group: str) -> Iterator[Finding]:
    yield from _owner_findings("materializer", kafka, "materializers", group, [t.log for t in topics.topics])


def _owner_findings(
    service: str, kafka: KafkaFacts, where: str, name: str, logs: Iterable[str]
) -> Iterator[Finding]:
    group = kafka.groups.get(name, GroupFacts())
    wanted = [(log, number) for log in logs if log in kafka.topics for number in kafka.topics[log].partitions]
    left = [f"{log} [{number}]" for log, number in wanted if (log, number) not in group.owned]
    if not group.members:
        yield Finding(
            f"{service}_none",
            "error",
            where,
            f"members of the consumer group {name}",
            "none",
            f"start `sowline {service}` with the same SOWLINE_GROUP, or read in its log why it ended",
        )
    elif left:
        yield Finding(
            "partitions_unowned",
            "error",
            where,
            f"an owner for each of {count(len(wanted), 'partition')} in the consumer group {name}",
            f"none for {few(left)}",
            "run this again in a few seconds, because moving partitions have no owner; then restart the members",
        )
    else:
        found = f"{count(group.members, 'member')} for {count(len(wanted), 'partition')}"
        yield Finding(service, "ok", where, "an owner for each partition", found)


def _view_findings(kafka: KafkaFacts, view: ComputedTopic, topics: Topics) -> Iterator[Finding]:
    """Compare the positions that a view reflects with those applied in its source: the largest lag counts."""
    # A view with joins reads several topics, and numbers its positions itself: no offset of the source compares.
    if view.joins:
        return
    log, source = topics.named(view.name).log, topics.named(view.source)
    behind = [
        kafka.applied.get((source.log, number), -1) - offset
        for (name, _), reflected in kafka.reflected.items()
        if name == log
        for number, offset in reflected.items()
    ]
    if (most := max(behind, default=0)) > BEHIND_RECORDS_MAX:
        yield Finding(
            "view_behind",
            "warning",
            f"view {view.name}",
            f"at most {count(BEHIND_RECORDS_MAX, 'record')} of a partition of {source.log} not yet reflected",
            count(most, "record"),
            "run `sowline top` to see what is slow: the `views` service, or the materializers that apply its states",
        )


# topics


def _topic_findings(kafka: KafkaFacts, topic: TopicDefinition) -> Iterator[Finding]:
    """Compare the Kafka topics of a topic with those that a service would create."""
    log = kafka.topics.get(topic.log)
    for name, (defined, wanted) in kafka_topics(topic).items():
        found = kafka.topics.get(name)
        if found is None:
            yield _missing(name, topic, kafka.brokers)
            continue
        partitions = defined
        if name == topic.changes and log is not None:
            partitions = max(defined, len(log.partitions))
        yield from _partition_findings(name, found, partitions, grows=name == topic.log)
        yield from _replica_findings(name, found, topic, kafka.brokers)
        if found.settings:
            yield from _setting_findings(name, found, wanted, _role(name, topic))
        yield from _transaction_findings(name, found, kafka.asked_ms)
        if found.newest_ms is not None and found.newest_ms > kafka.asked_ms + CLOCK_MS_MAX:
            yield _ahead(name, found, found.newest_ms, kafka.asked_ms)


def _missing(name: str, topic: TopicDefinition, brokers: int) -> Finding:
    advice = "start a service, which creates it. If it was deleted, check first what else is gone"
    if topic.kafka.replication > brokers:
        found = f"it is {topic.kafka.replication}, with {count(brokers, 'broker')}"
        advice = f"start more brokers, or lower replication: {found}"
    return Finding("topic_missing", "error", name, f"a Kafka topic of {topic.name}", "none", advice)


def _partition_findings(name: str, found: TopicFacts, wanted: int, *, grows: bool) -> Iterator[Finding]:
    number = len(found.partitions)
    if number < wanted:
        yield Finding(
            "partitions_fewer",
            "error",
            name,
            count(wanted, "partition"),
            str(number),
            "add partitions (kafka-topics --alter --partitions), or lower `partitions` before there are records",
        )
    elif number > wanted and grows:
        yield Finding(
            "partitions_more",
            "note",
            name,
            f"{count(wanted, 'partition')}, as topics.yaml says",
            str(number),
            "nothing is lost, but records in the additional partitions are forwarded; for more, define a new topic",
        )


def _replica_findings(
    name: str, found: TopicFacts, topic: TopicDefinition, brokers: int
) -> Iterator[Finding]:
    parts = found.partitions
    if lost := [f"[{number}]" for number, part in parts.items() if not part.has_leader]:
        yield Finding(
            "partition_offline",
            "error",
            name,
            "a leader for each partition",
            f"none for {few(lost)}",
            "restart the brokers that hold it: nothing can be written or read until then",
        )
        return
    in_sync, replicas = (
        min((getattr(p, of) for p in parts.values()), default=1) for of in ("in_sync", "replicas")
    )
    least = int(found.settings.get("min.insync.replicas", 1))
    if in_sync < least:
        yield Finding(
            "replicas_too_few",
            "error",
            name,
            f"at least {count(least, 'replica')} in sync (min.insync.replicas)",
            str(in_sync),
            "restart brokers, or lower min.insync.replicas: nothing can be written until then",
        )
    elif in_sync < replicas:
        yield Finding(
            "replicas_behind",
            "warning",
            name,
            f"{count(replicas, 'replica')} in sync",
            str(in_sync),
            "check for brokers that are down or slow",
        )
    yield from _copy_findings(name, replicas, topic, brokers)


def _copy_findings(name: str, replicas: int, topic: TopicDefinition, brokers: int) -> Iterator[Finding]:
    if replicas < topic.kafka.replication:
        yield Finding(
            "replication_low",
            "warning",
            name,
            f"{count(topic.kafka.replication, 'replica')}, as topics.yaml says",
            str(replicas),
            "reassign its partitions (kafka-reassign-partitions), or correct topics.yaml",
        )
    elif replicas == 1 and brokers > 1 and name == topic.log:
        yield Finding(
            "replication_one",
            "note",
            name,
            f"copies on several of the {brokers} brokers",
            "one replica",
            "set `replication` for new topics; if this broker is lost, so is the log",
        )


Role = Literal["log", "changes", "dead", "schemas"]


def _role(name: str, topic: TopicDefinition) -> Role:
    roles: dict[str, Role] = {topic.log: "log", topic.changes: "changes", topic.kafka.dead: "dead"}
    return roles.get(name, "schemas")


_SETTINGS: Final[Mapping[tuple[Role, str], tuple[str, Severity, str]]] = {
    ("log", "message.timestamp.type"): (
        "log_time",
        "error",
        "records expire by this time, and subscribers get it",
    ),
    ("log", "max.message.bytes"): ("message_bytes", "error", "allowed records do not fit"),
    ("log", "retention.ms"): ("log_retention", "warning", "deleted records can't be applied again"),
    ("log", "retention.bytes"): ("log_retention", "warning", "deleted records can't be applied again"),
    ("changes", "cleanup.policy"): (
        "changes_policy",
        "error",
        "otherwise records can't be loaded from it",
    ),
    ("changes", "max.message.bytes"): (
        "message_bytes",
        "error",
        "a change that does not fit stops its partition",
    ),
    ("changes", "min.compaction.lag.ms"): ("compaction_lag", "warning", "clients that resume miss changes"),
    ("changes", "delete.retention.ms"): (
        "tombstones",
        "warning",
        "a service that loads may keep deleted records",
    ),
    ("changes", "retention.ms"): ("changes_retention", "warning", "clients that resume miss messages"),
    ("dead", "max.message.bytes"): ("message_bytes", "error", "refused records may not fit"),
    ("dead", "retention.ms"): ("dead_retention", "note", "older dead letters are deleted"),
    ("dead", "retention.bytes"): ("dead_retention", "note", "further dead letters are deleted"),
    ("schemas", "cleanup.policy"): ("schemas_retention", "error", "it is a log, and each entry counts"),
    ("schemas", "max.message.bytes"): ("message_bytes", "error", "schemas do not fit, and messages wait"),
    ("schemas", "retention.ms"): ("schemas_retention", "error", "messages of deleted schemas can't be read"),
    ("schemas", "retention.bytes"): (
        "schemas_retention",
        "error",
        "messages of deleted schemas can't be read",
    ),
}
"""By role and setting: the code and severity of a wrong value, and its effect."""


def _setting_findings(
    name: str, found: TopicFacts, wanted: Mapping[str, str], role: Role
) -> Iterator[Finding]:
    for key, value in wanted.items():
        is_known = found.settings.get(key) is not None
        if is_known and not serves(key, found.settings[key], value):
            code, severity, why = _SETTINGS[role, key]
            yield Finding(
                code,
                severity,
                name,
                f"{key}={value}{_or_more(key, value)}",
                found.settings[key],
                f"set it (kafka-configs --alter --entity-type topics --entity-name {name} --add-config …): {why}",
            )
    if role == "log" and "compact" in found.settings.get("cleanup.policy", ""):
        yield Finding(
            "log_compacted",
            "error",
            name,
            "cleanup.policy=delete",
            found.settings["cleanup.policy"],
            "set it, and publish again what compaction removed: each command of a log counts",
        )


def _or_more(key: str, value: str) -> str:
    return " or more" if value != "-1" and value.isdecimal() else ""


def _transaction_findings(name: str, found: TopicFacts, now_ms: int) -> Iterator[Finding]:
    for number, part in found.partitions.items():
        if part.transaction_ms is not None and now_ms - part.transaction_ms > TRANSACTION_MS_MAX:
            yield Finding(
                "transaction_open",
                "warning",
                f"{name} [{number}]",
                "transactions that end",
                f"one that holds it since offset {part.end}, written at {iso_time(part.transaction_ms)}",
                "commit or abort it, or wait for its transaction.timeout.ms: nothing after it is applied"
                " (kafka-transactions --find-hanging names its producer)",
            )


def _ahead(name: str, found: TopicFacts, newest_ms: int, now_ms: int) -> Finding:
    ahead_ms = newest_ms - now_ms
    if found.newest_time_type != LOG_APPEND_TIME:
        is_date = newest_ms <= TIME_MAX
        when = iso_time(newest_ms) if is_date else f"{newest_ms} ms, beyond the year 9999"
        return Finding(
            "producer_time",
            "warning",
            name,
            "records from before now",
            f"one from {when}, a time that its producer gave",
            "correct the producer: it sends times in ms since 1970 that are wrong"
            + ("" if is_date else ", probably microseconds. Such a record is a dead letter"),
        )
    return Finding(
        "clock_ahead",
        "warning",
        name,
        "records from before now",
        f"one that is {ahead_ms / 1000:.1f} s ahead of this machine's clock",
        "set the clocks of the brokers, or of this machine (NTP): the log's time decides when records expire",
    )


# what is applied, and what is refused


def _log_findings(kafka: KafkaFacts, topic: TopicDefinition, workers: GroupFacts) -> Iterator[Finding]:
    log = kafka.topics.get(topic.log)
    if log is None:
        return
    nexts = {number: kafka.applied.get((topic.log, number), -1) + 1 for number in log.partitions}
    waiting = {n: max(0, part.end - max(part.start, nexts[n])) for n, part in log.partitions.items()}
    behind = sum(waiting.values())
    if topic.log in kafka.replaced:
        yield Finding(
            "log_replaced",
            "warning",
            topic.log,
            "the log that the changes are of",
            "another one: it was deleted and created again, and no materializer has begun an era in it",
            "start a materializer; a running one begins the era within seconds: ask again",
        )
    lost = [n for n, part in log.partitions.items() if 0 < nexts[n] < part.start]
    if lost:
        yield Finding(
            "log_incomplete",
            "warning",
            topic.log,
            "every record of the log, until it is applied",
            f"records deleted before they were applied in {few([f'[{n}]' for n in lost])}",
            "publish the lost records again, or continue without them (--accept-loss)",
        )
    unowned = any(records and (topic.log, n) not in workers.owned for n, records in waiting.items())
    if unowned or behind > BEHIND_RECORDS_MAX:
        yield Finding(
            "behind",
            "warning",
            topic.log,
            f"at most {count(BEHIND_RECORDS_MAX, 'record')} not yet applied"
            if not unowned
            else "all applied",
            f"{count(behind, 'record')} that {'wait' if behind != 1 else 'waits'}",
            "start a materializer" if unowned else "run `sowline top`: if it grows, add workers",
        )
    else:
        yield Finding(
            "applied",
            "ok",
            topic.log,
            "all applied",
            f"all applied but {behind}" if behind else "all applied",
        )


def _dead_finding(topic: TopicDefinition, dead: DeadFacts) -> Finding:
    reasons = ", ".join(f"{n} {name}" for name, n in sorted(dead.reasons.items(), key=lambda one: -one[1]))
    of = f" of the newest {dead.read}" if dead.read < dead.waiting else ""
    newest = iso_time(dead.newest_ms)[:19] + "+00:00"
    again = (
        "publish them corrected, or as they are with sowline dead retry"
        if topic.view is None
        else "do what it says"
    )
    return Finding(
        "dead_letters",
        "warning",
        topic.kafka.dead,
        "no dead letters",
        f"{dead.waiting:,} ({reasons}{of}), the newest from {newest}",
        f"read them with sowline dead list {topic.name} (sow.message says what is wrong), {again}, then delete"
        " them (kafka-delete-records)",
    )
