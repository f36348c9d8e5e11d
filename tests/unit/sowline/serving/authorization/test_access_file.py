"""The access file: what may stand in it, and who somebody is by it."""

from hashlib import sha256
from pathlib import Path

import pytest

from sowline.errors import SowlineError
from sowline.serving.access.watched_access import WatchedAccess
from sowline.serving.authorization.access_file import Access, parse_access
from sowline.serving.authorization.identity import NOTHING, Proof

HASH = sha256(b"a secret").hexdigest()
OTHER = sha256(b"another").hexdigest()

FILE = f"""
tokens:
  - {{user: ada, sha256: {HASH}, roles: [desk]}}
  - {{user: bob, sha256: {OTHER}}}
jwt: {{issuer: "https://issuer", audience: sowline, jwks: keys.json}}
certificates: {{}}
users: {{ada: [all], eve: [desk]}}
roles:
  desk: {{read: [{{topics: orders, filter: "/desk = 'a'"}}]}}
  all: {{read: [{{topics: "^.*"}}], write: [{{topics: "^.*"}}], admin: true}}
"""


@pytest.fixture
def access() -> Access:
    """The file above."""
    return parse_access(FILE)


def test_a_token_proves_its_user(access: Access) -> None:
    """By its hash; the user's roles come on top of the token's."""
    proof = access.proof_of_token(HASH)
    assert proof == Proof("token", "ada", ("desk",), HASH)
    who = access.identity(proof)
    assert (who.user, who.roles, who.rights.is_admin) == ("ada", ("desk", "all"), True)
    assert access.proof_of_token(sha256(b"a guess").hexdigest()) is None


def test_roles_of_others_count_only_where_they_are_known(access: Access) -> None:
    """An issuer of tokens knows many roles that mean nothing here."""
    who = access.identity(Proof("jwt", "eve", ("desk", "cook"), "https://issuer", 1e12))
    assert (who.roles, who.rights.is_admin) == (("desk",), False)
    stranger = access.identity(Proof("jwt", "mallory", ("cook",), "https://issuer"))
    assert (stranger.roles, "orders" in stranger.rights.read) == ((), False)


def test_who_brings_nothing(access: Access) -> None:
    """Is asked for a logon, unless there are roles for such a one."""
    with pytest.raises(SowlineError) as error:
        access.identity(NOTHING)
    assert error.value.reason == "logon required"
    lenient = parse_access(FILE + "anonymous: [desk]")
    who = lenient.identity(NOTHING)
    assert (who.user, who.roles) == ("", ("desk",))


@pytest.mark.parametrize(
    ("proof", "gone"),
    [
        (Proof("token", "ada", ("desk",), HASH), f"  - {{user: ada, sha256: {HASH}, roles: [desk]}}\n"),
        (Proof("jwt", "ada", (), "https://issuer"), 'issuer: "https://issuer"'),
        (Proof("certificate", "ada"), "certificates: {}\n"),
    ],
)
def test_what_vouches_must_stay(access: Access, proof: Proof, gone: str) -> None:
    """A proof by an entry that the file no longer has identifies no user."""
    assert access.identity(proof).user == "ada"
    other = "" if gone.endswith("\n") else 'issuer: "https://other"'
    changed = parse_access(FILE.replace(gone, other))
    with pytest.raises(SowlineError) as error:
        changed.identity(proof)
    assert error.value.reason == "auth failure"


def test_a_token_with_other_roles_is_presented_again(access: Access) -> None:
    """What its client was given with it is no longer in the file."""
    proof = access.proof_of_token(HASH)
    assert proof is not None
    changed = parse_access(FILE.replace("roles: [desk]}", "roles: [all]}", 1))
    with pytest.raises(SowlineError) as error:
        changed.identity(proof)
    assert error.value.reason == "auth failure"


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (f"tokens: [{{user: ada, sha256: {HASH}, roles: [none]}}]", 1, "none"),
        ("tokens:\n- {user: ada, sha256: secret}", 2, "64 hexadecimal digits"),
        (f"tokens: [{{user: a, sha256: {HASH}}}, {{user: b, sha256: {HASH}}}]", 1, "two of one token"),
        ("jwt:\n  issuer: i\n  audience: a\n  jwks: http://elsewhere/keys", 4, "https"),
        ("jwt: {issuer: i, audience: a,\n  jwks: 'https://me:secret@host/keys'}", 2, "without a name"),
        ("jwt: {issuer: i, audience: a, jwks: k,\n  algorithms: [HS256]}", 2, "RS256"),
        ("jwt: {issuer: i, audience: a, jwks: k,\n  algorithms: [none]}", 2, "RS256"),
        ("anonymous: [all]", 1, "all"),
        ("roles:\n  all: {red: []}", 2, "expected a known field"),
        ("passwords: []", 1, "expected a known field"),
    ],
)
def test_what_can_not_be(text: str, line: int, message: str) -> None:
    """Is told with its line, and says nothing of a secret that somebody has put there."""
    with pytest.raises(SowlineError) as error:
        parse_access(text)
    assert error.value.reason == "bad configuration"
    assert f"line {line}:" in error.value.message
    assert message in error.value.message
    assert "secret" not in error.value.message


def test_a_file_that_breaks_leaves_the_old_one(tmp_path: Path) -> None:
    """In force, until there is one that can be read."""
    path = tmp_path / "access.yaml"
    path.write_text(FILE)
    watched = WatchedAccess(path)
    assert (watched.look(), watched.is_stale) == (False, False)
    path.write_text("tokens: nonsense")
    assert (watched.look(), watched.is_stale, len(watched.content.tokens)) == (False, True, 2)
    assert (watched.look(), watched.is_stale) == (False, True)
    path.unlink()
    assert (watched.look(), watched.is_stale) == (False, True)
    path.write_text("roles: {}")
    assert (watched.look(), watched.is_stale, len(watched.content.tokens)) == (True, False, 0)


def test_paths_begin_where_the_file_is(tmp_path: Path) -> None:
    """Of keys, and of whom to trust for fetching them."""
    path = tmp_path / "access.yaml"
    path.write_text("jwt: {issuer: i, audience: [a, b], jwks: keys.json, ca_file: ca.pem}")
    rules = WatchedAccess(path).content.jwt
    assert rules is not None
    assert (rules.jwks, rules.ca_file) == (str(tmp_path / "keys.json"), tmp_path / "ca.pem")
    assert rules.audience == ("a", "b")
