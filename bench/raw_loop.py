"""The measure of all Python on Kafka: consume records and produce them again, and nothing else.

`python -m bench.raw_loop BOOTSTRAP SOURCE TARGET PARTITIONS` runs until it is ended.
"""

import sys

from confluent_kafka import TopicPartition

from sowline.config.kafka_options import kafka_config
from sowline.kafka.clients import exact_producer, plain_consumer, poll_batch


def main(bootstrap: str, source: str, target: str, partitions: str) -> None:
    """Copy all records, keys and values, partition by partition."""
    kafka = kafka_config(bootstrap)
    consumer, producer = plain_consumer(kafka), exact_producer(kafka)
    consumer.assign([TopicPartition(source, number, 0) for number in range(int(partitions))])
    while True:
        for message in poll_batch(consumer, 1000, 0.2):
            producer.produce(target, message.value(), message.key(), message.partition() or 0)
        producer.poll(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
