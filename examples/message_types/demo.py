"""Starts everything on this machine, writes orders in two message types, and prints what a dashboard gets."""

import io
import json
import os
import tempfile
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

import fastavro
from confluent_kafka import Producer

from examples.message_types.definition import VERSIONS, with_registry, without_registry
from examples.running import ExampleStack, running
from sowline import Client, Message, SowlineError

FLUSH_S_MAX = 30.0

Order = dict[str, Any]


class AvroProducer:
    """A producer that knows nothing of Sowline: it writes orders in Avro, in Confluent's wire format."""

    def __init__(self, kafka: str, ids: dict[int, int]) -> None:
        self._producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True})
        self._ids = ids
        self._schemas = {
            version: fastavro.parse_schema(json.loads(text)) for version, text in VERSIONS.items()
        }

    def write(self, version: int, order: Order, **headers: str) -> None:
        """Write an order under a version of the schema, and wait for Kafka's acknowledgement."""
        data = io.BytesIO()
        fastavro.schemaless_writer(data, self._schemas[version], order)
        message = b"\0" + self._ids[version].to_bytes(4, "big") + data.getvalue()
        named: dict[str, str | bytes | None] = {f"sow.{name}": value for name, value in headers.items()}
        self._producer.produce("orders", message, str(order["id"]), headers=named)
        if self._producer.flush(FLUSH_S_MAX):
            raise SowlineError("kafka away", f"expected Kafka to take an order in {FLUSH_S_MAX:.0f} s")


def run(stack: ExampleStack, ids: dict[int, int]) -> None:
    """Write orders, and print what a subscription to the open ones gets of each."""
    producer = AvroProducer(stack.kafka, ids)
    with Client(stack.url, kafka=stack.kafka) as client:
        dashboard = client.sow_and_subscribe("orders", filter="/state = 'open'", options="oof")
        print("the dashboard begins: there are no orders yet")
        show(islice(dashboard, 2))

        print("version 1 of the schema has no state: readers get its default")
        producer.write(1, {"id": 1, "customer": "Ann", "qty": 100})
        producer.write(1, {"id": 2, "customer": "Bo", "qty": 5})
        show(islice(dashboard, 2))

        print("version 2 has it, and the subscription goes on")
        producer.write(2, {"id": 3, "customer": "Cy", "qty": 20, "state": "open"})
        producer.write(2, {"id": 1, "customer": "Ann", "qty": 100, "state": "filled"})
        show(islice(dashboard, 2))

        print("a delta of /qty, from a producer that still has version 1")
        delta = {"id": 2, "customer": "", "qty": 7}
        producer.write(1, delta, command="delta_publish", fields="/id,/qty")
        show(islice(dashboard, 1))

        print("orders in Protobuf are a topic of their own")
        client.publish("orders.protobuf", {"id": 1, "customer": "Di", "qty": 30}, wait=True)
        client.delta_publish("orders.protobuf", {"id": 1, "state": "filled"}, wait=True)
        show(client.sow("orders.protobuf"))

        print("the view at the end")
        show(client.sow("orders", order_by="/id"))


def show(messages: Iterable[Message]) -> None:
    """Print the command of each message, and its record if it has one."""
    for message in messages:
        print(f"  {message.command:<11} {json.dumps(message.data) if message.data else ''}".rstrip())


def main() -> None:
    """Run the example with the registry in SOWLINE_REGISTRY, or without one."""
    registry = os.environ.get("SOWLINE_REGISTRY")
    with tempfile.TemporaryDirectory(prefix="sowline-orders-", ignore_cleanup_errors=True) as made:
        directory = Path(made)
        try:
            defined = with_registry(registry, directory) if registry else without_registry()
            with running(defined.config, directory) as stack:
                run(stack, defined.ids)
        except SowlineError as error:
            raise SystemExit(str(error)) from None
