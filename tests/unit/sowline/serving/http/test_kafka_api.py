"""What an administrator sees of Kafka, by the rights to the topic."""

from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from starlette.requests import Request

from sowline.config.topics import parse_topics
from sowline.language.filter import compile_filter
from sowline.model.select import parse_select
from sowline.serving.authorization.entitlements import Entitlement, Rights, to_read
from sowline.serving.http.kafka_api import KafkaApi
from sowline.serving.http.tails import TailKind

TOPICS = {
    topic.name: topic
    for topic in parse_topics(
        """
topics:
  - {name: orders, key: /id}
  - {name: accounts, key: /id}
views:
  - name: open
    from: orders
    filter: /open = true
    join: [{topic: accounts, on: "/account = /id", as: account}]
    projection: [/id]
  - {name: few, from: open, filter: /id < 3}
"""
    ).topics
}


def request_of(rights: Rights, topic: str) -> Request:
    """Return a request for a page of a topic by a user with these rights; its limit is invalid."""
    state = {"identity": SimpleNamespace(rights=rights)}
    about = {"path": "/", "headers": [], "query_string": b"limit=0", "path_params": {"topic": topic}}
    return Request({"type": "http", "method": "GET", "state": state, **about})


async def refusal(rights: Rights, kind: TailKind, topic: str = "orders") -> dict[str, str]:
    """Return how the request is refused."""
    answer = await KafkaApi({}, TOPICS).tail(kind, request_of(rights, topic))
    refused: dict[str, str] = orjson.loads(answer.body)
    return refused


async def reason_of(rights: Rights, kind: TailKind) -> str:
    """Return why the request is refused."""
    return (await refusal(rights, kind))["reason"]


@pytest.mark.parametrize("kind", TailKind)
@pytest.mark.parametrize(
    "seen", [{"filter": compile_filter("/g = 'a'")}, {"select": parse_select("[-/,+/id]")}], ids=repr
)
async def test_an_administrator_with_a_filter_sees_no_messages(kind: TailKind, seen: dict[str, Any]) -> None:
    """Messages in Kafka are whole, so `admin` is not enough: they demand the right to read all of the topic."""
    assert (
        await reason_of(Rights(to_read(Entitlement("orders", **seen)), is_admin=True), kind) == "not entitled"
    )
    whole = to_read(Entitlement("orders"))
    assert await reason_of(Rights(whole, is_admin=True), kind) == "bad request"
    assert await reason_of(Rights(whole), kind) == "not entitled"


@pytest.mark.parametrize(
    "seen", [{}, {"filter": compile_filter("/g = 'a'")}, {"select": parse_select("[-/,+/id]")}]
)
@pytest.mark.parametrize("hidden", ["orders", "accounts"])
@pytest.mark.parametrize("kind", TailKind)
async def test_the_messages_of_a_view_demand_the_right_to_what_it_reads(
    kind: TailKind, hidden: str, seen: dict[str, Any]
) -> None:
    """They hold records and fields of each topic that the view reads, also those that the view leaves out."""
    others = [Entitlement(name) for name in ("open", "orders", "accounts") if name != hidden]
    rights = Rights(to_read(*others, *([Entitlement(hidden, **seen)] if seen else [])), is_admin=True)
    refused = await refusal(rights, kind, "open")
    assert refused["reason"] == "not entitled"
    assert f"open.partials, its changes and its dead letters hold data of {hidden}" in refused["message"]


@pytest.mark.parametrize("kind", TailKind)
async def test_the_messages_of_a_view_of_a_view_show_that_view(kind: TailKind) -> None:
    """The right to what that one reads is not needed."""
    rights = Rights(to_read(Entitlement("few"), Entitlement("open")), is_admin=True)
    assert (await refusal(rights, kind, "few"))["reason"] == "bad request"
    everything = Rights(to_read(Entitlement("^.*")), is_admin=True)
    assert (await refusal(everything, kind, "open"))["reason"] == "bad request"
