"""The OpenAPI description of the HTTP API below `/v1`."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from contract import http_types, kafka_types, message_types
from contract.field_docs import docs_of, without_links
from contract.frames import request_field
from contract.schemas import Schema, schemas_of
from sowline.commands.command import DELTA, SOW_DELETE
from sowline.serving.http.requests import FRESHNESS, NDJSON, TIMELINE_PARAMETERS
from sowline.serving.http.tables import COLUMNS
from sowline.serving.http.tails import TAIL_PARAMETERS, TailKind
from sowline.serving.refusal import STATUSES
from sowline.serving.sessions import event_stream
from sowline.serving.tables.columns import EXPECTED
from sowline.serving.writes.delta_requests import KEY
from sowline.serving.writes.http_api import OWN_PARAMETERS, WRITES
from sowline.serving.writes.requests import PARAMETERS
from sowline.version import __version__
from sowline.wire.media_types import ARROW, NATIVE
from sowline.wire.request_fields import QUERY_FIELDS, RequestFields

JSON = "application/json"
COMPONENTS = "#/components/"
OF_TOPIC = "/v1/topics/{topic}"

_OWN_STATUSES = {
    400: "The request is wrong.",
    404: "There is no such thing.",
    405: "The path has no such method.",
    408: "The request did not arrive in time.",
}
_TEXT: Schema = {"type": "string"}
_BINARY: Schema = {"type": "string", "format": "binary"}
_NUMBER: Schema = {"type": "integer", "minimum": 0}
_INSTANT_HEADERS = {
    "Sowline-Bookmark": {"description": "The instant of the answer.", "schema": _TEXT},
    "Sowline-Lag-Seconds": {
        "description": "How far the answer is behind the log, if that is known.",
        "schema": {"type": "number"},
    },
}

_SUMMARIES = {
    "publish": "Writes records.",
    "delta_publish": "Merges fields into records.",
    "delta": "Changes documents by deltas.",
    "sow_delete": "Deletes records.",
}
_TAILS = {
    TailKind.LOG: "The newest messages of a topic's log.",
    TailKind.CHANGES: "The newest messages of a topic's changes.",
    TailKind.DEAD: "The newest dead letters of a topic.",
}

_ABOUT: dict[str, tuple[Schema, str]] = {
    "ack": (
        {"enum": ["persisted", "processed"]},
        "When to answer: once Kafka has everything (default), or once the service has applied it.",
    ),
    "expiration": ({"type": "number", "minimum": 0}, "The lifetime of the records in seconds; 0: for ever."),
    "correlation": (_TEXT, "A text that goes with the commands to subscribers."),
    "publisher": (
        _TEXT,
        "The publisher's name; with `sequence`, a command that is sent again has its effect once.",
    ),
    "sequence": (_TEXT, "The number of the command, `n` or `n.m`; it only rises."),
    "tags": (_TEXT, "The tags of a write to a document, with commas."),
    "change_id": (_TEXT, "The writer's own id for a write to a document."),
    "sow_key": (_TEXT, "The SOW key of the one record, on a topic whose publishers supply the keys."),
    "fields": (
        _TEXT,
        "The paths of what a delta in the topic's message type changes, with commas, if it does not show that.",
    ),
    "filter": (_TEXT, "Delete the records that match this filter."),
    "keys": (_TEXT, "Delete the records with these SOW keys: with commas, or a JSON array."),
    KEY: (_TEXT, "The key text of the document that all deltas are for."),
    "limit": (
        {"type": "integer", "minimum": 1, "maximum": 1000},
        "At most so many messages; 100 if not given.",
    ),
    "partition": (_NUMBER, "Only messages of this partition."),
    "before": (_NUMBER, "Only messages before this offset of the partition."),
    "reason": (_TEXT, "Only dead letters with this reason."),
}
_TAIL_KEY = "Only messages with this Kafka key."


@dataclass(frozen=True)
class Operation:
    """One request of the API, and its answer."""

    method: str
    path: str
    id: str
    summary: str
    answer: Schema
    parameters: Sequence[Schema] = ()
    body: Schema | None = None


def openapi() -> Schema:
    """Return the description."""
    paths: dict[str, Schema] = {}
    for operation in _operations():
        paths.setdefault(operation.path, {})[operation.method] = _described(operation)
    base = f"{COMPONENTS}schemas/"
    of_messages = schemas_of(message_types, base)
    answers = schemas_of(http_types, base) | schemas_of(kafka_types, base)
    lines = {name: of_messages[name] for name in ("SowRecord", "Intrinsics")}
    return {
        "openapi": "3.1.1",
        "info": {
            "title": "Sowline's HTTP API",
            "version": __version__,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            "description": "Made by `python -m contract`. docs/api.md explains it.",
        },
        "servers": [{"url": "http://127.0.0.1:8080", "description": "A query service or a gateway."}],
        "security": [{}, {"bearer": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            "schemas": dict(
                sorted({**answers, **lines, "Query": _query(), "TableQuery": _table_query()}.items())
            ),
            "responses": {f"Error{status}": _error(status) for status in _statuses()},
        },
    }


def _described(operation: Operation) -> Schema:
    parameters = [_path_parameter(name) for name in ("topic", "key", "id") if f"{{{name}}}" in operation.path]
    described: Schema = {
        "operationId": operation.id,
        "summary": operation.summary,
        "parameters": [*parameters, *operation.parameters],
    }
    if operation.body is not None:
        described["requestBody"] = operation.body
    errors = {str(status): {"$ref": f"{COMPONENTS}responses/Error{status}"} for status in _statuses()}
    return {**described, "responses": {**operation.answer, **errors}}


def _operations() -> Iterable[Operation]:
    yield from _of_the_service()
    yield from _queries()
    yield from (_write(command, f"{OF_TOPIC}/{command}") for command in WRITES)
    yield _subscribe()
    yield from _of_a_record()
    yield from _of_a_topic()
    yield from _tails()


def _of_the_service() -> Iterable[Operation]:
    yield Operation("get", "/v1/topics", "listTopics", "The topics, and how each is served.", _json("Topics"))
    yield Operation("get", "/v1/clients", "listClients", "The connected clients.", _json("Clients"))
    yield Operation(
        "get",
        "/v1/dead_letters",
        "countDeadLetters",
        "The number of each topic's dead letters.",
        _json("DeadLetters"),
    )
    yield Operation(
        "delete",
        "/v1/clients/{id}",
        "disconnectClient",
        "Closes the connection of a client.",
        _json("Disconnected"),
    )


def _queries() -> Iterable[Operation]:
    yield Operation(
        "post",
        f"{OF_TOPIC}/sow",
        "sow",
        "The records that match, one a line.",
        _ok(
            {
                **_content(NDJSON, _schema("SowRecord")),
                **_content(NATIVE, _BINARY),
                **_content(ARROW, _BINARY),
            },
            "A record or a group a line; or records in the message type of their topic, each with its length in 4"
            " bytes, big-endian, before it; or a table as an Arrow stream.",
            {
                **_INSTANT_HEADERS,
                "Sowline-Warning": {"description": "Probable mistakes in the request.", "schema": _TEXT},
            },
        ),
        _of_request(QUERY_FIELDS),
        _body(JSON, {"anyOf": [_schema("Query"), _schema("TableQuery")]}),
    )
    yield Operation(
        "post",
        f"{OF_TOPIC}/explain",
        "explain",
        "How a query finds its records.",
        _json("Explained"),
        _of_request(QUERY_FIELDS),
        _body(JSON, _schema("Query")),
    )


def _subscribe() -> Operation:
    return Operation(
        "get",
        f"{OF_TOPIC}/subscribe",
        "subscribe",
        "A subscription as Server-Sent Events.",
        {
            **_ok(
                _content(event_stream.MEDIA_TYPE, _TEXT),
                "The data of each event is a `StreamMessage` of frames.schema.json.",
            ),
            "204": {"description": "The client reconnects to a stream that has reached its end."},
        },
        [*_of_request(event_stream.PARAMETERS, _OF_STREAM), _LAST_EVENT_ID],
    )


def _of_a_record() -> Iterable[Operation]:
    yield Operation(
        "get",
        f"{OF_TOPIC}/records/{{key}}",
        "readRecord",
        "One record by its key text; a document comes with its intrinsics.",
        _ok(
            {**_content(JSON, {"type": "object"}), **_content(NATIVE, _BINARY)},
            "The record, as JSON or in the message type of its topic.",
            _INSTANT_HEADERS,
        ),
        _of_request(FRESHNESS),
    )
    yield Operation(
        "get",
        f"{OF_TOPIC}/records/{{key}}/timeline",
        "readTimeline",
        "The writes to one record.",
        _json("Timeline"),
        _of_request(TIMELINE_PARAMETERS),
    )


def _of_a_topic() -> Iterable[Operation]:
    yield Operation(
        "get", f"{OF_TOPIC}/fields", "describeFields", "The fields of a sample of records.", _json("Fields")
    )
    yield Operation(
        "get", f"{OF_TOPIC}/kafka", "describeKafkaTopics", "The topic's Kafka topics.", _json("Kafka")
    )
    yield Operation(
        "get",
        f"{OF_TOPIC}/schemas",
        "describeSchemas",
        "The topic's reader schemas, and the schemas that messages have named.",
        _json("Schemas"),
    )


def _tails() -> Iterable[Operation]:
    for kind, summary in _TAILS.items():
        names = [name for name in TAIL_PARAMETERS if name != "reason" or kind is TailKind.DEAD]
        yield Operation(
            "get",
            f"{OF_TOPIC}/{kind.value}",
            f"read{kind.value.capitalize()}",
            summary,
            _json("Tail"),
            [_own(name, _TAIL_KEY if name == KEY else "") for name in names],
        )


def _write(command: str, path: str) -> Operation:
    own = OWN_PARAMETERS.get(command, ())
    text = "text/plain" if command == DELTA else JSON
    return Operation(
        "post",
        path,
        "".join(part.capitalize() if number else part for number, part in enumerate(command.split("_"))),
        _SUMMARIES[command],
        _json("Written"),
        [
            *(_own(name) for name in (*PARAMETERS, *own, "ack")),
            _parameter("header", "traceparent", _TEXT, "The span of a trace that the request belongs to."),
        ],
        {
            "description": (
                "A delta or several, or a line for each with `key` and `delta`."
                if command == DELTA
                else "A record, one a line, or one message in the topic's message type."
            ),
            "required": command != SOW_DELETE,
            "content": {
                **_content(text, _TEXT if command == DELTA else {"type": "object"}),
                **_content(NDJSON, {"type": "object"}),
                **({} if command == DELTA else _content(NATIVE, {})),
            },
        },
    )


_OF_STREAM: dict[str, Schema] = {
    "command": {"enum": [*event_stream.COMMANDS]},
    "bookmark": {"type": "array", "items": _TEXT},
}


def _of_request(names: Sequence[str], instead: dict[str, Schema] | None = None) -> list[Schema]:
    """Return parameters that are fields of a command, in the form that they have in a URL."""
    docs = docs_of(RequestFields)
    return [
        _parameter("query", name, (instead or {}).get(name) or _in_url(name), without_links(docs[name]))
        for name in names
    ]


def _in_url(name: str) -> Schema:
    schema = request_field(name)
    kinds = [part for part in schema.get("anyOf", [schema]) if part["type"] not in ("array", "null")]
    return {key: value for key, value in kinds[0].items() if key != "default"}


def _query() -> Schema:
    docs = docs_of(RequestFields)
    return {
        "type": "object",
        "description": "The fields of a query.",
        "properties": {
            name: {**request_field(name), "description": without_links(docs[name])} for name in QUERY_FIELDS
        },
        "additionalProperties": False,
    }


def _table_query() -> Schema:
    query, types = _query(), {"type": ["string", "null"], "description": f"One of {EXPECTED}."}
    return {
        **query,
        "description": "The fields of a query for a table.",
        "properties": {
            **query["properties"],
            COLUMNS: {
                "anyOf": [
                    {"type": "array", "items": _TEXT},
                    {"type": "object", "additionalProperties": types},
                ],
                "description": "The paths of the columns, or paths with types; without it, all fields.",
            },
        },
    }


def _own(name: str, description: str = "") -> Schema:
    schema, about = _ABOUT[name]
    return _parameter("query", name, schema, description or about)


def _parameter(where: str, name: str, schema: Schema, description: str) -> Schema:
    return {"in": where, "name": name, "schema": schema, "description": description}


def _path_parameter(name: str) -> Schema:
    schema: Schema = {"type": "integer"} if name == "id" else _TEXT
    about = {
        "topic": "The topic; `sow`, `explain` and `subscribe` also take a pattern, whose `^` is `%5E`.",
        "key": "The key text, percent-encoded, its slashes too.",
        "id": "The id of the connection.",
    }
    return {**_parameter("path", name, schema, about[name]), "required": True}


_LAST_EVENT_ID = _parameter(
    "header", "Last-Event-ID", _TEXT, "The id of the last event: a browser sends it when it reconnects."
)


def _statuses() -> list[int]:
    return sorted({*STATUSES.values(), *_OWN_STATUSES})


def _error(status: int) -> Schema:
    reasons = [f"`{reason}`" for reason, of in STATUSES.items() if of == status]
    sentences = [_OWN_STATUSES.get(status, ""), f"The reason is {' or '.join(reasons)}." if reasons else ""]
    return {"description": " ".join(filter(None, sentences)), "content": _content(JSON, _schema("Error"))}


def _json(name: str) -> Schema:
    return _ok(_content(JSON, _schema(name)), "The answer.")


def _ok(content: Schema, description: str, headers: Schema | None = None) -> Schema:
    given = {"headers": headers} if headers else {}
    return {"200": {"description": description, **given, "content": content}}


def _body(media_type: str, schema: Schema) -> Schema:
    return {
        "description": "The same fields; they win over those of the URL.",
        "content": _content(media_type, schema),
    }


def _content(media_type: str, schema: Schema) -> Schema:
    return {media_type: {"schema": schema}}


def _schema(name: str) -> Schema:
    return {"$ref": f"{COMPONENTS}schemas/{name}"}
