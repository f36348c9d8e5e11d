"""Acknowledgements over a real WebSocket: of every command every kind, sent once or refused."""

from collections.abc import Iterator

import pytest

from sowline.wire.acks import ACK_TYPES, SENT, refusal
from tests.integration.served import Served, serve
from tests.integration.wire import Json, Wire

FIELDS: dict[str, Json] = {
    "timeline": {"topic": "reviews", "key": "r1"},
    "unsubscribe": {"sub_id": "s"},
    "pause": {"sub_id": "s"},
    "resume": {"sub_id": "s"},
    "heartbeat": {},
    "logon": {},
    "publish": {"topic": "orders", "data": {"id": 1}},
    "delta_publish": {"topic": "orders", "data": {"id": 1}},
    "delta": {"topic": "reviews", "key": "r1", "data": '{"stars":4}'},
    "sow_delete": {"topic": "orders", "filter": "/id = 1"},
    "flush": {},
}
ABOUT_SUBSCRIPTIONS = ("unsubscribe", "pause", "resume")


@pytest.fixture(scope="module")
def served(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A topic of records and one of documents."""
    topics: dict[str, Json] = {
        "orders": {"key": "/id", "partitions": 2},
        "reviews": {"key": "/id", "documents": True},
    }
    with serve(kafka, tmp_path_factory.mktemp("acks"), topics) as served:
        served["orders"].write({"id": 1}, {"id": 2})
        yield served


@pytest.mark.parametrize("ack_type", ACK_TYPES)
@pytest.mark.parametrize("command", SENT)
def test_every_kind_is_sent_or_refused(served: Served, client: Wire, command: str, ack_type: str) -> None:
    """What is refused says why, and nothing else; what is sent comes once."""
    if command in ABOUT_SUBSCRIPTIONS:
        client.send("subscribe", topic=served["orders"].name, sub_id="s", ack_type="processed")
        client.receive()
    fields = FIELDS.get(command, {"topic": "orders"})
    if "topic" in fields:
        fields = fields | {"topic": served[fields["topic"]].name}
    refused = refusal(command, ack_type)
    if refused is not None:
        failure = client.fail(command, ack_type=ack_type, **fields)
        assert (failure["reason"], failure["message"]) == ("invalid ack type", refused.message)
        assert client.heartbeat() == []
        return
    kinds = {ack_type, "processed"} if command == "logon" else {ack_type}
    id = client.send(command, ack_type=ack_type, **fields)
    messages = client.receive_until(
        lambda message: message.get("ack_type") == ack_type and message.get("command_id") == id
    )
    client.send("flush", command_id="last", ack_type="processed")
    messages += client.receive_until(lambda message: message.get("command_id") == "last")[:-1]
    acks = [message for message in messages if message["command"] == "ack"]
    assert {(ack["command_id"], ack["status"]) for ack in acks} == {(id, "success")}
    assert sorted(ack["ack_type"] for ack in acks) == sorted(kinds)
