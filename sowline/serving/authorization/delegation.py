"""The rights that a gateway hands to a query service, as HTTP headers. Pure.

A gateway authenticates its clients, and asks query services on their behalf. With each connection or request it sends
the rights of the client as one role, as in an access file, in packed JSON. Only a user whose role has `gateway`
may do so.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Sequence
from functools import lru_cache
from zlib import compress, decompressobj
from zlib import error as zlib_error

from sowline.errors import SowlineError
from sowline.serving.authorization.entitlements import NOT_ENTITLED, Entitlement, Rights, Role, rights_of
from sowline.serving.authorization.identity import Identity

HEADER = "sowline-act-with"

LINE_CHARS = 4096
"""Characters of one header; servers limit them."""

CHARS_MAX = 12 * 1024
BYTES_MAX = 1 << 20
"""Limit of the text of the rights, unpacked."""


def headers_of(rights: Rights) -> list[tuple[str, str]]:
    """Return the headers for these rights: their text in several headers of one name, if it is long.

    Raise `not supported` if it is so long that servers refuse it.
    """
    # Without `gateway`: a client of a gateway never acts for others.
    role = {
        "read": [_described(one) for one in rights.read],
        "write": [_described(one) for one in rights.write],
        "admin": rights.is_admin,
    }
    text = b64encode(compress(json.dumps(role).encode())).decode()
    if len(text) > CHARS_MAX:
        raise SowlineError(
            "not supported",
            f"expected rights of at most {CHARS_MAX} characters for a user of a gateway, got {len(text)}: give the"
            " user fewer roles",
        )
    return [(HEADER, text[start : start + LINE_CHARS]) for start in range(0, len(text), LINE_CHARS)]


def _described(entitlement: Entitlement) -> dict[str, str]:
    select = {} if entitlement.select is None else {"select": entitlement.select.text}
    return {"topics": entitlement.topics, "filter": entitlement.filter.text, **select}


def acting(identity: Identity, headers: Sequence[str]) -> Identity:
    """Return the identity of a gateway with the rights in the headers; raise `not entitled` or `bad request`."""
    if not identity.own_rights.is_gateway:
        raise SowlineError(
            NOT_ENTITLED,
            f"expected a user with a role that has `gateway`, got one without: {HEADER} is for gateways",
        )
    return identity.acting_with(_read("".join(headers)))


# A gateway sends the rights of a client with each of its requests, and to read them compiles their filters.
@lru_cache(maxsize=10_000)
def _read(header: str) -> Rights:
    unpacking = decompressobj()
    try:
        # Bounded: a few kilobytes of header may unpack to gigabytes.
        text = unpacking.decompress(b64decode(header, validate=True), BYTES_MAX)
        role = Role.model_validate_json(text)
    except (ValueError, zlib_error) as error:
        raise SowlineError(
            "bad request", f"expected a role as packed JSON in the header {HEADER}: {type(error).__name__}"
        ) from None
    return rights_of({"client": role}, ["client"])
