"""The rights that a gateway hands to a query service: they arrive unchanged, and only from a gateway."""

import random
from base64 import b64encode
from types import SimpleNamespace
from typing import Any, cast
from zlib import compress

import httpx2
import pytest

from sowline.config.settings import Settings
from sowline.config.shard import Shard
from sowline.errors import SowlineError
from sowline.language.filter import compile_filter
from sowline.model.select import parse_select
from sowline.serving.access.authenticator import PresentedCredentials
from sowline.serving.access.login_session import LoginSession
from sowline.serving.authorization.access_file import parse_access
from sowline.serving.authorization.delegation import HEADER, acting, headers_of
from sowline.serving.authorization.entitlements import EVERYTHING, Entitlement, Rights, to_read, to_write
from sowline.serving.authorization.identity import ANYBODY, Identity, Proof
from sowline_query_service.context import ServiceContext
from sowline_query_service.server.server import server_of
from tests.unit.query_service.sessions import Server

GATEWAY = Identity("edge", ("edge",), Rights(is_gateway=True), Proof("token", "edge"))
TRADER = Rights(
    to_read(
        Entitlement("orders", compile_filter("/désk = 'é\"'"), parse_select("[-/,+/id,+/désk]")),
        Entitlement("^quotes.*"),
    ),
    to_write(Entitlement("orders", compile_filter("/désk = 'é'"))),
)


def values_of(rights: Rights) -> list[str]:
    """Return the values of the headers."""
    return [text for _, text in headers_of(rights)]


@pytest.mark.parametrize("rights", [TRADER, EVERYTHING, Rights(), Rights(is_admin=True)])
def test_rights_arrive_as_they_were(rights: Rights) -> None:
    """Those to read and to write, with their filters and fields; but not the right to be a gateway."""
    handed_down = [text for _, text in headers_of(rights)]
    assert all(text.isascii() for text in handed_down)
    acts = acting(GATEWAY, handed_down)
    assert (acts.rights.read, acts.rights.write) == (rights.read, rights.write)
    assert (acts.rights.is_admin, acts.rights.is_gateway) == (rights.is_admin, False)
    assert acts.user == "edge"


def test_only_a_gateway_acts_for_others() -> None:
    """Not an administrator, and not a gateway by the rights that it was handed."""
    for identity in (
        Identity("ada", (), Rights(is_admin=True), Proof("token", "ada")),
        Identity("ada", (), Rights(), Proof("token", "ada"), delegated=EVERYTHING),
    ):
        with pytest.raises(SowlineError, match="role that has `gateway`"):
            acting(identity, values_of(TRADER))
    assert acting(ANYBODY, values_of(TRADER)).rights.read == TRADER.read


@pytest.mark.parametrize("text", ["{", "[]", '{"read": [{"topics": "orders", "filter": "/a ="}]}', '{"x":1}'])
def test_what_is_no_role_is_refused(text: str) -> None:
    """A header that was cut or made by hand gives no rights at all."""
    packed = b64encode(compress(text.encode())).decode()
    for values in ([""], ["{}"], [packed], [packed[: len(packed) // 2]], [packed, packed]):
        with pytest.raises(SowlineError, match=f"expected a role as packed JSON in the header {HEADER}"):
            acting(GATEWAY, values)


def test_long_rights_take_several_headers() -> None:
    """Servers limit a header; rights that are too long for all servers are refused before they are sent."""

    def listing(count: int) -> Rights:
        chance = random.Random(1)
        ids = ", ".join(f"'{chance.getrandbits(128):x}'" for _ in range(count))
        return Rights(to_read(Entitlement("orders", compile_filter(f"/id IN ({ids})"))))

    assert len(values_of(listing(300))) > 1
    assert acting(GATEWAY, values_of(listing(300))).rights.read == listing(300).read
    with pytest.raises(SowlineError, match="characters for a user of a gateway, got"):
        headers_of(listing(1500))


def test_a_gateway_stays_connected_with_the_rights_it_acts_with() -> None:
    """Its own user and rights decide whether it may go on, not those of its client."""
    acts = GATEWAY.acting_with(TRADER)
    assert acts.may_become(GATEWAY)
    assert not acts.may_become(Identity("edge", (), Rights(), Proof("token", "edge")))
    login = LoginSession(acts, None, PresentedCredentials())
    login.reconsider()
    assert login.identity.rights == TRADER


async def ask(path: str, shard: str, rights: Rights | None) -> tuple[int, Any]:
    """Ask a query service without Kafka and without an access file."""
    server = Server().loaded()
    server.put({"id": 1, "désk": "é"})
    context = ServiceContext(server.state, server.dispatcher, {}, server.limits)
    settings = Settings(shard=cast("Shard", shard))
    app = server_of(settings, context, cast("Any", SimpleNamespace(not_ready=lambda: None))).app
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        answer = await client.request(
            "GET" if path.count("/") < 4 else "POST",
            path,
            headers=[] if rights is None else headers_of(rights),
        )
        return answer.status_code, answer.text


SOW = "/v1/topics/orders/sow"


async def test_a_shard_answers_gateways_only() -> None:
    """Its answers to others would lack the other shards' records; the list of topics is for everybody."""
    status, text = await ask(SOW, "1/4", None)
    assert status == 421
    assert "holds only shard 1/4" in text
    assert (await ask(SOW, "1/4", EVERYTHING))[0] == 200
    assert (await ask("/v1/topics", "1/4", None))[0] == 200
    assert (await ask(SOW, "0/1", None))[0] == 200


async def test_the_rights_of_the_client_decide() -> None:
    """A query service applies what the gateway handed to it."""
    assert (await ask(SOW, "0/1", Rights()))[0] == 403
    only_others = Rights(to_read(Entitlement("orders", compile_filter("/id = 2"))))
    assert await ask(SOW, "0/1", only_others) == (200, "")
    assert '"data":{"id":1' in (await ask(SOW, "0/1", EVERYTHING))[1]


def test_the_role_in_an_access_file() -> None:
    """A role has the right by the field `gateway`."""
    access = parse_access("roles: {edge: {gateway: true}}\nanonymous: [edge]\n")
    assert access.identity(Proof("nothing")).rights.is_gateway
