"""A client's time at the APIs: its logon, its renewal, and when it has to leave."""

import asyncio
import contextlib
import time
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519

from sowline.config.settings import Settings
from sowline.errors import SowlineError
from sowline.runtime.connections import Connections
from sowline.serving.access import keys as keys_module
from sowline.serving.access.authenticator import Authenticator, PresentedCredentials
from sowline.serving.access.login_session import LoginSession
from sowline.serving.access.watched_access import WatchedAccess
from sowline.serving.authorization.identity import ANYBODY, Proof
from sowline.serving.sessions.open_sessions import OpenSessions
from sowline_query_service.context import ServiceContext
from tests.sessions import session_of
from tests.unit.query_service.sessions import Server
from tests.waiting import loop_turns, until

FILE = """
tokens:
  - {{user: ada, sha256: {ada}, roles: [desk]}}
  - {{user: ada, sha256: {second}, roles: [desk]}}
  - {{user: bob, sha256: {bob}, roles: [desk]}}
jwt: {{issuer: issuer, audience: sowline, jwks: keys.json, leeway: 0}}
roles: {{desk: {{read: [{{topics: {topics}}}]}}, all: {{read: [{{topics: "^.*"}}]}}}}
{more}
"""


class House:
    """A guard over an access file that a test writes, and keys that sign tokens."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "access.yaml"
        self.keys = {"k1": ed25519.Ed25519PrivateKey.generate()}
        self.publish_keys()
        self.write()
        self.file = WatchedAccess(self.path)
        self.authenticator = Authenticator(self.file)
        settings, unused = Settings(sessions_per_user_max=2), cast("Any", None)
        self.logins = OpenSessions(settings, unused, Connections(), self.authenticator).logins

    def write(self, topics: str = "orders", more: str = "") -> None:
        """Write the access file."""
        hashes = {name: sha256(name.encode()).hexdigest() for name in ("ada", "second", "bob")}
        self.path.write_text(FILE.format(topics=topics, more=more, **hashes))

    def publish_keys(self) -> None:
        """Write the public keys of all that there are."""
        each = (
            jwt.algorithms.OKPAlgorithm.to_jwk(key.public_key(), as_dict=True) | {"kid": name}
            for name, key in self.keys.items()
        )
        (self.path.parent / "keys.json").write_text(str({"keys": [*each]}).replace("'", '"'))

    def token(self, seconds: float = 60.0, key: str = "k1", user: str = "ada") -> str:
        """Return a JWT."""
        claims = {
            "iss": "issuer",
            "aud": "sowline",
            "sub": user,
            "exp": time.time() + seconds,
            "roles": ["desk"],
        }
        return jwt.encode(claims, self.keys[key], "EdDSA", headers={"kid": key})

    def changed(self) -> None:
        """Let the guard see what is in the file now."""
        assert self.file.look()
        self.logins.reconsider()


@pytest.fixture
def house(tmp_path: Path) -> House:
    """One with a file and a key."""
    return House(tmp_path)


def entered(house: House, *given: Any) -> contextlib.closing[LoginSession]:
    """Lend the login session of a new connection."""
    return contextlib.closing(house.logins.open(*given))


async def leaving(login: LoginSession, seconds: float) -> SowlineError:
    """Wait until a client must disconnect, and return why."""
    left: asyncio.Future[SowlineError] = asyncio.get_running_loop().create_future()
    login.watch(seconds, left.set_result)
    return await left


async def refusal(house: House, token: str | None) -> str:
    """Return why somebody is not let in."""
    with pytest.raises(SowlineError) as error:
        await house.authenticator.identify(PresentedCredentials(token))
    assert not token or token not in error.value.message
    return error.value.reason


async def test_no_logon_without_a_token(house: House) -> None:
    """And none with one that is unknown, has ended, or was signed by somebody else."""
    assert await refusal(house, None) == "logon required"
    house.keys["k2"] = ed25519.Ed25519PrivateKey.generate()
    for token in ("guess", "a.b.c", house.token(-5), house.token(key="k2"), "x" * 20_000, ""):
        assert await refusal(house, token) == "auth failure"
    why = {"logon required": 1, "unknown token": 2, "malformed": 2, "expired": 1, "unknown key": 1}
    assert house.authenticator.refused == why


async def test_keys_are_fetched_again_for_an_unknown_one(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once, and not again at once for the next: a guesser can't make us ask all the time."""
    fetched = 0

    def read(path: Path) -> bytes:
        nonlocal fetched
        fetched += 1
        return path.read_bytes()

    monkeypatch.setattr(keys_module, "_read", read)
    first = await house.authenticator.identify(PresentedCredentials(house.token()))
    assert (first.user, first.roles, fetched) == ("ada", ("desk",), 1)
    house.keys["k2"] = ed25519.Ed25519PrivateKey.generate()
    house.publish_keys()
    assert (await house.authenticator.identify(PresentedCredentials(house.token(key="k2")))).user == "ada"
    assert fetched == 2
    house.keys["k3"] = ed25519.Ed25519PrivateKey.generate()
    for _ in range(3):
        assert await refusal(house, house.token(key="k3")) == "auth failure"
    assert fetched == 2


async def test_no_keys_to_be_had(house: House) -> None:
    """Is another refusal than a token that is no good, and others still come in."""
    (house.path.parent / "keys.json").unlink()
    assert await refusal(house, house.token()) == "auth unavailable"
    assert (await house.authenticator.identify(PresentedCredentials("bob"))).user == "bob"


async def test_a_logon_by_the_first_command(house: House) -> None:
    """Nothing else is done before it; afterwards it renews."""
    server = Server().loaded()
    client = server.connect()
    with entered(house, None, PresentedCredentials()) as login:
        context = ServiceContext(server.state, server.dispatcher, {})
        client.session = session_of(context, client.outbox, login)
        client.ask("sow", command_id="1")
        await client.session.receive(b'{"command": "logon", "command_id": "2", "token": "guess"}')
        await client.session.receive(b'{"command": "logon", "command_id": "3", "token": "ada"}')
        client.ask("sow", command_id="4", ack_type="completed")
        answers = [one for one in await client.read() if one["command"] == "ack"]
        assert [one.get("reason") for one in answers] == ["logon required", "auth failure", None, None]
        assert (answers[2]["user"], answers[2]["roles"]) == ("ada", ["desk"])
        assert answers[2]["rights"] == login.identity.rights.digest


async def test_a_connection_stays_that_of_its_user(house: House) -> None:
    """Another token of the same user will do; another user, or other rights, has to come again."""
    with entered(house, None, PresentedCredentials()) as login:
        await login.log_on("ada")
        login.ask()
        await login.log_on("second")
        for token, reason in (("bob", "rights changed"), ("guess", "auth failure")):
            with pytest.raises(SowlineError) as error:
                await login.log_on(token)
            assert error.value.reason == reason
        assert login.user == "ada"


async def test_who_came_in_without_a_token_may_bring_one_first(house: House) -> None:
    """As a browser that has a certificate, or where anybody comes in; once it has asked for something, it may not."""
    house.write(more="anonymous: [desk]")
    house.changed()
    anonymous = await house.authenticator.identify(PresentedCredentials())
    with entered(house, anonymous, PresentedCredentials()) as login:
        assert (await login.log_on("ada")).user == "ada"
    with entered(house, anonymous, PresentedCredentials()) as login:
        login.ask()
        with pytest.raises(SowlineError) as error:
            await login.log_on("ada")
        assert error.value.reason == "rights changed"


async def test_a_change_between_connection_and_logon_counts(house: House) -> None:
    """Anyone who was identified by the previous file has to leave at once."""
    ada = await house.authenticator.identify(PresentedCredentials("ada"))
    house.write(topics="offers")
    house.changed()
    with entered(house, ada, PresentedCredentials("ada")) as login:
        assert (await leaving(login, 60)).reason == "rights changed"


async def test_a_token_that_was_good_is_looked_at_again(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once it has ended, and where the file says something else of it."""
    monkeypatch.setattr("sowline.serving.access.watched_access.LOOK_SECONDS", 0.001)
    token, taken = house.token(60), asyncio.Event()
    assert (await house.authenticator.identify(PresentedCredentials(token))).user == "ada"
    assert (await house.authenticator.identify(PresentedCredentials("ada"))).roles == ("desk",)
    watching = asyncio.create_task(house.authenticator.watch(taken.set))
    text = house.path.read_text()
    house.path.write_text(text.replace("roles: [desk]", "roles: [desk, all]"))
    await asyncio.wait_for(taken.wait(), 60)
    watching.cancel()
    assert (await house.authenticator.identify(PresentedCredentials("ada"))).roles == ("desk", "all")
    assert (await house.authenticator.identify(PresentedCredentials(token))).user == "ada"
    now = time.time()
    monkeypatch.setattr("sowline.serving.access.authenticator.time.time", lambda: now + 3600)
    assert await refusal(house, token) == "auth failure"
    assert house.authenticator.refused == {"expired": 1}


async def test_a_token_of_a_key_that_was_withdrawn(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was good, and is so no longer once the keys were fetched again: its use lets them be fetched."""
    token = house.token()
    assert (await house.authenticator.identify(PresentedCredentials(token))).user == "ada"
    house.keys = {"k2": ed25519.Ed25519PrivateKey.generate()}
    house.publish_keys()
    monkeypatch.setattr(keys_module, "AGAIN_SECONDS", -1.0)
    assert (await house.authenticator.identify(PresentedCredentials(token))).user == "ada"
    monkeypatch.setattr(keys_module, "FRESH_SECONDS", -1.0)

    async def is_refused() -> int:
        with contextlib.suppress(SowlineError):
            await house.authenticator.identify(PresentedCredentials(token))
        return house.authenticator.refused["unknown key"]

    await until(is_refused)
    assert (await house.authenticator.identify(PresentedCredentials(house.token(key="k2")))).user == "ada"


async def test_the_end_of_a_token_ends_the_connection(house: House) -> None:
    """Unless it is renewed before that."""
    with entered(house, None, PresentedCredentials()) as login:
        await login.log_on(house.token(30))
        ending = asyncio.create_task(leaving(login, 60))
        await login.log_on(house.token(3600))
        assert login.expires_in is not None
        assert login.expires_in > 3000
        await asyncio.wait([ending], timeout=0)
        assert not ending.done()
        ending.cancel()
    soon = house.file.content.identity(Proof("jwt", "ada", ("desk",), "issuer", time.time() + 0.02))
    with entered(house, soon, PresentedCredentials("a token")) as login:
        assert (await leaving(login, 60)).reason == "logon expired"


async def test_who_does_not_log_on_has_to_leave(house: House) -> None:
    """After some seconds."""
    with entered(house, None, PresentedCredentials()) as login:
        assert (await leaving(login, 0.01)).reason == "logon required"


@pytest.mark.parametrize(
    ("topics", "more", "leaves"),
    [("offers", "", True), ("orders", "users: {ada: [all]}", True), ("orders", "users: {bob: [all]}", False)],
)
async def test_whose_rights_change_has_to_leave(house: House, topics: str, more: str, leaves: bool) -> None:
    """And nobody else."""
    with entered(
        house, await house.authenticator.identify(PresentedCredentials("ada")), PresentedCredentials("ada")
    ) as login:
        ending = asyncio.create_task(leaving(login, 60))
        await loop_turns()
        house.write(topics, more)
        house.changed()
        if leaves:
            assert (await ending).reason == "rights changed"
        else:
            await loop_turns(100)
            assert not ending.done()
            ending.cancel()


async def test_so_many_connections_of_a_user(house: House) -> None:
    """A further one is refused until one of them ends; those of others count for themselves."""
    ada, bob = [await house.authenticator.identify(PresentedCredentials(name)) for name in ("ada", "bob")]
    with entered(house, ada, PresentedCredentials()), entered(house, bob, PresentedCredentials()):
        with entered(house, ada, PresentedCredentials()):
            with pytest.raises(SowlineError) as error, entered(house, ada, PresentedCredentials()):
                pass
            assert error.value.reason == "busy"
            with entered(house, None, PresentedCredentials()) as late:
                with pytest.raises(SowlineError) as error:
                    await late.log_on("ada")
                assert error.value.reason == "busy"
                await late.log_on("bob")
        with entered(house, ada, PresentedCredentials()):
            pass


async def test_a_user_at_the_limit_may_send_their_own_token(house: House) -> None:
    """As a browser that has a certificate: the number of that user's connections stays the same."""
    ada = await house.authenticator.identify(PresentedCredentials("ada"))
    with entered(house, ada, PresentedCredentials()), entered(house, ada, PresentedCredentials()) as second:
        assert (await second.log_on("ada")).user == "ada"
        assert await late_refusal(house) == "busy"
    with entered(house, ada, PresentedCredentials()), entered(house, ada, PresentedCredentials()):
        pass


async def late_refusal(house: House) -> str:
    """Return why one more connection of the user is refused."""
    with entered(house, None, PresentedCredentials()) as login, pytest.raises(SowlineError) as error:
        await login.log_on("ada")
    return error.value.reason


async def test_so_many_connections_of_strangers(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those who have logged on do not count, and come in all the same."""
    monkeypatch.setattr("sowline.serving.access.login_session.STRANGERS_MAX", 1)
    ada = await house.authenticator.identify(PresentedCredentials("ada"))
    with entered(house, None, PresentedCredentials()) as first:
        with pytest.raises(SowlineError) as error, entered(house, None, PresentedCredentials()):
            pass
        assert error.value.reason == "busy"
        with entered(house, ada, PresentedCredentials("ada")):
            await first.log_on("bob")
        with entered(house, None, PresentedCredentials()):
            pass
        with entered(house, None, PresentedCredentials()):
            pass


async def test_without_an_access_file() -> None:
    """Everybody may do everything, with a token or without."""
    authenticator = Authenticator()
    assert authenticator.is_open
    assert await authenticator.identify(PresentedCredentials("anything")) is ANYBODY
    login = LoginSession()
    assert (await login.log_on("anything")).rights.is_admin
    assert cast("object", login.expires_in) is None
