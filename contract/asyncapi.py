"""The AsyncAPI description of the WebSocket API and of event streams; the schemas are those of the frames."""

from collections.abc import Iterable

from contract.frames import request_name
from contract.schemas import Schema
from sowline.version import __version__
from sowline.wire.command_fields import FIELDS

_FRAMES = "./frames.schema.json#/$defs/"
_BINARY = "NativeFrame"


def asyncapi(frames: Schema) -> Schema:
    """Return the description, over the schema of the frames."""
    commands = {request_name(command): fields.about for command, fields in FIELDS.items()}
    of_service = {name: frames["$defs"][name]["description"] for name in _names(frames, "ServerMessage")}
    of_stream = {name: frames["$defs"][name]["description"] for name in _names(frames, "StreamMessage")}
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Sowline's WebSocket API and event streams",
            "version": __version__,
            "license": {"name": "Apache-2.0"},
            "description": (
                "Made by `python -m contract`. docs/api.md explains it."
                " A frame has one message, or an array of messages."
            ),
        },
        "defaultContentType": "application/json",
        "servers": {
            "websocket": {
                "host": "127.0.0.1:8080",
                "protocol": "ws",
                "description": "A service or a gateway.",
            },
            "http": {
                "host": "127.0.0.1:8080",
                "protocol": "http",
                "description": "The same, for event streams.",
            },
        },
        "channels": {
            "session": {
                "address": "/v1",
                "description": "One connection of a client.",
                "servers": [{"$ref": "#/servers/websocket"}],
                "messages": {name: _component(name) for name in (*commands, *of_service, _BINARY)},
            },
            "events": {
                "address": "/v1/topics/{topic}/subscribe",
                "description": "One subscription as Server-Sent Events; openapi.yaml has the parameters of its URL.",
                "servers": [{"$ref": "#/servers/http"}],
                "parameters": {"topic": {"description": "The topic, or a pattern of topics."}},
                "messages": {name: _component(name) for name in of_stream},
            },
        },
        "operations": {
            "command": _operation("receive", "session", "A client sends commands.", commands),
            "answer": _operation("send", "session", "A service sends messages.", [*of_service, _BINARY]),
            "stream": _operation("send", "events", "A service sends events.", of_stream),
        },
        "components": {
            "messages": {
                name: {"name": name, "summary": about, "payload": {"$ref": _FRAMES + name}}
                for name, about in {**commands, **of_service, **of_stream}.items()
            }
            | {_BINARY: _binary(frames)}
        },
    }


def _binary(frames: Schema) -> Schema:
    return {
        "name": _BINARY,
        "summary": frames["$defs"][_BINARY]["description"],
        "description": (
            "A binary frame: the length of the JSON in 4 bytes, big-endian; the JSON; then the records in the message"
            " types of their topics, in the order of the sizes in the JSON. For reads with `format=native`."
        ),
        "contentType": "application/octet-stream",
        "payload": {"$ref": _FRAMES + _BINARY},
    }


def _names(frames: Schema, union: str) -> list[str]:
    return [part["$ref"].rpartition("/")[2] for part in frames["$defs"][union]["anyOf"]]


def _component(name: str) -> Schema:
    return {"$ref": f"#/components/messages/{name}"}


def _operation(action: str, channel: str, summary: str, messages: Iterable[str]) -> Schema:
    return {
        "action": action,
        "channel": {"$ref": f"#/channels/{channel}"},
        "summary": summary,
        "messages": [{"$ref": f"#/channels/{channel}/messages/{name}"} for name in messages],
    }
