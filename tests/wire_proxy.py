"""A proxy between a client and a service, which changes the WebSocket messages and HTTP answers of the service."""

import asyncio
import contextlib
import json
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Protocol
from urllib.parse import urlsplit

Message = dict[str, Any]
Request = dict[str, Any]

TEXT, MASKED, LENGTH_16, LENGTH_64 = 0x81, 0x80, 126, 127


class Meddler(Protocol):
    """Changes what goes through the proxy."""

    def meddle(self, messages: list[Message], requests: dict[str, Request]) -> list[Message]:
        """Return what a client receives in place of a frame's messages; `requests` are its own, by their ids."""

    def meddle_answer(self, data: bytes) -> bytes:
        """Return what a client receives in place of some bytes of HTTP, as many."""


class _Connection:
    """One WebSocket through the proxy."""

    def __init__(self, meddler: Meddler) -> None:
        self._meddler = meddler
        self._requests: dict[str, Request] = {}

    async def send_up(self, client: asyncio.StreamReader, service: asyncio.StreamWriter) -> None:
        """Carry the client's frames, and note its requests."""
        while True:
            head, payload, mask = await _read_frame(client)
            if head[0] == TEXT:
                text = bytes(byte ^ mask[number % 4] for number, byte in enumerate(payload))
                found = json.loads(text)
                for request in found if isinstance(found, list) else [found]:
                    self._requests[request.get("sub_id") or request.get("command_id", "")] = request
            service.write(head + mask + payload)
            await service.drain()

    async def send_down(self, service: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        """Carry the service's frames, changed."""
        while True:
            head, payload, _ = await _read_frame(service)
            if head[0] == TEXT:
                found = json.loads(payload)
                messages = found if isinstance(found, list) else [found]
                changed = self._meddler.meddle(messages, self._requests)
                if changed != messages:
                    payload = json.dumps(changed).encode()
                    head = bytes([TEXT]) + _length(len(payload))
            client.write(head + payload)
            await client.drain()


def _length(count: int) -> bytes:
    if count < LENGTH_16:
        return bytes([count])
    return struct.pack(">BH", LENGTH_16, count) if count < 1 << 16 else struct.pack(">BQ", LENGTH_64, count)


async def _read_frame(reader: asyncio.StreamReader) -> tuple[bytes, bytes, bytes]:
    """Return the head of a frame without its mask, its payload as it is sent, and its mask."""
    head = await reader.readexactly(2)
    length = head[1] & 0x7F
    if length >= LENGTH_16:
        more = await reader.readexactly(2 if length == LENGTH_16 else 8)
        head, length = head + more, int.from_bytes(more, "big")
    mask = await reader.readexactly(4) if head[1] & MASKED else b""
    return head, await reader.readexactly(length), mask


async def _carry(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, change: Callable[[bytes], bytes]
) -> None:
    while data := await reader.read(1 << 16):
        writer.write(change(data))
        await writer.drain()


async def _serve(
    client: asyncio.StreamReader, to_client: asyncio.StreamWriter, meddler: Meddler, address: tuple[str, int]
) -> None:
    service, to_service = await asyncio.open_connection(*address)
    try:
        head = await client.readuntil(b"\r\n\r\n")
        is_websocket = b"upgrade: websocket" in head.lower()
        if is_websocket:
            # Without extensions, frames are not compressed.
            lines = [
                line
                for line in head.split(b"\r\n")
                if not line.lower().startswith(b"sec-websocket-extensions")
            ]
            head = b"\r\n".join(lines)
        to_service.write(head)
        if is_websocket:
            to_client.write(await service.readuntil(b"\r\n\r\n"))
            connection = _Connection(meddler)
            up, down = connection.send_up(client, to_service), connection.send_down(service, to_client)
        else:
            up = _carry(client, to_service, bytes)
            down = _carry(service, to_client, meddler.meddle_answer)
        tasks = [asyncio.create_task(one) for one in (up, down)]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    finally:
        for writer in (to_client, to_service):
            with contextlib.suppress(OSError):
                writer.close()


@asynccontextmanager
async def proxied(url: str, meddler: Meddler) -> AsyncIterator[str]:
    """Lend the URL of a proxy to a service."""
    parts = urlsplit(url)
    address = (parts.hostname or "", parts.port or 80)

    async def serve(client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await _serve(client, to_client, meddler, address)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
