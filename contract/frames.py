"""The JSON Schema of the frames of the WebSocket API: every command of a client, every message of a service."""

import re
from typing import Any, get_type_hints

import msgspec

from contract import message_types
from contract.field_docs import docs_of, without_links
from contract.message_types import ACKS, MESSAGES, NATIVE_MESSAGES
from contract.schemas import Schema, schema_name, schemas_of
from sowline.wire.acks import SENT
from sowline.wire.command_fields import FIELDS, OF_ALL, CommandFields
from sowline.wire.options import FORMS, Options
from sowline.wire.request_fields import RequestFields, SowKeys

DIALECT = "https://json-schema.org/draft/2020-12/schema"
DEFS = "#/$defs/"

_DATA: dict[str, Schema] = {"delta": {"type": "string"}}
"""What a command has as `data`, where that is not a record."""


def frames_schema() -> Schema:
    """Return the schema."""
    requests = {request_name(command): _request(command, fields) for command, fields in FIELDS.items()}
    types = schemas_of(message_types, DEFS)
    messages = [schema_name(message) for message in MESSAGES]
    native = [schema_name(message) for message in NATIVE_MESSAGES]
    return {
        "$schema": DIALECT,
        "title": "Frames of Sowline's WebSocket API",
        "description": "Made by `python -m contract`. A frame is one message or an array of messages.",
        "anyOf": [_reference("ClientFrame"), _reference("ServerFrame")],
        "$defs": {
            "ClientFrame": _frame("ClientMessage", "What a client sends."),
            "ClientMessage": _any_of([*requests], "One command of a client, by its `command`."),
            "ServerFrame": _frame("ServerMessage", "What a service sends."),
            "ServerMessage": _any_of([*messages, "Ack"], "One message of a service, by its `command`."),
            "NativeFrame": _frame(
                "NativeMessage", "The JSON of a binary frame, which bodies of records follow."
            ),
            "NativeMessage": _any_of(
                [*native, "ServerMessage"],
                "One message in a binary frame, by its `command`, and `size` or `data`.",
            ),
            "StreamMessage": _any_of(
                ["GroupBegin", "Sow", "GroupEnd", "Publish", "Oof", "Progress", "Ack", "StreamFailure"],
                "The data of one event of an event stream, by its `command`.",
            ),
            "Ack": _any_of([*map(schema_name, ACKS)], "An acknowledgement, by its `status` and `ack_type`."),
            "Option": _option(),
            **requests,
            **types,
        },
    }


def request_name(command: str) -> str:
    """Return the name of the schema of a command."""
    return "".join(map(str.capitalize, command.split("_"))) + "Request"


def _request(command: str, fields: CommandFields) -> Schema:
    docs = docs_of(RequestFields)
    taken = {*OF_ALL.needed, *OF_ALL.used, *fields.needed, *fields.used}
    properties: dict[str, Schema] = {
        name: {**_field(command, name), "description": without_links(docs[name])}
        for name in RequestFields.__struct_fields__
        if name in taken
    }
    return {
        "type": "object",
        "description": fields.about,
        "properties": properties,
        "required": [name for name in properties if name in (*OF_ALL.needed, *fields.needed)],
        "additionalProperties": False,
    }


def _field(command: str, name: str) -> Schema:
    if name == "command":
        return {"const": command}
    if name == "ack_type":
        kinds = "|".join(SENT[command])
        return {"type": "string", "pattern": rf"^\s*({kinds})?\s*(,\s*({kinds})?\s*)*$"}
    if name == "data":
        return _DATA.get(command, {"type": "object"})
    return request_field(name)


def request_field(name: str) -> Schema:
    """Return the schema of a field of a request, as any command takes it."""
    schema: Schema = msgspec.json.schema(_HINTS[name], schema_hook=_sow_keys)
    return {key: value for key, value in schema.items() if key != "$schema"}


_HINTS = get_type_hints(RequestFields, include_extras=True)


def _sow_keys(kind: type) -> Schema:
    assert kind is SowKeys
    return {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}]}


def _option() -> Schema:
    docs = option_docs()
    return {
        "description": "One of the options of a command; `options` has them with commas between.",
        "anyOf": [
            {**_form(name, form), "description": without_links(docs[name])} for name, form in FORMS.items()
        ],
    }


def option_docs() -> dict[str, str]:
    """Return what each option does."""
    return {**docs_of(Options), "reset": "Short for `bookmark_not_found=reset`."}


def _form(name: str, form: str) -> Schema:
    return {"const": name} if form == name else {"type": "string", "pattern": f"^{re.escape(name)}="}


def _frame(message: str, description: str) -> Schema:
    return {
        "description": f"{description} One message, or an array of messages.",
        "anyOf": [_reference(message), {"type": "array", "items": _reference(message)}],
    }


def _any_of(names: list[str], description: str) -> Schema:
    return {"description": description, "anyOf": [_reference(name) for name in names]}


def _reference(name: str) -> dict[str, Any]:
    return {"$ref": DEFS + name}
