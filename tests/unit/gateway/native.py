"""Typed topics behind real servers: a gateway over two shards, and one query service with the same records."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cache, partial
from io import BytesIO
from types import SimpleNamespace
from typing import Any, cast

import fastavro
import uvicorn
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from sowline.config.settings import Settings
from sowline.runtime.http_server import HttpProtocol
from sowline.runtime.ports import free_port
from sowline.runtime.websocket_handshake import Handshake
from sowline.serving.app import Server
from sowline_gateway.server.commands import GatewayCommands
from sowline_gateway.server.http_api import GatewayHttpApi
from sowline_query_service.server.server import server_of
from tests.unit.gateway.rig import HOST, Json, Rig, rig
from tests.waiting import until

SCHEMA_ID = 7
AVRO: Json = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "qty", "type": "int"},
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}
PROTO = 'syntax = "proto3"; message Order { int64 id = 1; int32 qty = 2; string note = 3; }'
FRAMED = bytes([0]) + SCHEMA_ID.to_bytes(4, "big")


def topic(message_type: str) -> str:
    """Return the definition of `orders` as YAML: Avro with frames, Protobuf without, or JSON."""
    typed: dict[str, Json] = {
        "avro": {"reader_schema": {"text": json.dumps(AVRO), "id": SCHEMA_ID}},
        "protobuf": {"reader_schema": {"text": PROTO}, "framing": "none"},
        "json": {},
    }
    given = {"name": "orders", "key": "/id", "partitions": 4, "message_type": message_type}
    return json.dumps(given | typed[message_type])


def decode_avro(message: bytes) -> Json:
    """Return a record of Avro, as its library reads it."""
    assert message.startswith(FRAMED)
    return cast("Json", fastavro.schemaless_reader(BytesIO(message[len(FRAMED) :]), AVRO, None))


def decode_protobuf(message: bytes) -> Json:
    """Return a record of Protobuf, as its library reads it."""
    read = order_message().FromString(message)
    return {field.name: getattr(read, field.name) for field in read.DESCRIPTOR.fields}


@cache
def order_message() -> Any:
    """Return the class of the messages of `PROTO`, as the library makes it."""
    kinds = {"id": FieldDescriptorProto.TYPE_INT64, "qty": FieldDescriptorProto.TYPE_INT32}
    file = FileDescriptorProto(name="order.proto", syntax="proto3")
    message = file.message_type.add(name="Order")
    for number, name in enumerate(("id", "qty", "note"), 1):
        kind = kinds.get(name, FieldDescriptorProto.TYPE_STRING)
        message.field.add(name=name, number=number, type=kind, label=FieldDescriptorProto.LABEL_OPTIONAL)
    pool = DescriptorPool()
    pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName("Order"))


DECODERS: dict[str, Callable[[bytes], Json]] = {
    "avro": decode_avro,
    "protobuf": decode_protobuf,
    "json": lambda message: cast("Json", json.loads(message)),
}


@asynccontextmanager
async def served(message_type: str, *, is_gateway: bool, access: str = "") -> AsyncIterator[tuple[Rig, str]]:
    """Lend a rig with a topic of this type, and the URL of its gateway or of its one query service.

    `access` is the path of the access file of what has the URL.
    """
    async with rig(["0/2", "1/2"], definition=topic(message_type)) as made:
        health, settings = cast("Any", SimpleNamespace()), Settings(access=access)
        gateway = Server(
            settings,
            partial(GatewayCommands, made.context),
            lambda rates, backlogs: GatewayHttpApi(settings, made.context, rates, backlogs).routes,
            health,
        )
        server = gateway if is_gateway else server_of(settings, made.whole.context, health)
        async with _listening(server) as url:
            yield made, url


@asynccontextmanager
async def _listening(server: Server) -> AsyncIterator[str]:
    port = free_port()
    config = uvicorn.Config(
        server.app,
        host=HOST,
        port=port,
        http=HttpProtocol,
        ws=Handshake,
        log_level="critical",
        access_log=False,
        lifespan="off",
    )
    http = uvicorn.Server(config)
    task = asyncio.create_task(http.serve())
    await until(lambda: http.started)
    try:
        yield f"http://{HOST}:{port}"
    finally:
        server.sessions.close_all()
        http.should_exit = True
        await task
