"""The topics of the example: their schemas, and the ids that messages name them by."""

from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import yaml

from sowline.codecs.schema import Schema
from sowline.registry.client import Registry

HERE = Path(__file__).parent
VERSIONS = {1: (HERE / "order-1.avsc").read_text(), 2: (HERE / "order-2.avsc").read_text()}
"""The versions of the Avro schema. The reader schema is the second one."""


class ExampleTopics(NamedTuple):
    """A file of topics, and the ids of the versions of the Avro schema."""

    config: Path
    ids: dict[int, int]


def without_registry() -> ExampleTopics:
    """Return the topics as their file defines them: it has all schemas and their ids."""
    return ExampleTopics(HERE / "topics.yaml", {1: 1, 2: 2})


def with_registry(url: str, directory: Path) -> ExampleTopics:
    """Register the schemas, and define the topics in a directory with the ids that the registry gives.

    Raises SowlineError if the registry does not answer, or refuses a schema.
    """
    with closing(Registry(url)) as registry:
        ids = {
            version: registry.register("orders-value", Schema("avro", text))
            for version, text in VERSIONS.items()
        }
        proto = Schema("protobuf", (HERE / "order.proto").read_text())
        proto_id = registry.register("orders.protobuf-value", proto)
    content = yaml.safe_load((HERE / "topics.yaml").read_text())
    avro, protobuf = content["topics"]
    del avro["schemas"]
    for topic, schema_id in ((avro, ids[2]), (protobuf, proto_id)):
        reader = topic["reader_schema"]
        topic["reader_schema"] = {"file": str(HERE / reader["file"]), "id": schema_id}
    config = directory / "topics.yaml"
    config.write_text(yaml.safe_dump(content))
    return ExampleTopics(config, ids)
