"""Checks that XML can express the changes of a delta in JSON."""

from typing import Any

from sowline.codecs.errors import bad_message
from sowline.codecs.schemaless import excerpt
from sowline.codecs.xml.nodes import TEXT
from sowline.errors import SowlineError


def check_shows(delta: Any, read: Any) -> None:
    """Raise `bad message` unless a delta and the delta that is read from its XML change the same."""
    pairs = [("", delta, read)]
    while pairs:
        name, one, other = pairs.pop()
        one = _text_of(one)
        if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
            pairs.extend((name, *values) for values in zip(one, other, strict=True))
        elif isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
            pairs.extend((member, value, other[member]) for member, value in one.items())
        elif isinstance(one, dict | list) or isinstance(other, dict | list):
            raise _not_shown(name)


def _text_of(value: Any) -> Any:
    """Return the text of an object that has nothing else."""
    return value[TEXT] if isinstance(value, dict) and value.keys() == {TEXT} else value


def _not_shown(name: str) -> SowlineError:
    return bad_message(
        f"expected a delta that XML can show, got a value of {excerpt(name)} that it can't, such as an empty array,"
        " an array of one element, or an empty object: publish the whole record, or add the element to"
        " message_format.lists"
    )
