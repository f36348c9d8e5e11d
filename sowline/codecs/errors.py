"""The errors that every codec raises, by their reasons, and the first check of a message in JSON."""

from typing import Any

from sowline.errors import SowlineError
from sowline.model.body import read_object


def bad_message(message: str) -> SowlineError:
    """Return the error for bytes or JSON that are not a message of the type."""
    return SowlineError("bad message", message)


def bad_schema(message: str) -> SowlineError:
    """Return the error for a schema, or options of a message type, that can't be used."""
    return SowlineError("bad schema", message)


def incompatible_schema(message: str) -> SowlineError:
    """Return the error for a reader schema that can't read messages written under another one."""
    return SowlineError("incompatible schema", message)


def json_object(body: bytes) -> dict[str, Any]:
    """Return the parsed JSON object of a message; raise `bad message` if it is not an object or nests too deep."""
    try:
        return read_object(body)
    except SowlineError as error:
        raise bad_message(error.message) from None
