"""The rights that a gateway hands to a query service, as the value of an HTTP header. Pure.

A gateway authenticates its clients, and asks query services on their behalf. With each connection or request it sends
the rights of the client as one role, as an access file has it, in JSON. Only a user whose role has `gateway` may do
so.
"""

import json
from functools import lru_cache

from pydantic import ValidationError

from sowline.errors import SowlineError
from sowline.serving.authorization.entitlements import NOT_ENTITLED, Entitlement, Rights, Role, rights_of
from sowline.serving.authorization.identity import Identity

HEADER = "sowline-act-with"


def header_of(rights: Rights) -> str:
    """Return the header value for these rights. It is ASCII; `acting` reads it."""
    role = {
        "read": [_described(one) for one in rights.read],
        "write": [_described(one) for one in rights.write],
        "admin": rights.is_admin,
    }
    return json.dumps(role)


def _described(entitlement: Entitlement) -> dict[str, str]:
    select = {} if entitlement.select is None else {"select": entitlement.select.text}
    return {"topics": entitlement.topics, "filter": entitlement.filter.text, **select}


def acting(identity: Identity, header: str) -> Identity:
    """Return the identity of a gateway with the rights in the header; raise `not entitled` or `bad request`."""
    if not identity.own_rights.is_gateway:
        raise SowlineError(
            NOT_ENTITLED, f"expected a user with a role that has `gateway`, to send the header {HEADER}"
        )
    return identity.acting_with(_read(header))


@lru_cache(maxsize=10_000)
def _read(header: str) -> Rights:
    try:
        role = Role.model_validate_json(header)
    except ValidationError as error:
        raise SowlineError(
            "bad request", f"expected a role as JSON in the header {HEADER}: {error.errors()[0]['msg']}"
        ) from None
    return rights_of({"client": role}, ["client"])
