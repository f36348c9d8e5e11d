"""Topics between a materializer and a query service: writes to them, waits for queries, and reads the messages."""

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sowline.client.publisher import Publisher
from sowline.commands.command import DELTA_PUBLISH, PUBLISH, SOW_DELETE
from tests.integration.model import Model
from tests.integration.services import Service, System, system
from tests.integration.wire import Json, Wire


class ServedTopic:
    """One topic. Whatever is written to it is there for clients when the method returns."""

    def __init__(self, made: System, query: Service, name: str, publisher: Publisher) -> None:
        self.name = name
        self._system = made
        self._query = query
        self._publisher = publisher

    def write(self, *records: Json) -> None:
        """Publish records whole."""
        self.send(*((PUBLISH, record) for record in records))

    def merge(self, *deltas: Json) -> None:
        """Publish deltas."""
        self.send(*((DELTA_PUBLISH, delta) for delta in deltas))

    def delete(self, *keys: Json) -> None:
        """Delete the records that these bodies name with their key fields."""
        self.send(*((SOW_DELETE, key) for key in keys))

    def send(self, *commands: tuple[str, Json]) -> None:
        """Send commands, each with its body, in one go."""
        for command, body in commands:
            if command == SOW_DELETE:
                self._publisher.sow_delete(self.name, data=body)
            else:
                write = {PUBLISH: self._publisher.publish, DELTA_PUBLISH: self._publisher.delta_publish}
                write[command](self.name, body)
        self.settle()

    def clear(self) -> None:
        """Delete all records."""
        self._publisher.sow_delete(self.name, filter="1=1")
        self.settle()

    def settle(self) -> None:
        """Wait until the query service has what was written, by whomever."""
        self._publisher.flush()
        self._system.wait_settled(self._query.url, self.name)

    def message_to(self, command: str, sids: list[str], data: Json, **more: Any) -> Json:
        """Return what a message about a record says, all but its bookmark.

        The record is the one that `data` names with its key field. A field that is None here is not in the message.
        """
        definition = self._system.topic(self.name)
        key = _at(data, definition.key_paths[0])
        about = {"topic": self.name, "sow_key": Model(definition).sow_key(str(key))}
        message = {"command": command, "sids": sids, **about, "data": data, **more}
        return {name: value for name, value in message.items() if value is not None}


def _at(data: Json, steps: tuple[str, ...]) -> Any:
    value: Any = data
    for step in steps:
        value = value[step]
    return value


class Served:
    """A materializer and a query service, and the topics between them, by the names that the tests have for them."""

    def __init__(
        self, made: System, materializer: Service, query: Service, topics: Mapping[str, ServedTopic]
    ) -> None:
        self.system = made
        self.materializer = materializer
        self.query = query
        self._topics = topics

    def __getitem__(self, name: str) -> ServedTopic:
        return self._topics[name]


@contextmanager
def serve(
    kafka: str,
    directory: Path,
    topics: Mapping[str, Json],
    views: Mapping[str, Json] = MappingProxyType({}),
    /,
    **limits: object,
) -> Iterator[Served]:
    """Lend a served system with these topics, each defined but for its name, and with limits of the query service.

    A view is defined but for its name, and its `from` is the name that the tests have for a topic.
    """
    prefix = f"t{uuid.uuid4().hex[:12]}"
    names = {name: f"{prefix}-{name}" for name in topics}
    definitions = [topic | {"name": names[name]} for name, topic in topics.items()]
    computed = [
        view | {"name": f"{prefix}-{name}", "from": names[view["from"]]} for name, view in views.items()
    ]
    with system(kafka, directory, definitions, views=computed) as made:
        materializer = made.service("materializer").start()
        query = made.service("query_service", **limits).start()
        for service in (materializer, query):
            service.wait_ready()
        publisher = made.publisher()
        all_names = names | {name: f"{prefix}-{name}" for name in views}
        served = {name: ServedTopic(made, query, full, publisher) for name, full in all_names.items()}
        yield Served(made, materializer, query, served)


def without_bookmarks(messages: list[Json]) -> list[Json]:
    """Return what live messages say beside their bookmark, which each of them must have."""
    assert all(message["bookmark"].startswith(f"{message['topic']}:") for message in messages)
    return [{name: value for name, value in message.items() if name != "bookmark"} for message in messages]


def live(client: Wire) -> list[Json]:
    """Return the messages about everything that was written so far."""
    return without_bookmarks(client.heartbeat())


def query(client: Wire, topic: ServedTopic, filter: str = "") -> list[Json]:
    """Return the records that match now, by SOW key."""
    client.send("sow", topic=topic.name, filter=filter, top_n=1000, batch_size=1000)
    return [record["data"] for message in client.group()[1:-1] for record in message["records"]]
