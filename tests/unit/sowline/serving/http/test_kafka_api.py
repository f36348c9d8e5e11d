"""What an administrator sees of Kafka, by the rights to the topic."""

from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from starlette.requests import Request

from sowline.config.topic_definition import TopicDefinition
from sowline.filter import compile_filter
from sowline.model.select import parse_select
from sowline.serving.authorization.entitlements import Entitlement, Rights, to_read
from sowline.serving.http.kafka_api import KafkaApi
from sowline.serving.http.tails import TailKind

ORDERS = TopicDefinition.model_validate({"name": "orders", "key": "/id"})


def request_of(rights: Rights) -> Request:
    """Return a request for a page of the topic by a user with these rights; its limit is invalid."""
    state = {"identity": SimpleNamespace(rights=rights)}
    about = {"path": "/", "headers": [], "query_string": b"limit=0", "path_params": {"topic": "orders"}}
    return Request({"type": "http", "method": "GET", "state": state, **about})


async def reason_of(rights: Rights, kind: TailKind) -> str:
    """Return why the request is refused."""
    answer = await KafkaApi({}, {"orders": ORDERS}).tail(kind, request_of(rights))
    return str(orjson.loads(answer.body)["reason"])


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
