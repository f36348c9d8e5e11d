"""`sowline schemas pull` and `check` against a real registry."""

import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import yaml

from sowline.codecs.schema import AVRO, Schema
from sowline.config.topics import load_topics
from sowline.registry.client import Registry

SKU = json.dumps({"type": "record", "name": "shop.Sku", "fields": [{"name": "code", "type": "string"}]})


def order(*fields: tuple[str, str]) -> Schema:
    """Return a schema with fields of these types, which refers to another."""
    named = [{"name": name, "type": type} for name, type in (*fields, ("sku", "shop.Sku"))]
    text = json.dumps({"type": "record", "name": "shop.Order", "fields": named})
    return Schema(AVRO, text, (("shop.Sku", SKU),))


def test_a_schema_is_pulled_and_checked(registry: str, prefix: str, tmp_path: Path) -> None:
    """What `pull` prints is a definition, of which `check` finds a later version that it can't read."""
    schema, subject = order(("id", "long")), f"{prefix}orders-value"
    with closing(Registry(registry)) as client:
        client.register(subject, order(("id", "int")))
        number = client.register(subject, schema)
    sowline = [str(Path(sys.executable).with_name("sowline")), "schemas"]

    def run(*arguments: str) -> tuple[int, str]:
        done = subprocess.run(
            [*sowline, *arguments, "--registry", registry], cwd=tmp_path, capture_output=True, text=True
        )
        assert done.stderr == ""
        return done.returncode, done.stdout

    code, pulled = run("pull", subject, "--directory", "schemas")
    assert code == 0
    defined = {"name": "orders", "key": "/id", "message_type": "avro", **yaml.safe_load(pulled)}
    (tmp_path / "topics.yaml").write_text(yaml.safe_dump({"topics": [defined]}))
    (topic,) = load_topics(tmp_path / "topics.yaml").topics
    assert topic.reader == schema
    assert topic.declared.reader_schema is not None
    assert (topic.declared.reader_schema.id, topic.declared.reader_schema.subject) == (number, subject)

    def checked() -> tuple[int, list[Any]]:
        code, shown = run("check", "orders")
        rows = [json.loads(line) for line in shown.splitlines()]
        return code, [(row["version"], row["readable"]) for row in rows]

    assert checked() == (0, [(1, True), (2, True)])
    with closing(Registry(registry)) as client:
        client.register(subject, order(("id", "string")))
    assert checked() == (1, [(1, True), (2, True), (3, False)])
