"""An issuer's keys over HTTP: rotated, withdrawn, away, garbage, and a flood of tokens that name unknown ones."""

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowline.errors import SowlineError
from sowline.serving.access import keys as module
from sowline.serving.access.authenticator import Authenticator, PresentedCredentials
from sowline.serving.access.keys import read_keys
from sowline.serving.access.watched_access import WatchedAccess
from tests.integration.issuer import AUDIENCE, Issuer, issuer
from tests.waiting import pace

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
fields = st.sampled_from(["kty", "crv", "x", "y", "n", "e", "alg", "use", "kid", "d"])
likely = st.sampled_from(["OKP", "EC", "RSA", "Ed25519", "P-256", "AQAB", "sig", "EdDSA", "RS256"])
bad_keys = json_values | st.dictionaries(fields, likely | json_values)
GOOD = {"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo", "kid": "good"}


@pytest.fixture
def issues() -> Iterator[Issuer]:
    """An issuer."""
    with issuer() as made:
        yield made


@pytest.fixture
def authenticator(issues: Issuer, tmp_path: Path) -> Authenticator:
    """A guard that goes by its keys."""
    jwt = {"issuer": issues.url, "audience": AUDIENCE, "jwks": f"{issues.url}/keys", "leeway": 0}
    (tmp_path / "access.yaml").write_text(json.dumps({"jwt": jwt, "roles": {}}))
    return Authenticator(WatchedAccess(tmp_path / "access.yaml"))


async def user_or_reason(authenticator: Authenticator, token: str) -> str:
    """Return whose a token is, or why it is refused."""
    try:
        return (await authenticator.identify(PresentedCredentials(token))).user
    except SowlineError as error:
        return error.reason


@pytest.fixture
def let_time_pass(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that lets seconds pass for the keys."""
    passed = [0.0]
    real = time.monotonic

    class Clock:
        @staticmethod
        def monotonic() -> float:
            return real() + passed[0]

    monkeypatch.setattr(module, "time", Clock)

    def pass_by(seconds: float) -> None:
        passed[0] += seconds

    return pass_by


async def test_a_new_key_is_found_and_the_old_one_goes_on(
    authenticator: Authenticator, issues: Issuer
) -> None:
    """As long as it is published."""
    old = issues.token("ada")
    assert await user_or_reason(authenticator, old) == "ada"
    issues.rotate(keep=True)
    assert await user_or_reason(authenticator, issues.token("bob")) == "bob"
    assert (await user_or_reason(authenticator, old), issues.asked) == ("ada", 2)


async def test_a_key_that_is_withdrawn(
    authenticator: Authenticator, issues: Issuer, let_time_pass: Any
) -> None:
    """Its tokens are refused once the keys were read again, also after nobody has come for long."""
    old = issues.token("ada")
    assert await user_or_reason(authenticator, old) == "ada"
    issues.rotate()
    let_time_pass(module.FRESH_SECONDS + module.AGAIN_SECONDS + 1)
    assert await user_or_reason(authenticator, old) == "auth failure"
    assert (await user_or_reason(authenticator, issues.token("ada")), issues.asked) == ("ada", 2)
    issues.garbage = b'{"keys": []}'
    let_time_pass(module.FRESH_SECONDS + module.AGAIN_SECONDS + 1)
    assert await user_or_reason(authenticator, issues.token("ada")) == "auth failure"


async def test_a_token_that_names_no_key(
    authenticator: Authenticator, issues: Issuer, let_time_pass: Any
) -> None:
    """It may be of any key, also of one that is new; not each one lets the issuer be asked."""
    assert await user_or_reason(authenticator, issues.token("ada", kid="")) == "ada"
    issues.rotate()
    assert (await user_or_reason(authenticator, issues.token("ada", kid="")), issues.asked) == ("ada", 2)
    issues.rotate()
    assert (await user_or_reason(authenticator, issues.token("ada", kid="")), issues.asked) == (
        "auth failure",
        2,
    )
    assert await user_or_reason(authenticator, issues.token("ada", kid="", seconds=-5)) == "auth failure"
    let_time_pass(module.AGAIN_SECONDS + 1)
    assert (await user_or_reason(authenticator, issues.token("ada", kid="")), issues.asked) == ("ada", 3)


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"<html>",
        b"[]",
        b'{"keys": {}}',
        b'{"keys": "k"}',
        b'{"keys": [{"kty": "oct"}]}',
        b'{"keys": [5]}',
        b"[" * 100_000,
        b'{"keys": []}' + b" " * (2 << 20),
    ],
)
@pytest.mark.parametrize("status", [200, 503])
async def test_an_issuer_that_answers_with_garbage(
    authenticator: Authenticator, issues: Issuer, let_time_pass: Any, garbage: bytes, status: int
) -> None:
    """The keys that are known go on; without any, its tokens are refused until it answers."""
    issues.garbage, issues.status = garbage, status
    assert await user_or_reason(authenticator, issues.token("ada")) == "auth unavailable"
    issues.garbage, issues.status = None, 200
    assert await user_or_reason(authenticator, issues.token("ada")) == "auth unavailable"
    assert issues.asked == 1
    let_time_pass(module.AGAIN_SECONDS + 1)
    assert await user_or_reason(authenticator, issues.token("ada")) == "ada"
    issues.garbage, issues.status = garbage, status
    let_time_pass(module.FRESH_SECONDS + module.AGAIN_SECONDS + 1)
    assert (await user_or_reason(authenticator, issues.token("bob")), issues.asked) == ("bob", 3)


async def test_an_issuer_that_does_not_end_its_answer(
    authenticator: Authenticator, issues: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is given up after a while in all, however often it sends something."""
    monkeypatch.setattr(module, "FETCH_SECONDS_MAX", 0.3)

    is_given_up = asyncio.Event()

    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while not writer.is_closing():
            writer.write(b" ")
            await pace(0.05)
        is_given_up.set()

    slow = await asyncio.start_server(drip, "127.0.0.1", 0)
    async with slow:
        url = f"http://127.0.0.1:{slow.sockets[0].getsockname()[1]}/keys"
        file = authenticator._file
        assert file is not None
        access = file.content
        assert access.jwt is not None
        rules = access.jwt.model_copy(update={"jwks": url})
        file.content = access.model_copy(update={"jwt": rules})
        async with asyncio.timeout(20):
            assert await user_or_reason(authenticator, issues.token("ada")) == "auth unavailable"
            await is_given_up.wait()
        file.content = access
    assert await user_or_reason(authenticator, issues.token("ada")) == "ada"


async def test_a_flood_of_unknown_keys(
    authenticator: Authenticator, issues: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The issuer is asked once for all of them, and anyone who has a good token comes in meanwhile."""
    monkeypatch.setattr("sowline.serving.authorization.login_throttle.SECONDS_MAX", 0.0)
    good = issues.token("ada")
    assert await user_or_reason(authenticator, good) == "ada"
    flood = [
        asyncio.create_task(user_or_reason(authenticator, issues.token("eve", kid=f"k{n}")))
        for n in range(300)
    ]
    assert await user_or_reason(authenticator, good) == "ada"
    assert set(await asyncio.gather(*flood)) == {"auth failure"}
    assert issues.asked == 2


@given(st.lists(bad_keys, max_size=4), st.lists(bad_keys, max_size=4))
def test_a_key_that_can_not_be_used_does_not_spoil_the_others(before: list[Any], after: list[Any]) -> None:
    """Whatever is wrong with it."""
    text = json.dumps({"keys": [*before, GOOD, *after]}).encode()
    assert "good" in [key.id for key in read_keys(text)]


@given(json_values | st.fixed_dictionaries({"keys": st.lists(bad_keys, max_size=3)}))
def test_whatever_is_answered_is_a_set_or_none(answer: Any) -> None:
    """With a key, or with an empty list."""
    try:
        found = read_keys(json.dumps(answer).encode())
    except ValueError:
        return
    assert found or answer["keys"] == []
