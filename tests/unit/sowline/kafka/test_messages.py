"""Reading Kafka messages: headers whose names are not UTF-8."""

from typing import cast

import pytest
from confluent_kafka import Message

from sowline.commands.command import UNREADABLE_HEADERS, Headers, read_command
from sowline.errors import SowlineError
from sowline.kafka.messages import columns_of, event_of, headers_of


class Read:
    """A message as the Kafka client returns it; `headers` of one that can't be read may be called only once."""

    def __init__(self, headers: Headers | None, is_readable: bool = True) -> None:
        self._headers, self._is_readable, self._was_asked = headers, is_readable, False

    def topic(self) -> str:
        """The topic's name."""
        return "orders"

    def partition(self) -> int:
        """Its partition."""
        return 0

    def offset(self) -> int:
        """Its offset."""
        return 7

    def timestamp(self) -> tuple[int, int]:
        """The log's time."""
        return 2, 1000

    def key(self) -> bytes | None:
        """The key of a record."""
        return b"1"

    def value(self) -> bytes:
        """A body."""
        return b'{"id":1}'

    def headers(self) -> Headers | None:
        """Raise as the client's C code does."""
        if not self._is_readable:
            assert not self._was_asked, "a second call would return a list with a NULL in it"
            self._was_asked = True
            raise SystemError("returned a result with an exception set")
        return self._headers

    def set_headers(self, headers: Headers) -> None:
        """Replace them."""
        self._headers, self._is_readable = headers, True


def messages(*readable: bool) -> list[Message]:
    """Return messages with a header, some of which can't be read."""
    return [cast("Message", Read([("n", b"%d" % n)], is_readable)) for n, is_readable in enumerate(readable)]


@pytest.mark.parametrize(
    "readable", [(False,), (False, False), (True, False, True), (False, True, False), (True, True)]
)
def test_headers_that_can_not_be_read(readable: tuple[bool, ...]) -> None:
    """Each message is asked once, however often its headers are read; the others' are what they are."""
    read = messages(*readable)
    expected = [
        [("n", b"%d" % n)] if is_readable else UNREADABLE_HEADERS for n, is_readable in enumerate(readable)
    ]
    assert columns_of(read, "headers", "offset") == [expected, [7] * len(read)]
    assert columns_of(read, "headers") == [expected]
    assert [headers_of(one) for one in read] == expected


def test_messages_without_headers() -> None:
    """None stays None."""
    assert headers_of(cast("Message", Read(None))) is None


def test_no_command_can_be_read() -> None:
    """The core refuses such a record, and the sentence says why."""
    with pytest.raises(SowlineError, match="expected header names in UTF-8") as refused:
        read_command(headers_of(messages(False)[0]))
    assert refused.value.reason == "bad header"


def test_in_a_changes_topic_it_is_no_event() -> None:
    """Sowline wrote no such message there."""
    with pytest.raises(ValueError, match="expected a change with a 'sow' header"):
        event_of(messages(False)[0])


def test_the_native_core_leaves_it_to_python() -> None:
    """Both cores get the same headers, so neither applies the record."""
    native = pytest.importorskip("sowline_native")
    fields = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
    read = native.by_partition(*columns_of(messages(True, False), *fields), {("orders", 0): None})
    assert [record.headers for record in read["orders", 0]] == [[("n", b"0")], UNREADABLE_HEADERS]
