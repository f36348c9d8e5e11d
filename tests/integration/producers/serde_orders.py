"""`python serde_orders.py BOOTSTRAP TOPIC REGISTRY TYPE`: write the orders that standard input lists."""

import json
import sys

from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.json_format import ParseDict
from order_pb2 import Order

AVRO = """{"type": "record", "name": "Order", "fields": [
  {"name": "id", "type": "long"},
  {"name": "status", "type": "string"},
  {"name": "qty", "type": "int"}]}"""
JSON = """{"$schema": "http://json-schema.org/draft-07/schema#", "title": "Order", "type": "object",
  "properties": {"id": {"type": "integer"}, "status": {"type": "string"}, "qty": {"type": "integer"}},
  "required": ["id", "status", "qty"]}"""

bootstrap, topic, url, type = sys.argv[1:]
registry = SchemaRegistryClient({"url": url})
if type == "avro":
    serialize = AvroSerializer(registry, AVRO)
elif type == "json-schema":
    serialize = JSONSerializer(JSON, registry)
else:
    options = {"use.deprecated.format": False}
    serialize = ProtobufSerializer(Order, registry, options)

producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
failures: list[object] = []

for line in sys.stdin:
    key, value, *headers = line.rstrip("\n").split("\t")
    order = json.loads(value) if value else None
    if order is not None and type == "protobuf":
        order = ParseDict(order, Order())
    producer.produce(
        topic,
        serialize(order, SerializationContext(topic, MessageField.VALUE)),
        key,
        headers=[tuple(header.split("=", 1)) for header in headers],
        on_delivery=lambda error, record: failures.append(error) if error else None,
    )
    producer.poll(0)

producer.flush()
if failures:
    sys.exit(f"{len(failures)} records were not written: {failures[0]}")
