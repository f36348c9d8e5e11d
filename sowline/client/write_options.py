"""The options of a write, defined once for clients that send it to a service and for those that write to Kafka."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypedDict

from sowline.errors import SowlineError

Body = Mapping[str, Any] | bytes | str
"""JSON, as a mapping or as text. Bytes are JSON too; on a topic of another message type, a message of that type."""


class DeliveryReport(NamedTuple):
    """The outcome of one command: its position in Kafka, or the reason why Kafka refused it."""

    topic: str
    partition: int | None
    """The partition of the topic's log; None if the command was refused."""
    position: int | None
    """The offset in that partition; None if the command was refused."""
    error: SowlineError | None
    """`not written`, if the command was refused."""


OnDelivery = Callable[[DeliveryReport], object]
"""Called once for a command, during a later write or flush of the same publisher, in the thread that runs that call.
A `Client` runs it in its own thread; an `AsyncClient` in the event loop, or in another thread for a flush.

It must not use the publisher or its client. If it raises, the error is logged, and the publisher continues. A write
that raises is not sent, and has no report.
"""


class Tagging(TypedDict, total=False):
    """The metadata that may go with a write to a document."""

    tags: Sequence[str] | str
    """A list, or one text with commas. Conditions of subscribers can use them."""
    change_id: str | None
    """The writer's own id for the change: a UUID, or any text."""


class WriteOptions(Tagging, total=False):
    """The metadata that may go with the command that writes a record."""

    correlation: str | None
    """A text for subscribers."""
    expiration: float | None
    """The record's lifetime in seconds, 0 for none; without it, the topic's lifetime applies."""


class KeyedWriteOptions(WriteOptions, total=False):
    """The metadata that may go with a record."""

    key: str | None
    """The record's SOW key, on a topic whose keys publishers give; no other topic takes one."""


class DeltaWriteOptions(KeyedWriteOptions, total=False):
    """The metadata that may go with the changed fields of a record."""

    fields: Sequence[str]
    """The paths that a message in the topic's message type changes, if the message itself does not show them."""
