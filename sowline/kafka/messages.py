"""Reads Kafka messages: columns of many messages, headers, and the events of a changes topic.

Only this module reads the headers of messages. Anyone may write to a log, even header names that are not UTF-8.
"""

from collections.abc import Sequence
from operator import methodcaller
from typing import Any

from confluent_kafka import Message

from sowline.changes.event import Event, read_event
from sowline.commands.command import UNREADABLE_HEADERS, Headers


def headers_of(message: Message) -> Headers | None:
    """Return the headers of a message; `UNREADABLE_HEADERS` if the name of one is not UTF-8."""
    try:
        found: Headers | None = _CALL_HEADERS(message)
    except _NOT_READ:
        return _unreadable(message)
    return found


def columns_of(messages: Sequence[Message], *fields: str) -> list[list[Any]]:
    """Return the results of these methods for each message, one list per name; there is at least one message."""
    # The methods of the class, because a call of a bound method takes twice as long.
    kind = type(messages[0])
    return [
        _headers(messages) if field == "headers" else list(map(getattr(kind, field), messages))
        for field in fields
    ]


def event_of(message: Message) -> Event:
    """Return the event in a message of a changes topic.

    Raise ValueError or KeyError if it isn't an event, and `unknown format` if an unknown version of Sowline wrote it.
    """
    return read_event(message.key() or b"", message.value(), headers_of(message))


def _headers(messages: Sequence[Message]) -> list[Headers | None]:
    method, found = type(messages[0]).headers, list[Any]()
    while True:
        # The events read before an error stay in the list.
        try:
            found.extend(map(method, messages[len(found) :] if found else messages))
        except _NOT_READ:
            found.append(_unreadable(messages[len(found)]))
        else:
            return found


_CALL_HEADERS = methodcaller("headers")
"""Calls the method from C. A call from a line of Python that has run often does not see the error: it returns the
list with a NULL in it, and the error comes out of a later line (test_bad_record)."""

_NOT_READ = (SystemError, UnicodeDecodeError)
"""The error that the client raises: its C code decodes the name as text, and returns although that has failed."""


def _unreadable(message: Message) -> Headers:
    # Asked again, the message would return a list with a NULL in it, which ends the process
    # (test_headers_that_can_not_be_read).
    message.set_headers(UNREADABLE_HEADERS)  # type: ignore[arg-type]
    return UNREADABLE_HEADERS
