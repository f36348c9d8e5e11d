"""The identity of a client: its proof, and the rights that the access file gives it."""

from dataclasses import dataclass
from typing import Literal

from sowline.serving.authorization.entitlements import EVERYTHING, Rights

Kind = Literal["nothing", "token", "jwt", "certificate"]


@dataclass(frozen=True, slots=True)
class Proof:
    """The proof of a client: its kind, the user, the roles in it, and its expiry in seconds since 1970.

    `source` is the SHA-256 of a token, or the issuer of a JWT.
    """

    kind: Kind
    user: str = ""
    roles: tuple[str, ...] = ()
    source: str = ""
    expires: float | None = None


@dataclass(frozen=True, slots=True)
class Identity:
    """A user with the rights in the access file; `user` is empty if no logon is needed."""

    user: str
    roles: tuple[str, ...]
    rights: Rights
    proof: Proof

    def may_become(self, other: "Identity") -> bool:
        """Return whether a connection may continue with another identity: the same user with the same rights."""
        return (self.user, self.rights.digest) == (other.user, other.rights.digest)


NOTHING = Proof("nothing")

ANYBODY = Identity("", (), EVERYTHING, NOTHING)
"""The identity of every client without an access file."""
