"""Bodies that nest as deep as is allowed, over a real Kafka: whatever writes one again writes it whole."""

import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from sowline.codecs.codec import codec_of
from sowline.codecs.schema import MessagePayload, Schema
from sowline.model.nesting import NESTING_MAX
from tests.integration.services import http_text, post_commands, system
from tests.unit.generators import install
from tests.waiting import wait_for

LEVELS = NESTING_MAX - 1
"""Of the value below the record itself."""


def nested(levels: int) -> Any:
    """Return a value of so many levels of objects and arrays."""
    value: Any = "deep"
    for number in range(levels):
        value = [value] if number % 2 else {"a": value}
    return value


def test_deep_bodies_pass_everywhere(kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key generator, a publish over HTTP, a view of joined records, its check, and a fanout in another type."""
    prefix = f"t{uuid.uuid4().hex[:12]}"
    orders, desks, generated, view = (f"{prefix}-{kind}" for kind in ("orders", "desks", "generated", "view"))
    topics: list[dict[str, Any]] = [
        {"name": generated, "key": {"generator": "desk", "options": {"separator": "/"}}},
        {"name": orders, "key": "/id"},
        {"name": desks, "key": "/id"},
    ]
    views = [{"name": view, "from": orders, "join": [{"topic": desks, "as": "desk", "on": "/desk = /id"}]}]
    install(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    fanouts = [{"name": generated, "topic": generated, "as": "msgpack"}]
    deep = nested(LEVELS)
    trade = {"desk": "a", "id": 1, "deep": deep}
    order, desk = {"id": 2, "desk": 7, "deep": deep}, {"id": 7, "deep": deep}
    with system(kafka, tmp_path, topics, fanouts, views) as made:
        names = ("materializer", "query_service", "views", "fanout")
        services = [made.service(name).start() for name in names]
        for service in services:
            service.wait_ready()
        url = services[1].url
        for topic, record in ((generated, trade), (desks, desk), (orders, order)):
            written = post_commands(url, topic, "publish", json.dumps(record).encode(), "application/json")
            assert written["status"] == 200, written

        def joined() -> list[Any]:
            made.wait_settled(url, view)
            lines = http_text(f"{url}/v1/topics/{view}/sow", b"").split("\n")[:-1]
            return [line["data"] for line in map(json.loads, lines)]

        wait_for(lambda: joined() == [order | {"desk": desk}], "the view to have the joined record")
        output = made.topics.fanouts[0].output
        [message] = wait_for(lambda: made.read(output), "the fanout to write the record")
        schema = Schema("msgpack", "")
        assert json.loads(codec_of(schema).read(MessagePayload(message.value() or b""), schema)) == trade
