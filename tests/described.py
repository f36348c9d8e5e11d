"""Checks what clients and services send against the protocol description in docs/protocol."""

import json
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator

from deploy.protocol.files import FRAMES
from deploy.protocol.frames import request_name

Json = dict[str, Any]


@cache
def frames() -> Json:
    """Return the schema of frames, as it is in the repository."""
    schema: Json = json.loads(FRAMES.read_text(encoding="utf-8"))
    return schema


def checked_request(request: Json) -> Json:
    """Return a command of a client; fail if it is not as the description has it."""
    return _checked(request_name(request["command"]), request)


def checked_message(message: Json) -> Json:
    """Return a message of a service; fail if it is not as the description has it."""
    return _checked(message_name(message), message)


def message_name(message: Json) -> str:
    """Return the name of the schema of a message."""
    if message["command"] == "ack":
        return "AckFailure" if message["status"] == "failure" else _ACKS.get(message["ack_type"], "AckSuccess")
    return "".join(map(str.capitalize, message["command"].split("_")))


_ACKS = {"stats": "AckStats"}


def _checked(name: str, value: Json) -> Json:
    assert name in frames()["$defs"], f"{name} is not described: {value}"
    errors = [f"{error.json_path}: {error.message}" for error in _validator(name).iter_errors(value)]
    assert not errors, f"{name}: {'; '.join(errors)}\nin {json.dumps(value)}"
    return value


@cache
def _validator(name: str) -> Draft202012Validator:
    defs = frames()["$defs"]
    return Draft202012Validator({**defs[name], "$defs": defs})
