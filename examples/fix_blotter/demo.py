"""Starts everything on this machine, writes FIX orders and NVFIX executions, and prints what two clients show."""

import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer

from examples.fix_blotter.fix import fix, nvfix, shown
from examples.running import ExampleStack, running
from sowline import Client, SowlineError

HERE = Path(__file__).parent
SECONDS_MAX = 60.0


def run(stack: ExampleStack) -> None:
    """Write orders and executions, and print what clients and readers of Kafka get."""
    desk = Desk(stack.kafka)
    with (
        Client(stack.url, kafka=stack.kafka) as client,
        client.local_view("blotter", order_by="/ClOrdID") as view,
    ):
        print("two orders, and an execution of the first")
        desk.order(
            "A1", (55, "IBM"), (54, "1"), (38, "500"), (44, "185.50"), (453, "1"), (448, "ACME"), (452, "3")
        )
        desk.order("A2", (55, "MSFT"), (54, "2"), (38, "2000"), (44, "410"))
        desk.execution("E1", "A1", "200", "185.25")
        view.wait_for(lambda view: [row["filled"] for row in view.values()] == [200, 0], SECONDS_MAX)
        for row in view.values():
            print(f"  {json.dumps(row)}")

        print("a delta of tag 38, and two more executions")
        desk.delta("A1", (38, "600"))
        desk.execution("E2", "A1", "300", "185.50")
        desk.execution("E3", "A2", "2000", "410.10")
        view.wait_for(
            lambda view: (
                [(row["quantity"], row["filled"]) for row in view.values()] == [(600, 500), (2000, 2000)]
            ),
            SECONDS_MAX,
        )
        rows = list(view.values())
        for row in rows:
            print(f"  {json.dumps(row)}")

        print(f"the TypeScript client shows {in_typescript(stack.url, rows)}")

        print("the first order, as FIX")
        for message in client.sow("orders", filter="/ClOrdID = 'A1'", options="format=native"):
            if message.command == "sow":
                print(f"  {shown(message.data)}")

    print("a consumer of the fanout gets FIX")
    print(f"  {shown(read_one(stack.kafka, 'fanout.open-orders'))}")


class Desk:
    """A producer that knows nothing of Sowline."""

    def __init__(self, kafka: str) -> None:
        self._producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True})

    def order(self, number: str, *fields: tuple[int, str]) -> None:
        """Write a whole order."""
        self._write("orders", fix((35, "D"), (49, "DESK"), (11, number), *fields), number)

    def delta(self, number: str, *fields: tuple[int, str]) -> None:
        """Write a change of some fields of an order."""
        self._write("orders", fix((35, "D"), (11, number), *fields), number, command="delta_publish")

    def execution(self, number: str, order: str, quantity: str, price: str) -> None:
        """Write an execution."""
        self._write("executions", nvfix(ExecID=number, ClOrdID=order, LastQty=quantity, LastPx=price), number)

    def _write(self, topic: str, message: bytes, key: str, **headers: str) -> None:
        named: dict[str, str | bytes | None] = {f"sow.{name}": value for name, value in headers.items()}
        self._producer.produce(topic, message, key, headers=named)
        if self._producer.flush(SECONDS_MAX):
            raise SowlineError("kafka away", f"expected Kafka to take a message in {SECONDS_MAX:.0f} s")


def in_typescript(url: str, rows: list[dict[str, Any]]) -> str:
    """Return how the rows of the TypeScript client compare with those of the Python client."""
    node = shutil.which("node")
    if node is None:
        return "nothing: Node is not installed"
    filled = str(sum(row["filled"] for row in rows))
    command = [node, "--experimental-websocket", "--no-warnings", str(HERE / "view.mjs"), url, filled]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=True)
    return "the same rows" if list(map(json.loads, done.stdout.splitlines())) == rows else done.stdout


def read_one(kafka: str, topic: str) -> bytes:
    """Return the first message of a Kafka topic."""
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": "blotter", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        [message] = consumer.consume(1, SECONDS_MAX)
    finally:
        consumer.close()
    return message.value() or b""


def main() -> None:
    """Run the example."""
    with (
        tempfile.TemporaryDirectory(prefix="sowline-blotter-", ignore_cleanup_errors=True) as made,
        running(HERE / "topics.yaml", Path(made)) as stack,
    ):
        try:
            run(stack)
        except SowlineError as error:
            raise SystemExit(str(error)) from None
