"""The tools over a service that is played: what they ask it, and what its refusals and its end become."""

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from sowline.agents.addresses import read_address
from sowline.agents.tools import AgentTools
from sowline.client.http_api import HttpClient
from sowline.config.credentials import Credentials
from sowline.errors import SowlineError

EVENTS = (
    b'event: processed\ndata: {"command":"ack"}\n\n'
    b'event: progress\nid: t:0@2\ndata: {"command":"progress"}\n\n'
    b'event: publish\nid: t:0@3\ndata: {"command":"publish","topic":"t","sow_key":"1","data":{"id":1}}\n\n'
)


class Played:
    """A service whose answers are given, and the requests to it."""

    def __init__(self, *answers: bytes, status: int = 200) -> None:
        self.requests: list[httpx2.Request] = []
        self._answers = iter(answers)
        self._status = status
        transport = httpx2.MockTransport(self._answer)
        self.tools = AgentTools(HttpClient("http://played", Credentials(), lambda: None, transport))

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        headers = {"Sowline-Bookmark": "t:0@2", "Sowline-Warning": "no such field"}
        return httpx2.Response(self._status, content=_chunks(next(self._answers)), headers=headers)

    async def call(self, name: str, **given: Any) -> Any:
        """Return the answer of a tool."""
        return json.loads(await self.tools.call(name, given))


async def _chunks(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), 7):
        yield content[start : start + 7]


async def test_a_query_reports_that_there_is_more() -> None:
    """It asks for one record more than it returns."""
    played = Played(b'{"data":{"n":1}}\n{"data":{"n":2}}\n{"data":{"n":3}}\n')
    answer = await played.call("query", topic="a b/c", limit=2, order_by="/n")
    (request,) = played.requests
    assert (request.method, request.url.raw_path) == ("POST", b"/v1/topics/a%20b/c/sow")
    assert json.loads(request.content) == {"order_by": "/n", "top_n": 3}
    assert [record["data"]["n"] for record in answer["records"]] == [1, 2]
    assert (answer["more"], answer["bookmark"], answer["warning"]) == (True, "t:0@2", "no such field")


async def test_a_record_with_its_timeline() -> None:
    """In two requests; the key is one step of the path."""
    played = Played(b'{"id":"a/.."}', b'{"writes":[]}')
    answer = await played.call("record", topic="t", key="a/..", timeline=True, limit=3)
    assert [request.url.raw_path for request in played.requests] == [
        b"/v1/topics/t/records/a%2F..",
        b"/v1/topics/t/records/a%2F../timeline?limit=3",
    ]
    assert (answer["record"], answer["timeline"]) == ({"id": "a/.."}, {"writes": []})


async def test_waiting_begins_after_the_query() -> None:
    """What comes between the two is not missed."""
    played = Played(b"", EVENTS)
    answer = await played.call("wait_for", topic="t", filter="/id = 1")
    assert dict(played.requests[1].url.params) == {"filter": "/id = 1", "bookmark": "t:0@2"}
    assert (answer["matched"], answer["bookmark"]) == (True, "t:0@3")
    assert answer["records"] == [{"topic": "t", "sow_key": "1", "data": {"id": 1}}]


async def test_what_matches_is_returned_at_once() -> None:
    """Without a subscription."""
    played = Played(b'{"data":{"n":1}}\n')
    answer = await played.call("wait_for", topic="t")
    assert (len(played.requests), answer["matched"], answer["bookmark"]) == (1, True, "t:0@2")


async def test_waiting_for_what_is_refused() -> None:
    """The refusal is the answer."""
    played = Played(b'{"reason":"not entitled","message":"expected a topic"}', status=403)
    with pytest.raises(SowlineError) as refused:
        await played.call("wait_for", topic="t", after="t:0@1")
    assert (refused.value.reason, refused.value.message) == ("not entitled", "expected a topic")


@pytest.mark.parametrize("tool", ["changes", "wait_for"])
async def test_a_service_that_stops(tool: str) -> None:
    """The answer must not look complete."""
    played = Played(b'event: processed\ndata: {"command":"ack"}\n\n')
    with pytest.raises(SowlineError) as failed:
        await played.call(tool, topic="t", after="t:0@1")
    assert failed.value.reason == "disconnected"


@pytest.mark.parametrize("tool", ["changes", "wait_for"])
async def test_a_subscription_that_fails(tool: str) -> None:
    """With the reason that the service gives."""
    played = Played(b'event: failure\ndata: {"reason":"rights changed","message":"log on again"}\n\n')
    with pytest.raises(SowlineError) as failed:
        await played.call(tool, topic="t", after="t:0@1")
    assert failed.value.reason == "rights changed"


async def test_an_unknown_tool() -> None:
    """The refusal lists those that there are."""
    with pytest.raises(SowlineError) as refused:
        await Played().call("drop")
    assert refused.value.message.startswith("expected a tool (topics, fields, query, ")


async def test_a_listener_gets_no_fields() -> None:
    """Only that something has changed."""
    played = Played(EVENTS)
    address = read_address("sowline://topics/t/changes?filter=/a&after=t:0@1")
    async with played.tools.watch(address) as changes:
        assert [event.name async for event in changes] == ["publish"]
    (request,) = played.requests
    assert dict(request.url.params) == {"filter": "/a", "options": "oof,select=[-/]", "bookmark": "t:0@1"}


ALLOWED = b'{"topics":[],"agent_writes":true}'


async def test_a_write_is_one_command() -> None:
    """It returns once queries include it, and a number of more than 64 bits stays exact."""
    played = Played(ALLOWED, b'{"commands":1}', ALLOWED, b'{"commands":1,"records_deleted":2}')
    record = {"id": 1, "n": 2**70}
    assert await played.call("publish", topic="t", record=record, merge=True) == {"commands": 1}
    assert (await played.call("delete", topic="t", sow_keys=["5", "6"]))["records_deleted"] == 2
    _, publish, _, delete = played.requests
    assert (publish.method, publish.url.raw_path) == ("POST", b"/v1/topics/t/delta_publish?ack=processed")
    assert json.loads(publish.content) == record
    assert dict(delete.url.params) == {"keys": '["5","6"]', "ack": "processed"}


@pytest.mark.parametrize("topics", [b'{"topics":[]}', b'{"topics":[],"agent_writes":false}'])
async def test_a_write_without_the_right(topics: bytes) -> None:
    """Nothing is sent, also to a service that does not know the right."""
    played = Played(topics)
    with pytest.raises(SowlineError) as refused:
        await played.call("publish", topic="t", record={})
    assert (refused.value.reason, len(played.requests)) == ("not entitled", 1)


@pytest.mark.parametrize(
    ("answer", "status", "count"), [(ALLOWED, 200, 9), (b'{"topics":[]}', 200, 7), (b"", 503, 7)]
)
async def test_the_tools_of_a_user(answer: bytes, status: int, count: int) -> None:
    """Those that only read are there while no service is."""
    assert len(await Played(answer, status=status).tools.available()) == count
