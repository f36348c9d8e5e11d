"""Checks what clients and services send against the protocol description in docs/protocol."""

import json
import re
from functools import cache
from typing import Any

import httpx2
import yaml
from jsonschema import Draft202012Validator

from contract.files import FRAMES, OPENAPI
from contract.frames import request_name
from contract.openapi import JSON
from sowline.serving.http.requests import NDJSON

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


def checked_native(message: Json) -> Json:
    """Return a message in the JSON of a binary frame; fail if it is not as the description has it."""
    name = message_name(message)
    return _checked(f"Native{name}" if name in _WITH_RECORDS else name, message)


def message_name(message: Json) -> str:
    """Return the name of the schema of a message."""
    if message["command"] == "ack":
        return (
            "AckFailure" if message["status"] == "failure" else _ACKS.get(message["ack_type"], "AckSuccess")
        )
    if message["command"] == "failure":
        return "StreamFailure"
    return "".join(map(str.capitalize, message["command"].split("_")))


_ACKS = {"stats": "AckStats"}
_WITH_RECORDS = ("Sow", "Publish", "Oof")


def _checked(name: str, value: Json) -> Json:
    assert name in frames()["$defs"], f"{name} is not described: {value}"
    errors = [f"{error.json_path}: {error.message}" for error in _validator(name).iter_errors(value)]
    assert not errors, f"{name}: {'; '.join(errors)}\nin {json.dumps(value)}"
    return value


@cache
def _validator(name: str) -> Draft202012Validator:
    defs = frames()["$defs"]
    return Draft202012Validator({**defs[name], "$defs": defs})


@cache
def http() -> Json:
    """Return the description of the HTTP API, as it is in the repository."""
    described: Json = yaml.safe_load(OPENAPI.read_text(encoding="utf-8"))
    return described


def check_answer(method: str, path: str, status: int, content_type: str, body: bytes) -> None:
    """Fail if an answer of the HTTP API is not as the description has it."""
    media_type, schema = content_type.partition(";")[0], _answer_schema(method, path, status)
    assert media_type in schema, f"{status} with {media_type} of {method} {path} is not described"
    if media_type in (JSON, NDJSON):
        checked = Draft202012Validator({**schema[media_type]["schema"], "components": http()["components"]})
        for line in body.splitlines() if media_type == NDJSON else [body]:
            errors = [
                f"{error.json_path}: {error.message}" for error in checked.iter_errors(json.loads(line))
            ]
            assert not errors, f"{method} {path}: {'; '.join(errors)}\nin {line.decode()}"


async def check_response(response: httpx2.Response) -> None:
    """Fail if the response of a client is not as the description has it."""
    path = response.request.url.raw_path.decode().partition("?")[0]
    content_type = response.headers.get("content-type", "")
    check_answer(response.request.method, path, response.status_code, content_type, await response.aread())


def _answer_schema(method: str, path: str, status: int) -> Json:
    """Return the content of the answer by media type."""
    responses = _responses(method, path)
    answer = (
        http()["components"]["responses"][f"Error{status}"]
        if responses is None
        else responses.get(str(status))
    )
    assert answer is not None, f"{status} of {method} {path} is not described"
    if "$ref" in answer:
        answer = http()["components"]["responses"][answer["$ref"].rpartition("/")[2]]
    content: Json = answer.get("content", {"": {}})
    return content


def _responses(method: str, path: str) -> Json | None:
    """Return the responses of a request; None if the API does not have it, and answers with an error."""
    for template, operations in http()["paths"].items():
        # The name of a topic may have slashes, a key in a path has none.
        pattern = re.sub(
            r"\\{(\w+)\\}", lambda name: ".+" if name[1] == "topic" else "[^/]+", re.escape(template)
        )
        if re.fullmatch(pattern, path) and method.lower() in operations:
            responses: Json = operations[method.lower()]["responses"]
            return responses
    return None
