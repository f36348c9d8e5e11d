"""The acknowledgements that a client can request for each command, and when the service sends them. Pure.

The WebSocket API checks each command against the table in this module. docs/api.md shows the table.
"""

from collections.abc import Iterable

from sowline.errors import SowlineError

RECEIVED, PROCESSED, COMPLETED, PERSISTED, STATS = ACK_TYPES = (
    "received",
    "processed",
    "completed",
    "persisted",
    "stats",
)

_AT_ONCE = {RECEIVED: "immediately", PROCESSED: "when it is done", COMPLETED: "with `processed`"}
_QUERY = {
    RECEIVED: "immediately",
    PROCESSED: "when the snapshot is fixed",
    COMPLETED: "after the result",
}
_SUBSCRIPTION = {
    RECEIVED: "immediately",
    PROCESSED: "when it has started",
    COMPLETED: "with `processed`; after the replay, if it begins at a bookmark; always at its end, if it has one",
}
_SNAPSHOT = {
    RECEIVED: "immediately",
    PROCESSED: "when it has started",
    COMPLETED: "after the snapshot; after the replay, if it begins at a bookmark; always at its end, if it has one",
    STATS: "after the snapshot; without one, with `processed` and all counts 0",
}
_WRITE = {
    RECEIVED: "immediately",
    PROCESSED: "when this query service has applied it",
    COMPLETED: "with `processed`",
    PERSISTED: "when Kafka has acknowledged it",
    STATS: "with `processed`",
}

SENT: dict[str, dict[str, str]] = {
    "sow": {**_QUERY, STATS: "with `completed`"},
    "explain": _QUERY,
    "timeline": _QUERY,
    "subscribe": _SUBSCRIPTION,
    "delta_subscribe": _SUBSCRIPTION,
    "sow_and_subscribe": _SNAPSHOT,
    "sow_and_delta_subscribe": _SNAPSHOT,
    "unsubscribe": _AT_ONCE,
    "pause": _AT_ONCE,
    "resume": _AT_ONCE,
    "heartbeat": {**_AT_ONCE, PROCESSED: "after the response"},
    "logon": {**_AT_ONCE, PROCESSED: "always"},
    "publish": _WRITE,
    "delta_publish": _WRITE,
    "delta": _WRITE,
    "sow_delete": _WRITE,
    "flush": {
        RECEIVED: "immediately",
        PROCESSED: "when the outcome of each earlier command is known",
        COMPLETED: "with `processed`",
        PERSISTED: "when Kafka has acknowledged or rejected each earlier command",
    },
}
"""For each command, the acknowledgements that a client can request, and when the service sends each. It rejects all
others."""

INVALID = "invalid ack type"

_REFUSED = {
    PERSISTED: "the command writes nothing to Kafka",
    STATS: "the command compares no records",
}


def refusal(command: str, ack_type: str) -> SowlineError | None:
    """Return the error for a command that requests this acknowledgement; None if the command supports it."""
    if ack_type not in ACK_TYPES:
        return SowlineError(INVALID, f"expected any of {', '.join(ACK_TYPES)}, got {ack_type[:100]}")
    # The commands that only gateways send are not in the table: it is for clients.
    sent = SENT.get(command, _AT_ONCE)
    if ack_type in sent:
        return None
    return SowlineError(
        INVALID,
        f"expected any of {', '.join(sent)} for {command}, got {ack_type}: {_REFUSED[ack_type]}",
    )


def check_acks(command: str, asked: Iterable[str]) -> None:
    """Raise `invalid ack type` if a command requests an acknowledgement that it does not support."""
    # Sorted, because a set of texts has another order in each process: the same command would get another error.
    for ack_type in sorted(asked):
        if (refused := refusal(command, ack_type)) is not None:
            raise refused
