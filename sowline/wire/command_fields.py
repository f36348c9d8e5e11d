"""The fields of `Request` that each command needs, and the others that it uses.

The protocol description is made from these tables (`python -m contract`).
"""

from typing import NamedTuple

from sowline.errors import SowlineError
from sowline.wire.request import (
    SUBSCRIPTIONS,
    DeltaPublish,
    DeltaRequest,
    Explain,
    FlushRequest,
    Heartbeat,
    Logon,
    OfGateway,
    Pause,
    Publish,
    ReadTimeline,
    Request,
    Resume,
    Sow,
    SowDelete,
    Unsubscribe,
)
from sowline.wire.request_fields import QUERY_FIELDS, RequestFields

NODE_FIELDS = tuple(sorted(OfGateway.__struct_fields__))
"""The fields that only gateways set, in their requests to query services. No client description has them."""


def require_of_client(fields: RequestFields) -> None:
    """Raise `bad request` if a client's request has fields that only gateways set."""
    # With them a client could see parts of answers that only a gateway may merge, or use the memory of another user
    # (test_a_client_sets_no_field_of_gateways).
    if any(getattr(fields, name) for name in NODE_FIELDS):
        raise SowlineError(
            "bad request",
            f"expected {', '.join(f'`{name}`' for name in NODE_FIELDS)} only from a gateway, got one from a client",
        )


class CommandFields(NamedTuple):
    """The fields of one command, in addition to those of all commands."""

    kind: type[Request]
    needed: tuple[str, ...] = ()
    used: tuple[str, ...] = ()

    @property
    def about(self) -> str:
        """A description of the command."""
        return self.kind.__doc__ or ""


OF_ALL = CommandFields(Request, ("command",), ("command_id", "ack_type"))
"""The fields of every command."""

_FRESH = ("at_least", "max_staleness")
_QUERY = (*QUERY_FIELDS, "query_id", "batch_size")
_SUBSCRIPTION = (*_QUERY, "sub_id", "up_to")
_WRITE = ("sow_key", "correlation_id", "tags", "change_id", "traceparent")
_RECORD = ("expiration", *_WRITE)

FIELDS = {
    fields.kind.command: fields
    for fields in (
        CommandFields(Sow, ("topic",), _QUERY),
        CommandFields(Explain, ("topic",), _QUERY),
        CommandFields(
            ReadTimeline,
            ("topic", "key"),
            ("query_id", "batch_size", "bookmark", "up_to", "limit", "reversed", *_FRESH),
        ),
        *(CommandFields(kind, ("topic",), _SUBSCRIPTION) for kind in SUBSCRIPTIONS),
        CommandFields(Unsubscribe, (), ("sub_id", "query_id")),
        CommandFields(Pause, ("sub_id",)),
        CommandFields(Resume, ("sub_id",)),
        CommandFields(Heartbeat, (), ("sub_id",)),
        CommandFields(Logon, (), ("token",)),
        CommandFields(Publish, ("topic", "data"), _RECORD),
        CommandFields(DeltaPublish, ("topic", "data"), _RECORD),
        CommandFields(DeltaRequest, ("topic", "data"), ("key", *_WRITE)),
        CommandFields(SowDelete, ("topic",), ("filter", "sow_keys", "data", *_WRITE)),
        CommandFields(FlushRequest),
    )
}
"""The commands of clients."""
