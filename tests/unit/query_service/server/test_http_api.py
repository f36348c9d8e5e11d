"""The HTTP API, without a socket."""

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

import httpx2
import pytest

from sowline.config.settings import Settings
from sowline.serving.app import Server
from sowline_gateway.server.http_api import GatewayHttpApi
from sowline_query_service.context import ServiceContext
from sowline_query_service.server.server import server_of
from tests.described import check_response
from tests.unit.documents import Documents
from tests.unit.gateway.rig import rig


@pytest.fixture
def documents() -> Documents:
    """A server of documents, one of whose keys has all that a path can't have."""
    server = Documents()
    server.delta("a/b ?%é", '{"n":1}')
    return server


@pytest.fixture
async def http(documents: Documents) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of its HTTP API, whose answers are as the protocol description has them."""
    context = ServiceContext(documents.state, documents.dispatcher, {}, documents.limits)
    app = server_of(Settings(), context, cast("Any", SimpleNamespace())).app
    transport = httpx2.ASGITransport(app=app)
    hooks = {"response": [check_response]}
    async with httpx2.AsyncClient(
        transport=transport, base_url="http://localhost", event_hooks=hooks
    ) as client:
        yield client


@pytest.mark.parametrize(
    ("path", "status", "is_deleted"),
    [("a%2Fb%20%3F%25%C3%A9", 200, False), ("other", 200, True), ("a/b/c", 400, None), ("a/none", 404, None)],
)
async def test_a_record_by_its_key(
    http: httpx2.AsyncClient, path: str, status: int, is_deleted: bool | None
) -> None:
    """The key is one part of the path, percent-encoded; the answer names its instant."""
    answer = await http.get(f"/v1/topics/orders/records/{path}")
    assert (answer.status_code, answer.json().get("~deleted")) == (status, is_deleted)
    assert (answer.headers.get("sowline-bookmark") == "orders:0@0") is (status == 200)


@pytest.mark.parametrize(
    ("address", "status", "reason"),
    [
        ("none/records/a", 404, "invalid topic"),
        ("%5E.*/records/a", 400, "regex topic not supported"),
        ("orders/records/a?filter=x", 400, "bad request"),
    ],
)
async def test_no_record(http: httpx2.AsyncClient, address: str, status: int, reason: str) -> None:
    """What is refused, and why."""
    answer = await http.get(f"/v1/topics/{address}")
    assert (answer.status_code, answer.json()["reason"]) == (status, reason)


@pytest.mark.parametrize(("condition", "count"), [('{..,"n":1}', 1), ('{..,"n":2}', 0)])
async def test_a_condition_over_http(http: httpx2.AsyncClient, condition: str, count: int) -> None:
    """In the URL and in the body, of a query and where it is explained."""
    url = "/v1/topics/orders/sow"
    found = [
        await http.post(url, params={"condition": condition}),
        await http.post(url, json={"condition": condition}),
    ]
    assert [len(answer.text.splitlines()) for answer in found] == [count, count]
    explained = await http.post("/v1/topics/orders/explain", json={"condition": condition})
    assert explained.json()["access_paths"][0]["matches"] == count


async def test_a_timeline_over_http(http: httpx2.AsyncClient, documents: Documents) -> None:
    """By the document's key, percent-encoded; so many of its writes, in either order."""
    documents.delta("a/b ?%é", '{..,"n":2}')
    path, read = "/v1/topics/orders/records/a%2Fb%20%3F%25%C3%A9/timeline", documents.written[0].__getitem__
    with patch("sowline_query_service.query.timeline_read.read_at", lambda *asked: map(read, asked[3])):
        newest = (await http.get(path, params={"limit": "1"})).json()
        oldest = (await http.get(path, params={"reversed": "false", "bookmark": "epoch"})).json()
    assert [write["data"] for write in newest.pop("writes")] == [{"n": 2}]
    assert [write["data"] for write in oldest["writes"]] == [{"n": 1}, {"n": 2}]
    assert newest.keys() == {"topic", "key", "sow_key", "bookmark", "since"}
    assert (newest["topic"], newest["key"], newest["bookmark"]) == ("orders", "a/b ?%é", "orders:0@1")


@pytest.mark.parametrize("parameter", ["limit=some", "reversed=perhaps", "filter=x", "limit=0"])
async def test_no_timeline(http: httpx2.AsyncClient, parameter: str) -> None:
    """What is no parameter of it, or has no sense."""
    answer = await http.get(f"/v1/topics/orders/records/a/timeline?{parameter}")
    reason = "invalid limit" if parameter == "limit=0" else "bad request"
    assert (answer.status_code, answer.json()["reason"]) == (400, reason)


async def test_a_list_of_topics_causes_no_samples_of_their_logs(
    http: httpx2.AsyncClient, documents: Documents
) -> None:
    """Gateways ask for it all the time, and the ends of many logs are sampled in turn."""
    sampled: list[str] = []
    documents.state.sample_soon = sampled.extend
    answer = await http.get("/v1/topics")
    assert [one["name"] for one in answer.json()["topics"]] == ["orders"]
    assert sampled == []


@pytest.mark.parametrize(("advertised", "named"), [("", "inner:9092"), ("outer:1", "outer:1")])
async def test_a_service_names_the_kafka_that_clients_reach(
    documents: Documents, advertised: str, named: str
) -> None:
    """It may have another address for them than for the service."""
    settings, unused = (
        Settings(kafka="inner:9092", kafka_advertised=advertised),
        cast("Any", SimpleNamespace()),
    )
    context = ServiceContext(documents.state, documents.dispatcher, {}, documents.limits)
    transport = httpx2.ASGITransport(app=server_of(settings, context, unused).app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        assert (await client.get("/v1/topics")).json()["kafka"] == named


@pytest.mark.parametrize("is_gateway", [False, True])
async def test_answers_are_as_described(is_gateway: bool) -> None:
    """Reads of a query service and of a gateway, and what both refuse."""
    async with rig(["0/2", "1/2"], more=", hash_indexes: [[/g]]") as made:
        for number in range(4):
            made.put({"id": number, "g": "a"})
        context = ServiceContext(made.whole.state, made.whole.dispatcher, {}, made.whole.limits)
        unused = cast("Any", SimpleNamespace())
        gateway = Server(
            Settings(),
            unused,
            lambda rates, backlogs: GatewayHttpApi(Settings(), made.context, rates, backlogs).routes,
            unused,
        )
        app = gateway.app if is_gateway else server_of(Settings(), context, unused).app
        async with httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app=app),
            base_url="http://localhost",
            event_hooks={"response": [check_response]},
        ) as client:
            of_topic = "/v1/topics/orders"
            assert [one["name"] for one in (await client.get("/v1/topics")).json()["topics"]] == ["orders"]
            assert (await client.get("/v1/clients")).json() == {"connected": 0, "clients": []}
            assert (await client.delete("/v1/clients/7")).status_code == 404
            assert (await client.get(f"{of_topic}/fields")).json()["sampled"] > 0
            found = await client.post(f"{of_topic}/sow", json={"options": "timestamp"})
            assert len(found.text.splitlines()) == 4
            groups = {"options": "grouping=[/g],projection=[/g,COUNT(1) AS /n]"}
            assert (await client.post(f"{of_topic}/sow", json=groups)).json()["data"] == {"g": "a", "n": 4}
            assert (await client.post(f"{of_topic}/explain", json={"filter": "/no = 1"})).is_success
            assert (await client.get(f"{of_topic}/records/1")).json() == {"id": 1, "g": "a"}
            assert (await client.get(f"{of_topic}/records/7")).status_code == 404
            assert (await client.post(f"{of_topic}/sow", json={"command": "sow"})).status_code == 400
            assert (await client.post(f"{of_topic}/publish?other=1", json={})).status_code == 400
            assert (await client.get(f"{of_topic}/log?limit=0")).status_code == 400
            assert (await client.put(f"{of_topic}/sow")).status_code == 405
