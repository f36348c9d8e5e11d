"""The protocol description: made from the types of the protocol, valid, and complete."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import yaml
from jsonschema import Draft7Validator, Draft202012Validator
from openapi_spec_validator import validate
from starlette.routing import Route

from contract import message_types
from contract.field_docs import docs_of, without_links
from contract.files import ASYNCAPI, generated
from contract.frames import DEFS
from contract.schemas import schemas_of
from contract.tables import with_tables
from contract.typescript import typescript
from sowline.config.settings import Settings
from sowline.serving.app import Server
from sowline.serving.query_slots import QuerySlots
from sowline.subscriptions.ask import Ask
from sowline.wire.client_message import Received
from sowline.wire.command_fields import FIELDS, NODE_FIELDS, OF_ALL
from sowline.wire.options import FORMS, Options
from sowline.wire.request_fields import COMMANDS, RequestFields
from sowline_gateway.server.http_api import GatewayHttpApi
from sowline_query_service.server.server import server_of
from tests.described import checked_message, checked_request, frames, http

ASYNCAPI_SCHEMA = Path(__file__).parent / "data" / "asyncapi-3.0.0.json"
"""The schema of AsyncAPI 3.0.0 (npm: @asyncapi/specs 6.11.1, Apache-2.0), without bindings and descriptions."""


@pytest.mark.parametrize("path", generated(), ids=lambda path: path.name)
def test_the_files_are_made_from_the_types(path: Path) -> None:
    """`python -m contract` writes them."""
    assert path.read_text(encoding="utf-8") == generated()[path]


def test_the_descriptions_are_valid() -> None:
    """Each by the schema of its own standard."""
    Draft202012Validator.check_schema(frames())
    for one in frames()["$defs"].values():
        assert one.get("description")
    validate(http())
    async_schema = json.loads(ASYNCAPI_SCHEMA.read_text(encoding="utf-8"))
    described = yaml.safe_load(ASYNCAPI.read_text(encoding="utf-8"))
    assert list(Draft7Validator(async_schema).iter_errors(described)) == []
    assert list(Draft7Validator(async_schema).iter_errors(described | {"channels": {"x": {"y": 1}}})) != []


def test_asyncapi_refers_to_the_frames() -> None:
    """Each payload is a schema that exists, and each command and message has one."""
    described = yaml.safe_load(ASYNCAPI.read_text(encoding="utf-8"))
    payloads = [one["payload"]["$ref"] for one in described["components"]["messages"].values()]
    names = {payload.removeprefix("./frames.schema.json#/$defs/") for payload in payloads}
    assert names <= frames()["$defs"].keys()
    assert {part["$ref"].rpartition("/")[2] for part in frames()["$defs"]["ClientMessage"]["anyOf"]} <= names


def test_every_field_of_a_request_is_of_a_command() -> None:
    """A field that only gateways set is of none; the description has no field that a request lacks."""
    assert FIELDS.keys() == set(COMMANDS)
    of_commands = [{*fields.needed, *fields.used} for fields in (*FIELDS.values(), OF_ALL)]
    assert set.union(*of_commands) | set(NODE_FIELDS) == set(RequestFields.__struct_fields__)
    assert not set.union(*of_commands) & set(NODE_FIELDS)
    assert all(not set(fields.needed) & set(fields.used) for fields in FIELDS.values())


def test_every_option_has_a_form() -> None:
    """And every form is of an option."""
    assert FORMS.keys() == {*Options.__dataclass_fields__, "reset"}
    assert docs_of(Options).keys() == Options.__dataclass_fields__.keys()


def test_the_python_client_reads_what_is_described() -> None:
    """The client knows no field that a service never sends."""
    described = schemas_of(message_types, DEFS).values()
    sent = {field for one in described for field in one["properties"]}
    assert set(Received.__struct_fields__) <= sent


def test_the_python_client_sends_what_is_described() -> None:
    """With every field that a caller may give."""
    for command in ("sow", "subscribe", "sow_and_subscribe", "delta_subscribe", "sow_and_delta_subscribe"):
        ask = Ask(
            command,
            "orders",
            "/a = 1",
            options="oof",
            bookmark=["epoch", "now"],
            up_to="" if command == "sow" else "now",
            batch_size=10,
            order_by="/a",
            top_n=2,
            skip_n=1,
            sow_keys=("1", "2"),
            condition="{..}",
            at_least="orders:0@1",
            max_staleness="1s",
        )
        assert "max_staleness" in checked_request(ask.request("1"))
        if command != "sow":
            assert "sub_id" in checked_request(ask.replacement_request("1", "2"))


@pytest.mark.parametrize(
    "message",
    [
        {"command": "heartbeat", "other": 1},
        {"command": "group_end", "topic": "orders", "bookmark": "orders:0@1"},
        {"command": "oof", "sids": ["1"], "topic": "o", "bookmark": "o:0@1", "data": {}, "reason": "other"},
        {"command": "ack", "ack_type": "processed", "status": "success", "reason": "busy"},
        {"command": "other"},
    ],
)
def test_what_is_not_described_is_refused(message: dict[str, Any]) -> None:
    """An unknown message, an unknown field, one that is missing, another value."""
    with pytest.raises(AssertionError):
        checked_message(message)


@pytest.mark.parametrize(
    "request_",
    [
        {"command": "sow"},
        {"command": "sow", "topic": "orders", "merges": True},
        {"command": "sow", "topic": "orders", "ack_type": "persisted"},
        {"command": "delta", "topic": "orders", "key": "1", "data": {}},
    ],
)
def test_a_request_that_is_not_described_is_refused(request_: dict[str, Any]) -> None:
    """A field of gateways, an acknowledgement that the command has not, another kind of data."""
    with pytest.raises(AssertionError):
        checked_request(request_)


def _paths(server: Server) -> set[tuple[str, str]]:
    """Return the methods and paths below `/v1` that an application has, as the description writes them."""
    found = set()
    for route in server._inner.routes:
        if isinstance(route, Route) and route.path.startswith("/v1"):
            path = route.path.replace(":path}", "}").replace(":int}", "}")
            found |= {(method.lower(), path) for method in route.methods or () if method != "HEAD"}
    return found


def test_every_route_is_described() -> None:
    """Of a query service and of a gateway; the route of a record also has its timeline."""
    described = {(method, path) for path, of in http()["paths"].items() for method in of}
    without_timeline = described - {("get", "/v1/topics/{topic}/records/{key}/timeline")}
    unused = cast(
        "Any", SimpleNamespace(state=SimpleNamespace(definitions={}), nodes=SimpleNamespace(topics={}))
    )
    unused.kafka, unused.slots = {}, QuerySlots()
    unused.writes = SimpleNamespace(destination=SimpleNamespace(topics={}))
    assert _paths(server_of(Settings(), unused, unused)) == without_timeline
    gateway = Server(
        Settings(),
        unused,
        lambda rates, backlogs: GatewayHttpApi(Settings(), unused, rates, backlogs).routes,
        unused,
    )
    assert _paths(gateway) == without_timeline


def test_docstrings_of_fields() -> None:
    """Those of the bases come first, and links are only for pages."""
    assert next(iter(docs_of(RequestFields))) == "command"
    assert without_links("see [a page](page.md#part), `x`") == "see a page, `x`"


def test_types_of_unknown_schemas_are_refused() -> None:
    """The writer of types knows the keywords that the schema uses, and guesses no others."""
    with pytest.raises(ValueError, match="of a known kind"):
        typescript({"$defs": {"Odd": {"description": "Odd.", "not": {}}}})


def test_a_page_without_the_tables_is_refused() -> None:
    """Nothing is written where the comments around a table are gone."""
    with pytest.raises(ValueError, match="protocol commands"):
        with_tables("no tables", frames())
