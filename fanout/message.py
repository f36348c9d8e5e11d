"""One message of a fanout topic: Kafka key = SOW key, value = body, header `sow` = the other fields."""

import orjson

from fanout.subscription import Delivery
from sowline.bookmark import format_position
from sowline.change import Change
from sowline.command import Headers
from sowline.topics import TopicDefinition
from sowline.wire import iso_time


def fanout_headers(
    definition: TopicDefinition, partition: int, change: Change, delivery: Delivery
) -> Headers:
    """Return the headers of the message that a change leads to.

    `bookmark` is the change's own place and `after` that of the change before it: a message whose bookmark
    is not newer than the last one is a repeat.
    """
    about = {
        "command": delivery.command,
        "topic": definition.name,
        "sow_key": change.sow_key.decode(),
        "bookmark": format_position(definition.log, partition, change.position),
        "after": format_position(definition.log, partition, change.after),
        "timestamp": iso_time(change.time),
    }
    if delivery.reason is not None:
        about["reason"] = delivery.reason
    return [("sow", orjson.dumps(about))]


def command_of(headers: Headers) -> str:
    """Return the command of a message of a fanout topic: `sow`, `publish` or `oof`."""
    about = next((value for name, value in headers if name == "sow"), None)
    return str(orjson.loads(about or b"{}").get("command", ""))
