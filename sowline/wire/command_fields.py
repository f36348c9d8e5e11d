"""The fields of each command: which of those of `Request` it needs, and which others it uses.

The protocol description is made from these tables (`python -m contract`).
"""

from typing import NamedTuple

from sowline.errors import SowlineError
from sowline.wire.request_fields import QUERY_FIELDS, RequestFields

NODE_FIELDS = ("merges", "relays", "replaces", "sample_n", "shares", "user")
"""The fields that only gateways set, in what they ask of query services. No client description has them."""


def require_of_client(fields: RequestFields) -> None:
    """Raise `bad request` if a client's request has fields that only gateways set."""
    if any(getattr(fields, name) for name in NODE_FIELDS):
        raise SowlineError(
            "bad request",
            f"expected {', '.join(f'`{name}`' for name in NODE_FIELDS)} only from a gateway",
        )


class CommandFields(NamedTuple):
    """The fields of one command, in addition to those of all commands."""

    about: str
    """What the command does."""
    needed: tuple[str, ...] = ()
    used: tuple[str, ...] = ()


OF_ALL = CommandFields("", ("command",), ("command_id", "ack_type"))
"""The fields of every command."""

_FRESH = ("at_least", "max_staleness")
_QUERY = (*QUERY_FIELDS, "query_id", "batch_size")
_SUBSCRIPTION = (*_QUERY, "sub_id", "up_to")
_WRITE = ("sow_key", "correlation_id", "tags", "change_id", "traceparent")
_RECORD = ("expiration", *_WRITE)

FIELDS = {
    "sow": CommandFields("Reads the records that match.", ("topic",), _QUERY),
    "explain": CommandFields("Explains how a `sow` would find its records.", ("topic",), _QUERY),
    "timeline": CommandFields(
        "Lists the writes to one record.",
        ("topic", "key"),
        ("query_id", "batch_size", "bookmark", "up_to", "limit", "reversed", *_FRESH),
    ),
    "subscribe": CommandFields("Subscribes to changes.", ("topic",), _SUBSCRIPTION),
    "sow_and_subscribe": CommandFields(
        "Reads the records that match, and subscribes to their changes.", ("topic",), _SUBSCRIPTION
    ),
    "delta_subscribe": CommandFields("Subscribes to changes as deltas.", ("topic",), _SUBSCRIPTION),
    "sow_and_delta_subscribe": CommandFields(
        "Reads the records that match, and subscribes to their changes as deltas.", ("topic",), _SUBSCRIPTION
    ),
    "unsubscribe": CommandFields("Ends subscriptions, or a query.", (), ("sub_id", "query_id")),
    "pause": CommandFields("Pauses subscriptions.", ("sub_id",)),
    "resume": CommandFields("Resumes paused subscriptions.", ("sub_id",)),
    "heartbeat": CommandFields("Asks for a sign of life, or for the checksum of a view.", (), ("sub_id",)),
    "logon": CommandFields("Logs a user on, or renews a token.", (), ("token",)),
    "publish": CommandFields("Writes a record.", ("topic", "data"), _RECORD),
    "delta_publish": CommandFields("Merges fields into a record.", ("topic", "data"), _RECORD),
    "delta": CommandFields("Changes a document by a delta.", ("topic", "data"), ("key", *_WRITE)),
    "sow_delete": CommandFields("Deletes records.", ("topic",), ("filter", "sow_keys", "data", *_WRITE)),
    "flush": CommandFields("Waits for the outcomes of the earlier writes of the connection."),
}
"""The commands of clients."""
