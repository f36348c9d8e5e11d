"""Agents over the Model Context Protocol, by the SDK's client: at a query service, at a gateway, and over stdio."""

import asyncio
import json
import os
import sys
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest
import yaml
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ResourceUpdated
from mcp.types import TextResourceContents

from sowline import Client as SowlineClient
from sowline.agents.addresses import address_of
from sowline.agents.catalog import TOOLS, WRITE_TOOLS
from tests.docs.pages import blocks_of
from tests.integration.services import Service, System, system
from tests.waiting import SECONDS_MAX, wait_for

TOKENS = {name: f"sow_{name}_{uuid.uuid4().hex}" for name in ("ada", "root", "node", "eve")}
LARGE = 2**64 - 1


class Agents(NamedTuple):
    """A topic that a role may read in part, one that it may not, a query service, and a gateway over two nodes."""

    system: System
    topic: str
    hidden: str
    query: Service
    gateway: Service

    def url(self, endpoint: str) -> str:
        """Return the URL of the service that an endpoint of the tests is at."""
        return self.gateway.url if endpoint == "gateway" else self.query.url

    def write(self, *records: dict[str, Any], topic: str = "") -> None:
        """Publish records, and wait until both services have them."""
        topic = topic or self.topic
        with SowlineClient(self.query.url, kafka=self.system.kafka, token=TOKENS["root"]) as client:
            client.publish_all(topic, records)
        for service in (self.query, self.gateway):
            with SowlineClient(service.url, token=TOKENS["root"]) as client:
                wait_for(partial(_has, client, topic, records), "the records to be there")


def _has(client: SowlineClient, topic: str, records: Sequence[dict[str, Any]]) -> bool:
    found = {record["id"]: record for record in client.records(topic)}
    return all(found.get(record["id"]) == record for record in records)


def write_access(path: Path, topic: str) -> None:
    """Write the access file: `ada` may read some records and some fields of one topic."""
    roles = {
        "agent": {
            "read": [{"topics": topic, "filter": "/desk = 'a'", "select": "[-/,+/id,+/desk,+/n]"}],
        },
        "all": {"read": [{"topics": "^.*"}], "write": [{"topics": "^.*"}], "admin": True},
        "writer": {
            "read": [{"topics": topic}],
            "write": [{"topics": topic, "filter": "/desk = 'a'"}],
            "agent_writes": True,
        },
        "gateway": {"gateway": True, "read": [{"topics": "^.*"}], "write": [{"topics": "^.*"}]},
    }
    held = {"ada": ["agent"], "root": ["all"], "node": ["gateway"], "eve": ["writer"]}
    tokens = [
        {"user": user, "sha256": sha256(TOKENS[user].encode()).hexdigest(), "roles": mine}
        for user, mine in held.items()
    ]
    path.write_text(yaml.safe_dump({"tokens": tokens, "roles": roles}))


@pytest.fixture(scope="module")
def agents(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agents]:
    """Run the services."""
    directory = tmp_path_factory.mktemp("agents")
    prefix = f"t{uuid.uuid4().hex[:12]}"
    topic, hidden = f"{prefix}-orders", f"{prefix}-hidden"
    write_access(directory / "access.yaml", topic)
    (directory / "node.token").write_text(TOKENS["node"])
    topics = [{"name": name, "key": "/id", "partitions": 2} for name in (topic, hidden)]
    with system(kafka, directory, topics) as made:
        access = directory / "access.yaml"
        made.service("materializer").start()
        query = made.service("query_service", access=access, progress_seconds=0.2)
        nodes = [made.service("query_service", access=access, shard=f"{number}/2") for number in (0, 1)]
        gateway = made.service(
            "gateway",
            access=access,
            nodes=",".join(node.url for node in nodes),
            nodes_token_file=directory / "node.token",
        )
        for service in (query, *nodes, gateway):
            service.start()
        for service in (query, *nodes, gateway):
            service.wait_ready()
        yield Agents(made, topic, hidden, query, gateway)


ENDPOINTS = ("query_service", "gateway", "stdio")


@asynccontextmanager
async def agent(agents: Agents, endpoint: str, user: str = "root", **more: Any) -> AsyncIterator[Client]:
    """Connect an agent of a user."""
    url = agents.url(endpoint)
    if endpoint == "stdio":
        environment = {**os.environ, "SOWLINE_TOKEN": TOKENS[user]}
        command = StdioServerParameters(
            command=sys.executable, args=["-m", "sowline", "mcp", "--url", url], env=environment
        )
        async with Client(command, **more) as client:
            yield client
        return
    headers = {"Authorization": f"Bearer {TOKENS[user]}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=SECONDS_MAX) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http), **more) as client,
    ):
        yield client


async def call(client: Client, tool: str, **arguments: Any) -> Any:
    """Return the answer of a tool that must succeed."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return json.loads(text_of(result))


async def refusal(client: Client, tool: str, **arguments: Any) -> str:
    """Return the error of a tool that must fail."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error, result.content
    return text_of(result)


async def read(client: Client, address: str) -> Any:
    """Return what is at an address."""
    (contents,) = (await client.read_resource(address)).contents
    assert isinstance(contents, TextResourceContents)
    return json.loads(contents.text)


def text_of(result: Any) -> str:
    """Return the only content of a result."""
    (content,) = result.content
    assert isinstance(content.text, str)
    return content.text


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("endpoint", ENDPOINTS)
async def test_an_agent_reads(agents: Agents, endpoint: str, mode: Any) -> None:
    """The same tools at each endpoint, for agents of the current protocol and of earlier ones."""
    run = uuid.uuid4().hex
    agents.write(*({"id": f"{run}{n}", "run": run, "desk": "ab"[n % 2], "n": n} for n in range(3)))
    agents.write({"id": f"{run}3", "run": run, "desk": "b", "n": LARGE})
    mine: dict[str, Any] = {"topic": agents.topic, "filter": f"/run = '{run}'"}
    async with agent(agents, endpoint, mode=mode) as client:
        assert client.instructions is not None
        assert "untrusted" in client.instructions
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools] == [tool.name for tool in TOOLS]
        assert all(tool.annotations and tool.annotations.read_only_hint for tool in tools)
        listed = {topic["name"] for topic in (await call(client, "topics"))["topics"]}
        assert {agents.topic, agents.hidden} <= listed
        fields = await call(client, "fields", topic=agents.topic)
        assert "untrusted" in fields["notice"]
        assert "/desk" in json.dumps(fields["fields"])
        found = await call(client, "query", **mine, order_by="/n DESC", limit=2, select=["/n"])
        assert ([one["data"] for one in found["records"]], found["more"]) == ([{"n": LARGE}, {"n": 2}], True)
        rest = await call(client, "query", **mine, order_by="/n DESC", skip=2, bookmark=found["bookmark"])
        assert ([one["data"]["n"] for one in rest["records"]], rest["more"]) == ([1, 0], False)
        groups = await call(
            client,
            "query",
            **mine,
            group_by=["/desk"],
            compute=["/desk", "COUNT(1) AS /count"],
            order_by="/desk",
        )
        counts = [one["data"] for one in groups["records"]]
        assert counts == [{"desk": "a", "count": 2}, {"desk": "b", "count": 2}]
        record = await call(client, "record", topic=agents.topic, key=f"{run}3")
        assert record["record"]["n"] == LARGE
        assert (await call(client, "explain", **mine))["explained"]["access_paths"]


@pytest.mark.parametrize("endpoint", ENDPOINTS)
async def test_an_agent_misses_no_change(agents: Agents, endpoint: str) -> None:
    """From call to call, by the bookmark of the one before, whichever limit it has."""
    run = uuid.uuid4().hex
    mine: dict[str, Any] = {"topic": agents.topic, "filter": f"/run = '{run}'"}
    async with agent(agents, endpoint) as client:
        begun = await call(client, "changes", **mine)
        assert (begun["changes"], begun["more"]) == ([], False)
        agents.write(*({"id": f"{run}{n}", "run": run, "n": n} for n in range(5)))
        agents.write({"id": f"{run}0", "run": "other", "n": 0})
        seen, bookmark, more = [], begun["bookmark"], True
        while more:
            answer = await call(client, "changes", **mine, after=bookmark, limit=2)
            seen += answer["changes"]
            bookmark, more = answer["bookmark"], answer["more"]
        assert sorted(change["data"]["n"] for change in seen if change["change"] == "publish") == [*range(5)]
        (left,) = [change for change in seen if change["change"] == "oof"]
        assert (left["reason"], left["data"]["id"]) == ("match", f"{run}0")
        assert (await call(client, "changes", **mine, after=bookmark))["changes"] == []


@pytest.mark.parametrize("endpoint", ENDPOINTS)
async def test_an_agent_waits(agents: Agents, endpoint: str) -> None:
    """For a record that is there, for one that comes, and in vain: then it goes on from the bookmark."""
    run = uuid.uuid4().hex
    mine: dict[str, Any] = {"topic": agents.topic, "filter": f"/run = '{run}'"}
    async with agent(agents, endpoint) as client:
        vain = await call(client, "wait_for", **mine, seconds=0.1)
        assert (vain["matched"], vain["records"]) == (False, [])
        agents.write({"id": run, "run": run, "n": 1})
        after = await call(client, "wait_for", **mine, after=vain["bookmark"], seconds=50)
        assert (after["matched"], after["records"][0]["data"]["n"]) == (True, 1)
        there = await call(client, "wait_for", **mine)
        assert (there["matched"], there["records"][0]["data"]["n"]) == (True, 1)
        waiting = asyncio.create_task(call(client, "wait_for", **mine, after=after["bookmark"], seconds=50))
        await asyncio.to_thread(agents.write, {"id": run, "run": run, "n": 2})
        assert (await waiting)["records"][0]["data"]["n"] == 2


@pytest.mark.parametrize("endpoint", ENDPOINTS)
async def test_a_notice_only_tells_to_read_again(agents: Agents, endpoint: str) -> None:
    """It has the address; the changes are read from there, with the rights of the reader."""
    run = uuid.uuid4().hex
    async with agent(agents, endpoint) as client:
        begun = await read(client, address_of(agents.topic))
        address = address_of(agents.topic, filter=f"/run = '{run}'", after=begun["bookmark"])
        async with client.listen(resource_subscriptions=[address]) as notices:
            await asyncio.to_thread(agents.write, {"id": run, "run": run, "n": 1})
            notice = await asyncio.wait_for(anext(notices), SECONDS_MAX)
            assert notice == ResourceUpdated(uri=address)
        changes = (await read(client, address))["changes"]
        assert [change["data"]["n"] for change in changes] == [1]


@pytest.mark.parametrize("endpoint", ENDPOINTS)
async def test_a_restricted_agent_learns_nothing(agents: Agents, endpoint: str) -> None:
    """No topic, no record, no name and no value of a field that its role does not have."""
    run = uuid.uuid4().hex
    secret = f"secret{run}"
    agents.write(
        {"id": f"{run}a", "desk": "a", "n": 1, secret: secret},
        {"id": f"{run}b", "desk": "b", "n": 2, secret: secret},
    )
    agents.write({"id": run, secret: secret}, topic=agents.hidden)
    own: dict[str, Any] = {"topic": agents.topic}
    async with agent(agents, endpoint, "ada") as client:
        texts = [
            json.dumps(await call(client, tool, **arguments))
            for tool, arguments in (
                ("topics", {}),
                ("fields", own),
                ("query", {**own, "limit": 1000}),
                ("changes", {**own, "after": "epoch", "limit": 1000}),
                ("record", {**own, "key": f"{run}a"}),
                ("explain", own),
                ("wait_for", own),
            )
        ]
        texts += [str(await client.list_resources()), str(await client.list_tools())]
    assert [text for text in texts if secret in text or f"{run}b" in text or agents.hidden in text] == []
    assert [f"{run}a" in text for text in texts[2:5]] == [True, True, True]


@pytest.mark.parametrize("endpoint", ENDPOINTS)
async def test_refusals_reveal_nothing(agents: Agents, endpoint: str) -> None:
    """What the role does not have is refused like what does not exist, and a field like any other."""
    run = uuid.uuid4().hex
    agents.write({"id": run, "desk": "b", "price": 1})
    own: dict[str, Any] = {"topic": agents.topic}
    async with agent(agents, endpoint, "ada") as client:
        hidden, absent = [await refusal(client, "record", **own, key=key) for key in (run, "absent")]
        assert hidden.replace(run, "absent") == absent
        for tool in ("query", "fields", "changes", "wait_for", "explain"):
            hidden, absent = [await refusal(client, tool, topic=name) for name in (agents.hidden, "absent")]
            assert hidden.replace(agents.hidden, "absent") == absent
            assert hidden.startswith("not entitled: ")
        for tool, arguments in (
            ("query", {"order_by": "/price"}),
            ("query", {"filter": "/price = 1"}),
            ("query", {"group_by": ["/price"], "compute": ["/price", "COUNT(1) AS /n"]}),
            ("changes", {"filter": "/price = 1"}),
            ("wait_for", {"filter": "/price = 1"}),
            ("explain", {"filter": "/price = 1"}),
        ):
            hidden = await refusal(client, tool, **own, **arguments)
            asked = json.loads(json.dumps(arguments).replace("/price", "/absent"))
            absent = await refusal(client, tool, **own, **asked)
            assert hidden.replace("/price", "/absent") == absent
            assert hidden.startswith("not entitled: ")


@pytest.mark.parametrize("endpoint", ENDPOINTS)
async def test_a_restricted_agent_hears_nothing(agents: Agents, endpoint: str) -> None:
    """An address is refused before anything is acknowledged; no change of a hidden record or field is a notice."""
    run = uuid.uuid4().hex
    async with agent(agents, endpoint, "ada") as client:
        for address in (
            address_of(agents.hidden),
            address_of(agents.topic, filter="/price = 1"),
            "file:///etc/passwd",
        ):
            with pytest.raises(MCPError) as refused:
                async with client.listen(resource_subscriptions=[address_of(agents.topic), address]):
                    pass
            assert refused.value.message.startswith(("not entitled: ", "bad request: "))
            with pytest.raises(MCPError):
                await client.read_resource(address)
        # Of the two records, the role may read the second one alone: its notice would be the later one.
        hidden, shown = (address_of(agents.topic, filter=f"/id = '{run}{desk}'") for desk in "ba")
        async with client.listen(resource_subscriptions=[hidden, shown]) as notices:
            for desk in "ba":
                record = {"id": f"{run}{desk}", "desk": desk, "n": 1}
                await asyncio.to_thread(agents.write, record)
            notice = await asyncio.wait_for(anext(notices), SECONDS_MAX)
            assert notice == ResourceUpdated(uri=shown)


@pytest.mark.parametrize("endpoint", ENDPOINTS)
async def test_an_agent_writes_by_a_right(agents: Agents, endpoint: str) -> None:
    """Within the role's entitlement to write; no other agent has the tools, whatever else its user may write."""
    run = uuid.uuid4().hex
    own: dict[str, Any] = {"topic": agents.topic}
    async with agent(agents, endpoint, "eve") as client:
        tools = {tool.name: tool.annotations for tool in (await client.list_tools()).tools}
        assert [*tools] == [tool.name for tool in (*TOOLS, *WRITE_TOOLS)]
        assert tools["delete"] is not None
        assert (tools["delete"].read_only_hint, tools["delete"].destructive_hint) == (False, True)
        await call(client, "publish", **own, record={"id": run, "desk": "a", "n": LARGE})
        await call(client, "publish", **own, record={"id": run, "more": 1}, merge=True)
        (found,) = (await call(client, "query", **own, filter=f"/id = '{run}'"))["records"]
        assert found["data"] == {"id": run, "desk": "a", "n": LARGE, "more": 1}
        refused = await refusal(client, "publish", **own, record={"id": f"{run}b", "desk": "b"})
        assert refused.startswith("not entitled: ")
        deleted = await call(client, "delete", **own, sow_keys=[found["sow_key"]])
        assert deleted["records_deleted"] == 1
    async with agent(agents, endpoint, "root") as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == [tool.name for tool in TOOLS]
        refused = await refusal(client, "publish", **own, record={"id": run})
        assert refused == "not entitled: expected a user with a role that has `agent_writes`, got one without"
        assert (await refusal(client, "delete", **own, sow_keys=["1"])) == refused


@pytest.mark.parametrize("endpoint", ["query_service", "gateway"])
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": f"Bearer {TOKENS['root']}", "Origin": "https://evil.example"}, 403),
        ({"Authorization": f"Bearer {TOKENS['root']}", "Host": "evil.example"}, 403),
    ],
)
def test_who_may_not_call(agents: Agents, endpoint: str, headers: dict[str, str], status: int) -> None:
    """A token is required, as for all records, and a page of another origin is refused."""
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    accept = {"Accept": "application/json, text/event-stream"}
    answer = httpx2.post(f"{agents.url(endpoint)}/mcp", json=body, headers=accept | headers)
    assert answer.status_code == status
    assert answer.json()["reason"] in ("logon required", "auth failure", "origin refused")


def test_there_are_no_sessions(agents: Agents) -> None:
    """What would open or end one is not there, and no answer names one."""
    headers = {
        "Authorization": f"Bearer {TOKENS['root']}",
        "Accept": "application/json, text/event-stream",
    }
    url = f"{agents.query.url}/mcp"
    assert [httpx2.request(method, url, headers=headers).status_code for method in ("GET", "DELETE")] == [
        405,
        405,
    ]
    answer = httpx2.post(url, json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, headers=headers)
    assert answer.status_code == 200
    assert "mcp-session-id" not in answer.headers


async def test_the_settings_of_an_agent(agents: Agents) -> None:
    """Those of docs/agents.md, by which an agent starts the command, but for the directory and the address."""
    (block,) = [block for block in blocks_of("docs/agents.md") if block.language == "json"]
    (given,) = json.loads(block.text)["mcpServers"].values()
    assert given["command"] == "sowline"
    arguments = [argument.replace("http://127.0.0.1:8080", agents.query.url) for argument in given["args"]]
    environment = {**os.environ, "SOWLINE_TOKEN": TOKENS["root"]}
    command = StdioServerParameters(
        command=sys.executable, args=["-m", "sowline", *arguments], env=environment
    )
    async with Client(command) as client:
        assert (await call(client, "topics"))["topics"]
