"""The messages of query services, as far as a gateway reads them. Pure."""

from typing import Any

import msgspec


class NodeMessage(msgspec.Struct, gc=False):
    """A message of a node: the fields that a gateway reads, and the whole message as received."""

    command: str
    command_id: str = ""
    ack_type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    topic: str = ""
    bookmark: str = ""
    records: list[msgspec.Raw] | int = 0
    ordering: list[list[Any]] | None = None
    hash: str = "0"
    warnings: tuple[str, ...] = ()
    access_paths: list[dict[str, Any]] = []
    topic_matches: int = 0
    matches: int = 0
    lag_seconds: float | None = None
    reset: bool = False
    reports: msgspec.Raw = msgspec.Raw(b"")
    sow_key: str = ""
    data: msgspec.Raw = msgspec.Raw(b"")
    intrinsics: msgspec.Raw = msgspec.Raw(b"")
    relayed: msgspec.Raw = msgspec.Raw(b"")
    timestamp: str = ""
    more: bool = False
    up_to: str = ""
    correlation_id: str | None = None
    sids: tuple[str, ...] = ()
    raw: bytes = b""


_split = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode = msgspec.json.Decoder(NodeMessage).decode


def messages_of(frame: bytes) -> list[NodeMessage]:
    """Return the messages of a frame."""
    messages = []
    for one in _split(frame) if frame.startswith(b"[") else (frame,):
        message = _decode(one)
        # A copy: a `Raw` keeps its whole frame in memory.
        message.raw = bytes(one)
        messages.append(message)
    return messages
