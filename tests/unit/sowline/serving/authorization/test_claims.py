"""JSON Web Tokens: what proves somebody, and all that does not."""

import json
import time
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from sowline.serving.access.keys import read_keys
from sowline.serving.authorization.access_file import Jwt
from sowline.serving.authorization.claims import NotProved, proof_of, signed_by

RULES = Jwt(issuer="https://issuer", audience=("sowline",), jwks="keys.json", roles="realm.roles")
KEY = ec.generate_private_key(ec.SECP256R1())
OTHER = ec.generate_private_key(ec.SECP256R1())


def signed(key: Any = KEY, algorithm: str = "ES256", **claims: Any) -> str:
    """Return a token; claims that are None are left out."""
    usual = {"iss": "https://issuer", "aud": "sowline", "sub": "ada", "exp": time.time() + 60}
    given = {name: value for name, value in (usual | claims).items() if value is not None}
    return jwt.encode(given, key, algorithm, headers={"kid": "k1"})


def why(token: str, rules: Jwt = RULES) -> str:
    """Return why a token proves nothing."""
    try:
        by = signed_by(token, rules)
        return f"it does: {proof_of(token, rules, by.algorithm, [KEY.public_key()])}"
    except NotProved as error:
        return str(error)


def test_a_good_one() -> None:
    """The user and the roles are where the rules say, and it ends after the leeway."""
    end = time.time() + 60
    token = signed(exp=end, realm={"roles": ["desk", 7, "all"]})
    assert signed_by(token, RULES) == ("ES256", "k1")
    proof = proof_of(token, RULES, "ES256", [OTHER.public_key(), KEY.public_key()])
    assert (proof.kind, proof.user, proof.roles, proof.source) == (
        "jwt",
        "ada",
        ("desk", "all"),
        RULES.issuer,
    )
    assert proof.expires == pytest.approx(end + RULES.leeway, abs=1)


def test_roles_as_one_text() -> None:
    """With blanks between, as scopes are; another value names none."""
    rules = RULES.model_copy(update={"roles": "scope"})
    roles = [proof_of(signed(scope=s), rules, "ES256", [KEY.public_key()]).roles for s in ("a b", 7, None)]
    assert roles == [("a", "b"), (), ()]


def test_roles_under_a_url() -> None:
    """Its dots lead to no other claim."""
    name = "https://desk.example/roles"
    rules, claims = RULES.model_copy(update={"roles": name}), dict[str, Any]({name: ["desk"]})
    assert proof_of(signed(**claims), rules, "ES256", [KEY.public_key()]).roles == ("desk",)


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"exp": time.time() - 60}, "expired"),
        ({"nbf": time.time() + 86_400}, "not yet valid"),
        ({"aud": "another"}, "wrong audience"),
        ({"iss": "https://other"}, "wrong issuer"),
        ({"exp": None}, "claim missing"),
        ({"aud": None}, "claim missing"),
        ({"iss": None}, "claim missing"),
        ({"sub": None}, "claim missing"),
        ({"sub": ""}, "claim missing"),
        ({"exp": 10**400}, "malformed"),
        ({"key": OTHER}, "wrong signature"),
    ],
)
def test_what_proves_nothing(claims: dict[str, Any], reason: str) -> None:
    """And why."""
    assert why(signed(**claims)) == reason


def test_only_signatures_by_a_key_pair() -> None:
    """None at all, or one by a secret, for which a public key could be taken, is refused before that."""
    assert why(signed(key=None, algorithm="none")) == "wrong algorithm"
    assert why(signed(key="x" * 32, algorithm="HS256")) == "wrong algorithm"
    assert why(signed(key=rsa.generate_private_key(65537, 2048), algorithm="RS256")) == "wrong key"
    assert why(signed(), RULES.model_copy(update={"algorithms": ("RS256",)})) == "wrong algorithm"
    assert why("a.b.c") == "malformed"


def test_keys_of_a_set() -> None:
    """Those that are public and for signatures; others are passed over."""
    public = jwt.algorithms.ECAlgorithm.to_jwk(KEY.public_key(), as_dict=True)
    private = jwt.algorithms.ECAlgorithm.to_jwk(KEY, as_dict=True)
    secret = {"kty": "oct", "k": "c2VjcmV0", "kid": "s"}
    keys = [public | {"kid": "a", "alg": "ES256"}, private, secret, public | {"use": "enc"}, {"kty": "new"}]
    assert [(key.id, key.algorithm) for key in read_keys(json.dumps({"keys": keys}).encode())] == [
        ("a", "ES256")
    ]
    for text in (b"[]", b'{"keys": 1}', b"nonsense", b'{"keys": [7]}'):
        with pytest.raises(ValueError, match=r"expected|unexpected|JSON"):
            read_keys(text)
