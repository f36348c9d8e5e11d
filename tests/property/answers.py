"""The messages that answer a command, in a form in which the answers of two services can be compared."""

import json
from typing import Any, NamedTuple

Json = dict[str, Any]


class Answer(NamedTuple):
    """An answer without what may differ: the batches of a group, and the order of records that are not sorted."""

    acks: list[Json]
    ends: list[Json]
    """The `group_begin` and `group_end` of each group."""
    records: list[tuple[str, str]]
    """The records of all groups as text, each with its topic."""
    live: list[Json]
    """The other messages."""


def answer_of(messages: list[Json], *, is_sorted: bool) -> Answer:
    """Return the answer that these messages are."""
    answer = Answer([], [], [], [])
    for message in messages:
        match message["command"]:
            case "ack" if message["status"] == "failure":
                # A gateway has accepted a command when a node refuses it: it may name the subscription, and refuse it
                # before or after it has begun.
                accepted = ("sub_id", "ack_type")
                answer.acks.append({name: value for name, value in message.items() if name not in accepted})
            case "ack":
                answer.acks.append(message)
            case "group_begin" if "warnings" in message:
                answer.ends.append(message | {"warnings": _unknown_fields(message["warnings"])})
            case "group_begin" | "group_end":
                answer.ends.append(message)
            case "sow":
                topic = message["topic"]
                answer.records.extend((topic, json.dumps(record)) for record in message["records"])
            case _:
                answer.live.append(message)
    if not is_sorted:
        answer.records.sort()
    return answer


def _unknown_fields(warnings: list[str]) -> list[str]:
    """Return the fields that warnings are about."""
    # What is suggested instead depends on the records that a service holds.
    return sorted(warning.partition(";")[0] for warning in warnings)


def is_sorted(request: Json) -> bool:
    """Whether the records that a command asks for come in an order."""
    return "order_by" in request or "top_n" in request
