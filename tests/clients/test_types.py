"""`sowline types`: what TypeScript makes of the interfaces, and the section of docs/typescript.md."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sowline.cli.schema_typescript import typescript_of_schema
from sowline.cli.typescript import NAMES_MAX, typescript_of
from sowline.client.client import Client
from sowline.codecs.codec import codec_of
from sowline.codecs.schema import AVRO, PROTOBUF, Schema
from tests.clients.typescript import PACKAGE, run, served_topic
from tests.docs.pages import blocks_of
from tests.docs.terminal import commands_of
from tests.integration.services import Service

pytestmark = [pytest.mark.needs("node"), pytest.mark.usefixtures("package")]

PAGE = "docs/typescript.md"
COMPILE = (
    *("npx", "tsc", "--strict", "--exactOptionalPropertyTypes", "--noEmit"),
    *("--target", "es2022", "--module", "nodenext", "--types", "node", "--skipLibCheck"),
)

MAPS = [{"v": {f"s{number}": number}} for number in range(NAMES_MAX + 1)]
NAMES = dict.fromkeys(("new", "1a", "a-b", "größe", '"\\', "*/ //", "\n\u2028", "😀", ""), 1)

SAMPLES: list[tuple[list[dict[str, Any]], list[dict[str, Any]]]] = [
    ([{"v": "a"}], [{}, {"v": 1}, {"v": None}, {"v": "a", "w": 1}]),
    ([{"v": 1}, {"v": 2**63}, {"v": -1.5}], [{"v": "1"}]),
    ([{"v": True}, {"v": None}], [{"v": 0}, {"v": "true"}]),
    ([{"v": 1}, {}], [{"v": "a"}, {"v": None}]),
    ([{"v": [1, "a", None]}, {"v": []}], [{"v": [True]}, {"v": 1}, {"v": [[1]]}]),
    ([{"v": [[1], [{"w": 1}]]}], [{"v": [1]}, {"v": [[{"w": "a"}]]}, {"v": [[{}]]}]),
    (
        [{"v": {"w": {"x": 1}}}, {"v": {}}, {"v": None}],
        [{"v": {"w": {}}}, {"v": {"w": None}}, {"v": {"y": 1}}],
    ),
    ([{"v": {}}, {"v": 1}], [{"v": "a"}, {"v": None}, {"v": True}]),
    ([*MAPS, {"v": {}}], [{"v": {"s1": "a"}}, {"v": {"s1": None}}]),
    ([NAMES], [{**NAMES, name: "a"} for name in NAMES]),
]
"""Records, and others that their interface must refuse."""

AVRO_ORDER = json.dumps(
    {
        "type": "record",
        "name": "shop.Order",
        "doc": "Ends */ here",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "status", "type": {"type": "enum", "name": "Status", "symbols": ["OPEN", "DONE"]}},
            {"name": "price", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 9}]},
            {"name": "legs", "type": {"type": "array", "items": ["null", "Order"]}},
            {"name": "tags", "type": {"type": "map", "values": "double"}},
            {"name": "empty", "type": {"type": "record", "name": "Record", "fields": []}},
        ],
    }
)
ORDER = {"id": 2**63 - 1, "status": "OPEN", "price": "5", "legs": [None], "tags": {"a": "NaN"}, "empty": {}}

PROTOBUF_ORDER = """
syntax = "proto3";
message Order { int64 id = 1; repeated Order legs = 2; map<string, int32> n = 3; optional bool paid = 4; }
"""
ANY_ORDER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "pair": {"prefixItems": [{"type": "string"}, {"enum": [1, None]}], "minItems": 1, "items": False},
        "tree": {"$ref": "#/$defs/tree"},
    },
    "required": ["id"],
    "oneOf": [{"required": ["pair"]}, {"required": ["tree"]}],
    "$defs": {"tree": {"type": ["array", "string"], "items": {"$ref": "#/$defs/tree"}}},
}

SCHEMAS: list[tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, Any]]]] = [
    (
        codec_of(Schema(AVRO, AVRO_ORDER)).described(),
        [ORDER, {**ORDER, "price": None, "legs": [ORDER]}],
        [
            {**ORDER, "status": "GONE"},
            {**ORDER, "price": 5},
            {**ORDER, "legs": [{}]},
            {**ORDER, "tags": {"a": "b"}},
            {**ORDER, "empty": {"a": 1}},
            {**ORDER, "more": 1},
            {key: ORDER[key] for key in ORDER if key != "price"},
        ],
    ),
    (
        codec_of(Schema(PROTOBUF, PROTOBUF_ORDER)).described(),
        [{"id": 1, "legs": [], "n": {}}, {"id": 1, "legs": [], "n": {"a": 1}, "paid": True}],
        [{"id": 1, "legs": [], "n": {}, "paid": None}, {"id": 1, "legs": [{"id": 1}], "n": {}}],
    ),
    (
        ANY_ORDER,
        [
            {"id": "a", "pair": ["b"], "more": 1},
            {"id": "a", "pair": ["b", None], "tree": [["c"], "d"]},
            {"id": "a", "tree": "e"},
        ],
        [{"id": "a"}, {"id": 1, "tree": "e"}, {"id": "a", "pair": ["b", 2]}, {"id": "a", "tree": [1]}],
    ),
]
"""Schemas, records that they describe, and others that the interface must refuse."""


def test_interfaces_fit_their_samples_and_nothing_else() -> None:
    """The compiler accepts each record of a sample, and refuses records that differ from all of them."""
    modules = []
    for number, (sample, others) in enumerate(SAMPLES):
        bodies = [json.dumps(record).encode() for record in sample]
        modules.append(typescript_of("orders", f"T{number}", bodies) + checks(f"T{number}", sample, others))
    compile_all(*modules)


def test_interfaces_fit_their_schemas() -> None:
    """The compiler accepts records of a schema, and refuses others."""
    compile_all(
        *(
            typescript_of_schema("orders", "Order", schema) + checks("Order", records, others)
            for schema, records, others in SCHEMAS
        )
    )


def checks(name: str, records: list[dict[str, Any]], others: list[dict[str, Any]]) -> str:
    """Return statements that the compiler accepts if a type has these records, and none of the others."""
    lines = [f"({json.dumps(record)}) satisfies {name};" for record in records]
    for record in others:
        lines += ["// @ts-expect-error", f"({json.dumps(record)}) satisfies {name};"]
    return "\n".join(lines)


def compile_all(*modules: str) -> None:
    """Compile modules."""
    programs = [PACKAGE / "build" / f"types{number}.ts" for number in range(len(modules))]
    for program, module in zip(programs, modules, strict=True):
        program.write_text(module)
    run(*COMPILE, *map(str, programs))


@pytest.fixture
def service(kafka: str, tmp_path: Path) -> Iterator[tuple[Service, str]]:
    """A query service and its topic, which has no records."""
    with served_topic(kafka, tmp_path) as served:
        yield served


def test_the_section_of_types(service: tuple[Service, str]) -> None:
    """The records of the page have the interface that it shows, and its program compiles with that."""
    query, topic = service
    blocks = [block for block in blocks_of(PAGE) if block.elsewhere.endswith("::test_the_section_of_types")]
    terminal, program = (block.text for block in blocks)
    publish, types = commands_of(terminal)
    arguments = shlex.split(publish.text)
    assert arguments[:3] == ["sowline", "publish", "orders"]
    with Client(query.url) as client:
        client.publish_all(topic, arguments[3:])
    command = types.text.replace("orders", topic)
    environment = os.environ | {
        "SOWLINE_URL": query.url,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    done = subprocess.run(["sh", "-c", command], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.replace(topic, "orders").strip() == types.output
    build = PACKAGE / "build"
    (build / "orders.ts").write_text(done.stdout)
    (build / "openOrders.ts").write_text(program)
    run(*COMPILE, str(build / "openOrders.ts"))
