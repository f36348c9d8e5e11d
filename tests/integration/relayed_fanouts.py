"""A relay between fanouts and their reader, which changes messages on their way from one Kafka topic to another."""

import json
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from sowline.check.topics import CheckedFanout, WorkloadTopics
from tests.integration.checked import CheckedSystem
from tests.integration.services import headers_of
from tests.integration.wire_mistakes import is_of_writer
from tests.waiting import SECONDS_MAX
from tests.wire_proxy import Meddler

RELAYED = "-relayed"


class RelayedTopics(WorkloadTopics):
    """The topics of the workload, whose fanouts are read behind a relay."""

    @property
    def fanouts(self) -> tuple[CheckedFanout, ...]:
        """Those with the names of the relay's Kafka topics."""
        return tuple(one._replace(name=one.name + RELAYED) for one in super().fanouts)


@contextmanager
def relayed(checked: CheckedSystem, meddler: Meddler) -> Iterator[RelayedTopics]:
    """Lend topics whose fanouts a relay writes on, after a meddler has changed their messages."""
    over = threading.Event()
    config = {"bootstrap.servers": checked.system.kafka, "group.id": "relay"}
    with closing(Consumer(config)) as consumer:
        consumer.assign(_ends(checked, AdminClient({"bootstrap.servers": checked.system.kafka})))
        relay = threading.Thread(target=_relay, args=(checked.system.kafka, consumer, meddler, over))
        relay.start()
        try:
            yield RelayedTopics(*checked.topics)
        finally:
            over.set()
            relay.join()


def _ends(checked: CheckedSystem, admin: AdminClient) -> list[TopicPartition]:
    """Create the topics of the relay; return where those of the fanouts end."""
    cluster, found = checked.system.cluster, []
    for fanout in checked.topics.fanouts:
        count = cluster.partitions(fanout.output)
        try:
            admin.create_topics([NewTopic(fanout.output + RELAYED, count, 1)])[
                fanout.output + RELAYED
            ].result(SECONDS_MAX)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
        ends = cluster.ends(fanout.output, range(count))
        found += [TopicPartition(fanout.output, number, end) for number, end in ends.items()]
    return found


def _relay(kafka: str, consumer: Consumer, meddler: Meddler, over: threading.Event) -> None:
    producer = Producer({"bootstrap.servers": kafka, "linger.ms": 1})
    begun: set[tuple[str | None, int | None]] = set()
    while not over.is_set():
        message = consumer.poll(0.1)
        if message is None or message.error():
            producer.poll(0)
            continue
        about = json.loads(headers_of(message)["sow"]) | {"data": json.loads(message.value() or b"")}
        stand = (message.topic(), message.partition())
        # What an earlier run wrote may come late, before the marks of this one: a mistake there would be made, but is
        # not in the history.
        if about["command"] == "publish" and not is_of_writer(about):
            begun.add(stand)
        for changed in meddler.meddle([about], {}) if stand in begun else [about]:
            _write(producer, message, changed)
    assert producer.flush(SECONDS_MAX) == 0


def _write(producer: Producer, message: Message, about: dict[str, object]) -> None:
    data = about.pop("data")
    producer.produce(
        f"{message.topic()}{RELAYED}",
        json.dumps(data),
        str(about["sow_key"]),
        message.partition() or 0,
        headers=[("sow", json.dumps(about).encode())],
    )
