"""The measure of all Python on Kafka: consume records and produce them again, and nothing else.

`python -m bench.raw_loop BOOTSTRAP SOURCE TARGET PARTITIONS RECORDS`
"""

import sys

from confluent_kafka import TopicPartition

from sowline.kafka import exact_producer, kafka_config, plain_consumer, poll_batch


def main(bootstrap: str, source: str, target: str, partitions: str, records: str) -> None:
    """Copy so many records, keys and values, partition by partition."""
    kafka = kafka_config(bootstrap)
    consumer, producer = plain_consumer(kafka), exact_producer(kafka, 4 << 20)
    consumer.assign([TopicPartition(source, number, 0) for number in range(int(partitions))])
    left = int(records)
    while left > 0:
        batch = poll_batch(consumer, 1000, 0.2)
        for message in batch:
            producer.produce(target, message.value(), message.key(), message.partition() or 0)
        producer.poll(0)
        left -= len(batch)
    producer.flush()
    consumer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
