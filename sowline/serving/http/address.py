"""Addresses of records: the topic and the key that the path of a request names, as it was sent. Pure.

Slashes in the names of topics stay as they are. In a key, they are percent-encoded, like all characters that are not
part of a path.
"""

from collections.abc import Collection
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from sowline.errors import SowlineError

BEFORE = "/v1/topics/"
BETWEEN = "/records/"


class Address(NamedTuple):
    """A topic's name, a record's key text, and the requested part of the record; empty for the record itself."""

    topic: str
    key: str
    what: str = ""


def read_address(path: str, topics: Collection[str]) -> Address:
    """Read `/v1/topics/{topic}/records/{key}` or `…/{key}/{what}`.

    If several ways are possible, the first whose topic exists counts. Raise `bad request` for any other path, or if
    it is not UTF-8.
    """
    # The path as it was sent: once it is decoded, a slash of a key looks like one between the parts
    # (test_an_address).
    parts = path.removeprefix(BEFORE).split(BETWEEN)
    found = []
    for count in range(1, len(parts)):
        key, _, what = BETWEEN.join(parts[count:]).partition("/")
        if "/" not in what:
            found.append(Address(_text(BETWEEN.join(parts[:count])), _text(key), _text(what)))
    if not found:
        raise SowlineError(
            "bad request",
            f"expected {BEFORE}{{topic}}{BETWEEN}{{key}}, the slashes of the key percent-encoded, got {path}",
        )
    return next((address for address in found if address.topic in topics), found[0])


def _text(encoded: str) -> str:
    try:
        return unquote_to_bytes(encoded).decode()
    except UnicodeDecodeError:
        raise SowlineError("bad request", f"expected UTF-8, percent-encoded, got {encoded[:60]!r}") from None
