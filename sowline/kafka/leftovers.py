"""What a definition has left in Kafka after it was removed from `topics.yaml`: topics, and consumer groups."""

from typing import NamedTuple, Self

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from sowline.config.kafka_names import KafkaNames, default_log, fanout_output
from sowline.config.settings import FANOUTS, VIEWS, Settings
from sowline.config.topics import Topics
from sowline.errors import SowlineError
from sowline.kafka.admin import Cluster
from sowline.kafka.clients import silent
from sowline.kafka.last_eras import note_last_eras
from sowline.kafka.retriable import patiently, wait_for_result


class Leftovers(NamedTuple):
    """The Kafka topics and the consumer group of a removed definition, as far as they exist."""

    log: str | None
    """The log that clients published to. It has what no other topic has."""
    topics: tuple[str, ...]
    groups: tuple[str, ...]
    logs: tuple[KafkaNames, ...] = ()
    """The names of the logs of which the changes are among the `topics`."""

    @classmethod
    def of_topic(cls, settings: Settings, topics: Topics, name: str, log: str | None) -> Self:
        """Return what a topic, view or conflated topic has left; `log` is its log if not the usual one.

        Nothing that belongs to a defined topic is among it.
        """
        own, view = KafkaNames.of_log(log or default_log(name)), KafkaNames.of_view(name)
        names = [own.changes, own.dead, own.schema_log]
        if log is None:
            names += [view.log, view.changes, view.dead, view.schema_log]
        used = {kafka for topic in topics.topics for kafka in topic.kafka.names}
        used |= {fanout.output for fanout in topics.fanouts}
        there = set(Cluster(settings.kafka_client).topic_names()) - used
        found = tuple(dict.fromkeys(one for one in names if one in there))
        # Without a changes topic, no service has ever had this topic: its log is somebody else's.
        has_log = own.log in there and own.changes in there
        groups = _existing_groups(settings, [f"{settings.group}{VIEWS}{name}"])
        logs = tuple(one for one in (own, view) if one.log in there and one.changes in found)
        return cls(own.log if has_log else None, found, groups, logs)

    @classmethod
    def of_fanout(cls, settings: Settings, name: str) -> Self:
        """Return what a fanout has left."""
        output = fanout_output(name)
        there = Cluster(settings.kafka_client).topic_names()
        groups = _existing_groups(settings, [f"{settings.group}{FANOUTS}{name}"])
        return cls(None, (output,) if output in there else (), groups)

    def delete(self, settings: Settings, *, with_log: bool) -> None:
        """Delete it all; the log only `with_log`. Raise `bad topic` if Kafka refuses."""
        if names := [*self.topics, *([self.log] if self.log and with_log else [])]:
            # First: a process that was killed in between is started again, and may find no changes then.
            kafka, gone = settings.kafka_client, set(names)
            kept = [one for one in self.logs if one.log not in gone]
            note_last_eras(kafka, [one for one in self.logs if one.log in gone], kept)
            # Last: without its changes, nothing shows that a log was this topic's. If it were left, all that was
            # dropped would come back with the next definition (test_the_changes_are_deleted_last).
            changes = {one.changes for one in self.logs}
            for some in ([n for n in names if n not in changes], [n for n in names if n in changes]):
                if some:
                    Cluster(settings.kafka_client).delete_topics(some)
        if self.groups:
            _delete_groups(settings, self.groups)


def _existing_groups(settings: Settings, names: list[str]) -> tuple[str, ...]:
    admin = AdminClient(silent(settings.kafka_client))

    def listed() -> set[str]:
        return {one.group_id for one in wait_for_result(admin.list_consumer_groups()).valid}

    there = patiently(listed)
    return tuple(name for name in names if name in there)


def _delete_groups(settings: Settings, names: tuple[str, ...]) -> None:
    admin = AdminClient(silent(settings.kafka_client))

    def delete() -> None:
        for name, future in admin.delete_consumer_groups(list(names)).items():
            try:
                wait_for_result(future)
            except KafkaException as error:
                code = error.args[0].code()
                if code == KafkaError.NON_EMPTY_GROUP:
                    raise SowlineError(
                        "topic in use",
                        f"expected no member in the consumer group {name}: stop the service that reads",
                    ) from error
                if code != KafkaError.GROUP_ID_NOT_FOUND:
                    raise

    patiently(delete)
