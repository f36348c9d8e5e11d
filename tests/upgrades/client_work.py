"""The work of a client: it publishes, changes and deletes records, and subscribes, also from a bookmark.

Runs with the `sowline` of either version. Arguments: the URL of a query service or gateway, and a topic of one
partition. Prints the messages of its subscriptions and queries as JSON.
"""

import json
import sys
from collections.abc import Iterator
from typing import Any

from sowline import Client

url, topic = sys.argv[1:]
LARGE: dict[str, Any] = {"filter": "/qty > 1", "options": "oof"}


def changes(stream: Any, count: int) -> Iterator[tuple[str, Any]]:
    """Yield some changes of a subscription, without the messages around its group."""
    while count:
        message = next(stream)
        if message.command in ("publish", "oof"):
            count -= 1
            yield message.command, message.data


with Client(url) as client:
    client.publish(topic, {"id": 1, "qty": 5}, wait=True)
    first = client.sow_and_subscribe(topic, **LARGE, at_least=client.effect)
    found = [(one.command, one.data) for one in (next(first) for _ in range(3)) if one.command == "sow"]
    bookmark = first.bookmark or ""
    client.publish(topic, {"id": 2, "qty": 1})
    client.delta_publish(topic, {"id": 2, "qty": 7})
    client.delta_publish(topic, {"id": 1, "qty": 0})
    found += changes(first, 2)
    first.close()
    again = client.subscribe(topic, **LARGE, bookmark=bookmark)
    found += changes(again, 2)
    again.close()
    deleted = client.sow_delete(topic, filter="/id = 1")
    found += [("sow", one.data) for one in client.sow(topic) if one.command == "sow"]
print(json.dumps([deleted, found]))
