"""Who a client is: what was proved, and what follows from it by the access file."""

from dataclasses import dataclass
from typing import Literal

from query_service.authorization.entitlements import EVERYTHING, Rights

Kind = Literal["nothing", "token", "jwt", "certificate"]


@dataclass(frozen=True, slots=True)
class Proof:
    """What a client proved: by what, who it is, the roles that come with it, and until when, in seconds since 1970.

    `source` tells what vouches for it: the SHA-256 of a token, the issuer of a JWT.
    """

    kind: Kind
    user: str = ""
    roles: tuple[str, ...] = ()
    source: str = ""
    expires: float | None = None


@dataclass(frozen=True, slots=True)
class Identity:
    """A user as the access file has it; `user` is empty where no logon is needed."""

    user: str
    roles: tuple[str, ...]
    rights: Rights
    proof: Proof

    def may_become(self, other: "Identity") -> bool:
        """Tell whether a connection may go on as the other one: the same user, who may do the same."""
        return (self.user, self.rights.digest) == (other.user, other.rights.digest)


NOTHING = Proof("nothing")

ANYBODY = Identity("", (), EVERYTHING, NOTHING)
"""Who comes in where there is no access file."""
