"""The JSON Schemas for editors: what users write is valid, and what a model refuses is mostly not."""

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from contract.files import ACCESS, PIPELINE, ROOT, TOPICS
from tests.docs.pages import PAGES, blocks_of, tracked

OF_FILES = {"topics": TOPICS, "pipeline": PIPELINE, "access": ACCESS}


@cache
def validator(kind: str) -> Draft202012Validator:
    """Return the validator of a kind of file."""
    schema = json.loads(OF_FILES[kind].read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def errors(kind: str, content: Any) -> list[str]:
    """Return what an editor marks in a file."""
    return [f"{error.json_path}: {error.message}" for error in validator(kind).iter_errors(content)]


class Yaml(yaml.SafeLoader):
    """Reads YAML as editors do: in version 1.2, `on` is a text."""


Yaml.yaml_implicit_resolvers = {
    first: [one for one in resolvers if one[0] != "tag:yaml.org,2002:bool"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
Yaml.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("true|false"), list("tf"))


def kind_of(content: Any) -> str:
    """Return which kind of file this is; empty for other YAML."""
    if not isinstance(content, dict):
        return ""
    if content.keys() & {"topics", "views", "fanouts", "conflated"}:
        return "topics"
    if "sources" in content:
        return "pipeline"
    return "access" if content.keys() & {"roles", "tokens", "jwt"} else ""


def written() -> Iterator[tuple[str, str, Any]]:
    """Yield each file of these kinds in the repository, and each block of a page, with its kind and content."""
    for path in tracked("deploy/*.yaml", "examples/**.yaml"):
        content = next(yaml.load_all((ROOT / path).read_text(encoding="utf-8"), Yaml))
        if kind := kind_of(content):
            yield path, kind, content
    for block in (block for page in PAGES for block in blocks_of(page) if block.language == "yaml"):
        content = yaml.load(block.text, Yaml) if "---" not in block.text else None
        if kind := kind_of(content):
            yield block.location, kind, content


WRITTEN = list(written())


@pytest.mark.parametrize(("location", "kind", "content"), WRITTEN, ids=[one[0] for one in WRITTEN])
def test_what_is_written_is_valid(location: str, kind: str, content: Any) -> None:
    """All examples; a page may show a part of `topics.yaml` without its topics."""
    if kind == "topics":
        content = {"topics": [{"name": "orders", "key": ["/id"]}], **content}
    if kind == "pipeline":
        content = {"name": "some", "topic": "orders", "key": ["id"], "checkpoint": "some", **content}
    assert errors(kind, content) == []


def test_there_are_examples_of_each_kind() -> None:
    """Files, and blocks of pages."""
    assert {kind for _, kind, _ in WRITTEN} == OF_FILES.keys()
    assert {"deploy/config/topics.yaml", "examples/flights/pipeline.yaml"} <= {path for path, _, _ in WRITTEN}


TOPIC = {"name": "orders", "key": "/id"}
PIPE = {
    "name": "orders",
    "topic": "orders",
    "key": "id",
    "checkpoint": "there",
    "sources": {"raw": {"kafka": "raw", "format": "parquet"}},
}


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("topics", {"topics": [TOPIC | {"partitions": "${PARTITIONS:-2}", "delta": "${DELTA}"}]}),
        (
            "topics",
            {"topics": [TOPIC | {"key": {"from": "header"}, "expiration": "30s", "repeat_window": "1.5h"}]},
        ),
        ("topics", {"topics": [TOPIC | {"key": {"generator": "mine"}, "key_domain": 7}]}),
        (
            "topics",
            {"topics": [TOPIC | {"message_type": "avro", "reader_schema": {"file": "a.avsc", "id": 7}}]},
        ),
        ("topics", {"topics": [{"name": "orders", "sow": False}]}),
        ("pipeline", PIPE | {"rows_per_second": 2.5}),
        (
            "pipeline",
            PIPE | {"sources": {"raw": {"directory": "in", "format": "csv", "options": {"comment": 1}}}},
        ),
        ("access", {"jwt": {"issuer": "me", "audience": "you", "jwks": "keys.json"}, "anonymous": ["all"]}),
    ],
)
def test_forms_that_models_accept(kind: str, content: Any) -> None:
    """Variables, one text for a list of one, a file for a text, and numbers where any text may be."""
    assert errors(kind, content) == []


@pytest.mark.parametrize(
    ("kind", "content", "location"),
    [
        ("topics", {}, "$"),
        ("topics", {"topics": [{"key": "/id"}]}, "$.topics[0]"),
        ("topics", {"topics": [TOPIC | {"partition": 2}]}, "$.topics[0]"),
        ("topics", {"topics": [TOPIC | {"partitions": 0}]}, "$.topics[0].partitions"),
        ("topics", {"topics": [TOPIC | {"repeat_window": "soon"}]}, "$.topics[0].repeat_window"),
        ("topics", {"topics": [TOPIC | {"repeat_window": 7}]}, "$.topics[0].repeat_window"),
        ("topics", {"topics": [TOPIC | {"history": None}]}, "$.topics[0].history"),
        (
            "topics",
            {"topics": [TOPIC | {"reader_schema": {"text": "a", "file": "b"}}]},
            "$.topics[0].reader_schema",
        ),
        ("pipeline", PIPE | {"sources": {}}, "$.sources"),
        ("access", {"tokens": [{"user": "me"}]}, "$.tokens[0]"),
        ("access", {"roles": {"desk": {"reads": []}}}, "$.roles.desk"),
    ],
)
def test_what_is_marked(kind: str, content: Any, location: str) -> None:
    """An editor marks a wrong value where it is."""
    assert [error.partition(": ")[0] for error in errors(kind, content)] == [location]


def test_fields_are_described() -> None:
    """So that an editor shows what a field is for."""
    topic = json.loads(Path(TOPICS).read_text(encoding="utf-8"))["$defs"]["DeclaredTopic"]["properties"]
    assert topic["recovery_point"]["description"] == "where a transient topic begins when the service starts"
    assert topic["key"]["description"].startswith("fields")


@pytest.mark.parametrize("kind", OF_FILES)
def test_every_field_is_described(kind: str) -> None:
    """An editor says what each field is: its own description, or that of what it refers to."""
    schema = json.loads(OF_FILES[kind].read_text(encoding="utf-8"))
    owners = {kind: schema, **schema["$defs"]}
    described = {
        f"{owner}.{field}": "description" in {**schema["$defs"].get(about.get("$ref", "")[8:], {}), **about}
        for owner, definition in owners.items()
        for field, about in definition.get("properties", {}).items()
    }
    assert len(described) > 20
    assert [field for field, is_described in described.items() if not is_described] == []
