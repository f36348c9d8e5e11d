"""The access file: which users may connect, with which proof, and with which roles. Pure, except for reading it."""

import re
from collections.abc import Iterable
from functools import lru_cache
from hmac import compare_digest
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from sowline.config.plain_numbers import PlainNumbers
from sowline.config.yaml_file import YamlFile
from sowline.errors import SowlineError
from sowline.serving.authorization.entitlements import Rights, Role, rights_of
from sowline.serving.authorization.identity import Identity, Proof

Algorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
"""Algorithms with a key pair: the key that verifies a signature is public."""

LOOPBACK = ("localhost", "127.0.0.1", "::1")

_SHA256 = re.compile("[0-9a-f]{64}")


def _hash(text: str) -> str:
    if not _SHA256.fullmatch(text):
        raise ValueError(
            "expected a SHA-256 as 64 hexadecimal digits, got another text: `sowline token` writes the line"
        )
    return text


def _several(given: Any) -> Any:
    """Accept one text instead of a list of one."""
    return [given] if isinstance(given, str) else given


def _source(text: str) -> str:
    """Accept an https URL or a path; http only on this machine, because with forged keys a client can be any user."""
    url = urlsplit(text)
    if "@" in url.netloc:
        raise ValueError("expected a URL without a name and a password: keys are public")
    if url.scheme == "http" and url.hostname not in LOOPBACK:
        raise ValueError(f"expected an https URL or the path of a file, got http to {url.hostname}")
    if not text or (url.scheme not in ("", "http", "https") and "://" in text):
        raise ValueError(f"expected an https URL or the path of a file, got {text or 'nothing'}")
    return text


Name = Annotated[str, Field(min_length=1, max_length=200)]
Names = tuple[Name, ...]


class _Section(PlainNumbers, BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Token(_Section):
    """A user's token, as its hash."""

    user: Name = Field(description="the token's user")
    sha256: Annotated[str, AfterValidator(_hash)] = Field(description="the token's SHA-256 in hexadecimal")
    roles: Names = Field(default=(), description="the roles of the token")


class Jwt(_Section):
    """An issuer of accepted JSON Web Tokens, and the claims that they must have."""

    issuer: Name = Field(description="the issuer: the required iss")
    audience: Annotated[
        Names, BeforeValidator(_several, json_schema_input_type=Name | Names), Field(min_length=1)
    ] = Field(description="the accepted audiences: aud must contain one of them")
    jwks: Annotated[str, AfterValidator(_source)] = Field(
        description="the issuer's public keys: an https URL, or a file, relative to the access file's directory"
    )
    ca_file: Path | None = Field(
        default=None, description="a PEM file with the authorities to trust for the URL of jwks"
    )
    algorithms: Annotated[tuple[Algorithm, ...], Field(min_length=1)] = Field(
        default=("RS256", "PS256", "ES256", "EdDSA"), description="the signature algorithms to accept"
    )
    user: Name = Field(
        default="sub",
        description="the claim that contains the user's name; dots separate the parts of a nested claim",
    )
    roles: Name = Field(default="roles", description="the claim that contains the user's roles")
    leeway: Annotated[float, Field(ge=0, le=300)] = Field(
        default=10.0, description="the allowed clock difference, in seconds"
    )


class Certificates(_Section):
    """The field of a client's certificate that names the user."""

    user: Literal["common_name", "email", "dns", "uri"] = Field(
        default="common_name", description="the part of the certificate that names the user"
    )


class Access(_Section):
    """The content of an access file."""

    tokens: tuple[Token, ...] = Field(default=(), description="the valid tokens")
    jwt: Jwt | None = Field(default=None, description="the JSON Web Tokens that are accepted")
    certificates: Certificates | None = Field(
        default=None, description="how client certificates identify users"
    )
    users: dict[Name, Names] = Field(
        default_factory=dict, description="additional roles for a user, however the user logs on"
    )
    anonymous: Names = Field(default=(), description="the roles of clients without a token or certificate")
    roles: dict[Name, Role] = Field(default_factory=dict, description="the rights of each role")

    @model_validator(mode="after")
    def _check(self) -> Self:
        named = {role for token in self.tokens for role in token.roles}
        named |= {role for roles in self.users.values() for role in roles} | {*self.anonymous}
        if unknown := sorted(named - self.roles.keys()):
            raise ValueError(f"expected roles that are among `roles`, got {', '.join(unknown)}")
        hashes = [token.sha256 for token in self.tokens]
        if len({*hashes}) < len(hashes):
            raise ValueError("expected a line for each token, got two of one token")
        return self

    def proof_of_token(self, sha256: str) -> Proof | None:
        """Return the proof of the token with this hash, if there is one."""
        # Compare with all tokens, so that the time does not reveal which of them exist.
        found = None
        for token in self.tokens:
            if compare_digest(token.sha256, sha256):
                found = token
        return None if found is None else Proof("token", found.user, found.roles, found.sha256)

    def identity(self, proof: Proof) -> Identity:
        """Return the user of a proof; raise `logon required` or `auth failure`."""
        if proof.kind == "nothing":
            return self._anonymous(proof)
        if not self._stands(proof):
            raise SowlineError(
                "auth failure", "this token or certificate is no longer accepted; log on again with a new one"
            )
        return self._with(proof, proof.user, (*proof.roles, *self.users.get(proof.user, ())))

    def _anonymous(self, proof: Proof) -> Identity:
        if not self.anonymous:
            ways = "a token (Authorization: Bearer …, or the command logon)"
            if self.certificates is not None:
                ways += " or a client certificate"
            raise SowlineError("logon required", f"expected {ways}, got none")
        return self._with(proof, "", self.anonymous)

    def _stands(self, proof: Proof) -> bool:
        """Return whether the file still has the entry for a proof, unchanged."""
        if proof.kind == "token":
            # All of the proof counts: a client whose token has lost a role in the file must present it again
            # (test_a_token_with_other_roles_is_presented_again).
            return self.proof_of_token(proof.source) == proof
        # An issuer that nobody trusts any more is taken out of the file, and its users must leave
        # (test_what_vouches_must_stay).
        if proof.kind == "jwt":
            return self.jwt is not None and self.jwt.issuer == proof.source
        return self.certificates is not None

    def _with(self, proof: Proof, user: str, roles: Iterable[str]) -> Identity:
        named = {*roles}
        held = tuple((name, role) for name, role in self.roles.items() if name in named)
        return Identity(user, tuple(name for name, _ in held), _rights(held), proof)


@lru_cache(maxsize=1000)
def _rights(held: tuple[tuple[str, Role], ...]) -> Rights:
    """Return the combined rights of roles, one object for all users with the same roles."""
    return rights_of(dict(held), [name for name, _ in held])


def parse_access(text: str, name: str = "access.yaml") -> Access:
    """Read the text of an access file; raise `bad configuration` with the line of each mistake."""
    return YamlFile(text, name).read(Access)
