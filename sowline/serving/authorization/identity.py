"""The identity of a client: its proof, and the rights that the access file gives it."""

from dataclasses import dataclass, replace
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
    """A user with the rights in the access file, `own_rights`; `user` is empty if no logon is needed."""

    user: str
    roles: tuple[str, ...]
    own_rights: Rights
    proof: Proof
    delegated: Rights | None = None
    """The rights of the client that a gateway acts for; they replace the gateway's rights."""

    @property
    def rights(self) -> Rights:
        """The rights that apply."""
        return self.own_rights if self.delegated is None else self.delegated

    def acting_with(self, rights: Rights | None) -> "Identity":
        """Return this identity with the rights of the client that it acts for; None for its own rights."""
        return replace(self, delegated=rights)

    def may_become(self, other: "Identity") -> bool:
        """Return whether a connection may continue with another identity: the same user with the same rights."""
        # By rights and not by roles: a role that is renamed, or split in two, disconnects nobody
        # (test_a_connection_continues_as_the_same_user_with_the_same_rights).
        return (self.user, self.own_rights.digest) == (other.user, other.own_rights.digest)


NOTHING = Proof("nothing")

ANYBODY = Identity("", (), EVERYTHING, NOTHING)
"""The identity of every client without an access file."""
