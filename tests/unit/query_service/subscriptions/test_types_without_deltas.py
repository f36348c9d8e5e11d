"""Delta subscriptions to message types that have no deltas: each change is a whole record."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.query_service.sessions import Json, Server, settled

GLOBAL = "message_type: composite-global, message_format: {parts: [{type: json}, {type: binary}]}"
TOPICS = {
    "binary": "{name: orders, key: {from: kafka_key}, message_type: binary}",
    "composite-global": f"{{name: orders, key: {{from: kafka_key}}, {GLOBAL}}}",
    "conflated": f"{{name: work, key: /id, {GLOBAL}}}]\nconflated: [{{name: orders, from: work, interval: 1s}}",
}
BEFORE: Json = {"id": 1, "qty": 1, "data": "AAA=", "#parts": ["*", ["data"]]}
NOW: Json = {**BEFORE, "qty": 2}
COUNTS = "grouping=[/id],projection=[/id,MAX(/qty) AS /most,MIN(/data) AS /data]"


@pytest.fixture(params=TOPICS)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server of a topic with one record."""
    server = Server(definition=TOPICS[request.param]).loaded()
    server.put_at(b"1", BEFORE)
    with server.patched():
        yield server


async def received(server: Server, **fields: Any) -> list[tuple[bool, Json]]:
    """Return of each live message whether it is a delta, and its body; the second change changes nothing."""
    client = server.connect()
    client.ask("sow_and_delta_subscribe", **fields)
    assert [m["command"] for m in await client.read()] == ["group_begin", "sow", "group_end"]
    server.put_at(b"1", NOW)
    server.put_at(b"1", NOW)
    await settled()
    return [("delta" in m, m["data"]) for m in await client.read() if m["command"] == "publish"]


@pytest.mark.parametrize(
    "fields", [{}, {"options": "no_empties"}, {"skip_n": 0, "top_n": 5, "order_by": "/qty"}]
)
async def test_each_change_is_a_whole_record(server: Server, fields: Json) -> None:
    """Also one that changes nothing, and on a page."""
    assert await received(server, **fields) == [(False, NOW), (False, NOW)]


async def test_groups_have_deltas(server: Server) -> None:
    """They are JSON."""
    assert (await received(server, options=COUNTS))[0] == (True, {"id": 1, "most": 2})
