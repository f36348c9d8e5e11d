"""`python orders.py BOOTSTRAP TOPIC`: write the records to a Kafka topic that standard input lists."""

import sys

from confluent_kafka import Producer

bootstrap, topic = sys.argv[1:]
producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
failures: list[object] = []

for line in sys.stdin:
    key, value, *headers = line.rstrip("\n").split("\t")
    producer.produce(
        topic,
        value or None,
        key or None,
        headers=[tuple(header.split("=", 1)) for header in headers],
        on_delivery=lambda error, record: failures.append(error) if error else None,
    )
    producer.poll(0)

producer.flush()
if failures:
    sys.exit(f"{len(failures)} records were not written: {failures[0]}")
