"""Programs that write typed orders with the serializers of others: those that docs/producers.md shows."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from grpc_tools import protoc

from sowline.runtime.jars import JarSet, retrieve
from sowline.runtime.java import find_java
from tests.integration.producers.programs import SOURCES, run

APICURIO = JarSet(
    "apicurio-registry-serdes-avro-serde-2.6.13.Final",
    (("io.apicurio", "apicurio-registry-serdes-avro-serde", "2.6.13.Final"),),
)
"""Apicurio's serializer, with Kafka's client: 25 MB."""


class SerdeProgram(NamedTuple):
    """A program with a serializer, and the type and the framing of the messages that it writes."""

    source: str
    type: str
    framing: str = "confluent"

    def write(self, kafka: str, topic: str, registry: str, lines: Sequence[str], directory: Path) -> None:
        """Write orders to a topic: a line has the key, the order and headers, with tabs between them.

        `registry` is the URL of Apicurio's, without a path. The program registers its schema.
        """
        if self.source.endswith(".java"):
            jars = os.pathsep.join(map(str, retrieve(APICURIO)))
            java = [str(find_java()), "-XX:TieredStopAtLevel=1", "-cp", jars, str(SOURCES / self.source)]
            command = [*java, kafka, topic, f"{registry}/apis/registry/v2", self.framing]
        else:
            _compile(directory)
            program = ["env", f"PYTHONPATH={directory}", sys.executable, str(SOURCES / self.source)]
            command = [*program, kafka, topic, f"{registry}/apis/ccompat/v7", self.type]
        run(command, directory, "".join(f"{line}\n" for line in lines))


SERDE_PROGRAMS = {
    "java": SerdeProgram("SerdeOrders.java", "avro"),
    "java-apicurio": SerdeProgram("SerdeOrders.java", "avro", "apicurio"),
    "python-avro": SerdeProgram("serde_orders.py", "avro"),
    "python-json-schema": SerdeProgram("serde_orders.py", "json-schema"),
    "python-protobuf": SerdeProgram("serde_orders.py", "protobuf"),
}


def _compile(directory: Path) -> None:
    """Generate the Python module of `order.proto`."""
    failed = protoc.main(["protoc", f"-I{SOURCES}", f"--python_out={directory}", "order.proto"])
    assert not failed, "expected protoc to compile order.proto"
