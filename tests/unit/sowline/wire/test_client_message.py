"""Messages as a client receives them."""

import pytest

from sowline.errors import SowlineError
from sowline.wire.client_message import Message, read_frame
from sowline.wire.typed_frame import write_typed


def messages(frame: str) -> list[Message]:
    """Return the messages of a frame as the caller gets them."""
    return [message for received in read_frame(frame.encode()) for message in received.messages()]


def test_a_batch_of_records_comes_one_by_one() -> None:
    """A `sow` message of many records is many messages, each with its own body as it was sent."""
    one, two = messages(
        '{"command":"sow","query_id":"q","topic":"orders","records":['
        '{"sow_key":"1","updated_at":"orders:0@5","data":{ "id": 1.50 }},'
        '{"updated_at":"orders:0@6","timestamp":"T","rank":7,"data":{}}]}'
    )
    assert one == Message("sow", "orders", "1", b'{ "id": 1.50 }', updated_at="orders:0@5")
    assert (two.sow_key, two.timestamp, two.rank, two.data) == (None, "T", 7, {})
    assert one.data == {"id": 1.5}


def test_groups_and_changes_keep_their_fields() -> None:
    """Count, hash, bookmark, reason and reset are there where they were sent."""
    begin, end, oof = messages(
        '[{"command":"group_begin","query_id":"q","bookmark":"orders:0@1","reset":true},'
        '{"command":"group_end","query_id":"q","bookmark":"orders:0@1","records":2,"hash":"9f"},'
        '{"command":"oof","sids":["s"],"bookmark":"orders:0@2","reason":"match","sow_key":"1","data":{"a":1}}]'
    )
    assert (begin.reset, begin.bookmark, begin.data) == (True, "orders:0@1", {})
    assert (end.records, end.hash, end.reset) == (2, "9f", False)
    assert (oof.command, oof.reason, oof.body) == ("oof", "match", b'{"a":1}')


@pytest.mark.parametrize(
    ("fields", "streams"),
    [
        ('"sids":["a","b"]', ("a", "b")),
        ('"query_id":"q","command_id":"1"', ("q",)),
        ('"sub_id":"s","command_id":"1"', ("s",)),
        ('"command_id":"1"', ("1",)),
    ],
)
def test_a_message_names_who_it_is_for(fields: str, streams: tuple[str, ...]) -> None:
    """By its subscriptions, its query, or the command it answers."""
    (received,) = read_frame(f'{{"command":"ack",{fields}}}'.encode())
    assert received.streams == streams


def test_fields_of_later_servers_do_not_matter() -> None:
    """A client reads messages that say more than it knows."""
    assert messages('{"command":"publish","color":"red","data":{}}')[0].command == "publish"


@pytest.mark.parametrize("frame", ['{"command":"replay"}', '[{"command":"ack"},{}]', '{"command":', '"ack"'])
def test_a_frame_that_is_not_known_is_refused(frame: str) -> None:
    """Nothing is guessed about a message that the protocol does not have."""
    with pytest.raises(SowlineError) as error:
        read_frame(frame.encode())
    assert error.value.reason == "bad message"


def test_progress_is_silent() -> None:
    """It moves the bookmark on; with a checksum it is for the subscriber."""
    (progress,) = messages('{"command":"progress","sids":["s"],"bookmark":"orders:0@5"}')
    (proof,) = messages('{"command":"progress","sids":["s"],"bookmark":"orders:0@5","hash":"9f"}')
    assert (progress.is_silent, proof.is_silent) == (True, False)


def typed_frame(text: bytes, bodies: bytes) -> bytes:
    """Return a binary frame: messages, and bodies in the topic's message type."""
    return write_typed(text, [bodies])


def test_bodies_of_a_binary_frame_are_bytes() -> None:
    """Each message has as many as it names."""
    (received,) = read_frame(typed_frame(b'{"command":"publish","sids":["s"],"size":3}', b"abc"))
    (one,) = received.messages()
    assert (one.native, one.data) == (True, b"abc")


def test_bodies_that_do_not_fit_are_refused() -> None:
    """A reader would take a part of the next body."""
    with pytest.raises(SowlineError, match="expected bodies of 3 bytes after the messages, got 4"):
        read_frame(typed_frame(b'{"command":"publish","sids":["s"],"size":3}', b"abcd"))


def test_a_record_that_has_no_message_names_the_problem() -> None:
    """Its data is asked for by the caller, who gets the reason."""
    (one,) = messages('{"command":"publish","sids":["s"],"problem":"no such field"}')
    with pytest.raises(SowlineError, match="no such field") as error:
        one.data  # noqa: B018 - reading it is the test
    assert error.value.reason == "bad message"
