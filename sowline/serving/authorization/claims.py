"""Verifies JSON Web Tokens: the signature, the required claims, the user, the roles. No I/O."""

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import jwt

from sowline.serving.authorization.access_file import Jwt
from sowline.serving.authorization.identity import Proof

_WHY: tuple[tuple[type[Exception], str], ...] = (
    (jwt.ExpiredSignatureError, "expired"),
    (jwt.ImmatureSignatureError, "not yet valid"),
    (jwt.InvalidIssuedAtError, "not yet valid"),
    (jwt.InvalidAudienceError, "wrong audience"),
    (jwt.InvalidIssuerError, "wrong issuer"),
    (jwt.MissingRequiredClaimError, "claim missing"),
    (jwt.InvalidSignatureError, "wrong signature"),
    (jwt.InvalidAlgorithmError, "wrong algorithm"),
    (jwt.InvalidKeyError, "wrong key"),
    (TypeError, "wrong key"),
)

UNSIGNED = ("unknown key", "wrong signature", "wrong key")
"""The causes for which a token that no key has signed proves nothing."""


class NotProved(Exception):
    """A token is not accepted; the text is the cause, two words from a short list."""


class SignatureHeader(NamedTuple):
    """The signature's parameters in a token's header, which is not verified yet."""

    algorithm: str
    key_id: str


def signed_by(token: str, rules: Jwt) -> SignatureHeader:
    """Return the signature's parameters of a token; raise NotProved if they are not accepted."""
    try:
        header = jwt.get_unverified_header(token)
    except (jwt.InvalidTokenError, UnicodeError):
        raise NotProved("malformed") from None
    algorithm, key_id = header.get("alg"), header.get("kid", "")
    # The header is not verified. With an HMAC, an attacker could sign with the public key as the secret
    # (test_only_signatures_by_a_key_pair).
    if algorithm not in rules.algorithms:
        raise NotProved("wrong algorithm")
    return SignatureHeader(algorithm, key_id if isinstance(key_id, str) else "")


def proof_of(token: str, rules: Jwt, algorithm: str, keys: Iterable[Any]) -> Proof:
    """Return the proof of a token, which one of the keys must have signed; raise NotProved."""
    why = "unknown key"
    for key in keys:
        try:
            return _proof(_claims(token, rules, algorithm, key), rules)
        except (jwt.InvalidTokenError, jwt.InvalidKeyError, TypeError, ValueError, OverflowError) as error:
            why = next((why for kind, why in _WHY if isinstance(error, kind)), "malformed")
    raise NotProved(why)


def _claims(token: str, rules: Jwt, algorithm: str, key: Any) -> Mapping[str, Any]:
    claims: dict[str, Any] = jwt.decode(
        token,
        key,
        algorithms=[algorithm],
        audience=rules.audience,
        issuer=rules.issuer,
        leeway=rules.leeway,
        # Otherwise `exp` is checked only if a token has it: one without it would never expire
        # (test_what_proves_nothing).
        options={"require": ["exp", "iss", "aud"]},
    )
    return claims


def _proof(claims: Mapping[str, Any], rules: Jwt) -> Proof:
    user, end = claim(claims, rules.user), float(claims["exp"])
    if not isinstance(user, str) or not user or not math.isfinite(end):
        raise NotProved("claim missing")
    # With the leeway, as the token was checked: a client that is sent away could come back with it at once
    # (test_a_good_one).
    return Proof("jwt", user, _roles(claim(claims, rules.roles)), rules.issuer, end + rules.leeway)


def claim(claims: Mapping[str, Any], name: str) -> Any:
    """Return a claim by its name, or by a dotted path; None if there is none."""
    # Issuers name their own claims by URLs, whose dots are no path (test_roles_under_a_url).
    if name in claims:
        return claims[name]
    found: Any = claims
    for step in name.split("."):
        found = found.get(step) if isinstance(found, Mapping) else None
    return found


def _roles(given: Any) -> tuple[str, ...]:
    """Return the roles in a claim: a list, or a text with blanks in between; other values have none."""
    listed = given.split() if isinstance(given, str) else given if isinstance(given, list) else ()
    return tuple(role for role in listed if isinstance(role, str))
