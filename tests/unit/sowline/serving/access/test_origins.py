"""Which web pages may ask, by which names a service for one machine answers, and how fast anybody may ask."""

import ipaddress
from types import SimpleNamespace
from typing import Any, cast

import httpx2
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sowline.config.settings import Settings
from sowline.errors import SowlineError
from sowline.serving.access.host import read_host
from sowline.serving.access.origins import is_loopback, read_origins
from sowline.serving.access.proxies import read_proxies
from sowline.serving.access.rate_limits import Rates
from sowline.serving.app import Server as HttpServer
from sowline_query_service.context import ServiceContext
from sowline_query_service.server.server import server_of
from tests.unit.query_service.sessions import Server

DESK = "https://desk.example"


def http_server(**settings: Any) -> HttpServer:
    """Return the HTTP server of a query service without Kafka."""
    server = Server().loaded()
    context = ServiceContext(server.state, server.dispatcher, {}, server.limits)
    return server_of(Settings(**settings), context, cast("Any", SimpleNamespace()))


async def ask(
    made: HttpServer, host: str, origin: str | None, method: str = "POST", **headers: str
) -> httpx2.Response:
    """Ask for the records."""
    transport = httpx2.ASGITransport(app=made.app)
    given = headers | ({} if origin is None else {"origin": origin})
    async with httpx2.AsyncClient(transport=transport, base_url=f"http://{host}") as client:
        return await client.request(method, "/v1/topics/orders/sow", headers=given)


@pytest.mark.parametrize(
    "host",
    [
        "[::1",
        "localhost:99999999",
        "localhost:x",
        "",
        "evil@127.0.0.1",
        "127.0.0.1#.evil",
        "127.0.0.1?.evil",
        "127.0.0.1/.evil",
        "127.0.0.1\\.evil",
        "localhost:80@evil.example",
        "localhost, evil.example",
        "[::1]evil",
        "[127.0.0.1]",
        "127.1",
    ],
)
async def test_a_name_that_is_none(host: str) -> None:
    """It is refused as any other that is not this machine's."""
    transport = httpx2.ASGITransport(app=http_server().app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        answer = await client.get("/v1/topics", headers={"host": host})
    assert (answer.status_code, answer.json()["reason"]) == (403, "origin refused")


@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        ("localhost:8080", None, 200),
        ("LOCALHOST:8080", None, 200),
        ("localhost:8080", "http://evil@localhost:8080", 403),
        ("localhost:8080", "localhost:8080", 403),
        ("127.0.0.1:8080", "http://127.0.0.1:8080", 200),
        ("[::1]:8080", "http://[::1]:8080", 200),
        ("localhost", "https://localhost", 200),
        ("localhost:443", "https://localhost", 200),
        ("localhost:8080", "http://localhost:9090", 403),
        ("localhost:8080", "https://evil.example", 403),
        ("localhost:8080", "null", 403),
        ("localhost:8080", "http://[", 403),
        ("evil.example:8080", None, 403),
        ("evil.example:8080", "http://evil.example:8080", 403),
        ("desk.example", DESK, 200),
        ("localhost:8080", DESK, 200),
    ],
)
async def test_on_this_machine_only(host: str, origin: str | None, status: int) -> None:
    """Its own names, its own pages, and those of the origins that are named."""
    made = http_server(origins=DESK)
    answer = await ask(made, host, origin)
    assert answer.status_code == status
    assert made.app.refused == (status == 403)
    if status == 403:
        assert answer.json()["reason"] == "origin refused"


@given(st.text(max_size=30) | st.from_regex(r"[\[\]a-f0-9.:@#/?]*", fullmatch=True))
@example("evil@127.0.0.1")
@example("127.0.0.1#.evil")
def test_a_host_is_read_strictly(text: str) -> None:
    """What is read is written back as it came, but for the case of letters and the spelling of IPv6."""
    found = read_host(text)
    if found is None:
        return
    name, port = found
    assert not set(name) & set("@#/?[] ,;\\")
    if ":" in name:
        assert text.startswith("[")
        assert is_loopback(name) == ipaddress.ip_address(name).is_loopback
    else:
        assert text.lower().partition(":")[0] == name
    assert port is None or text.endswith(str(port))


@pytest.mark.parametrize(
    ("host", "status"), [("sow.example", 200), ("", 200), ("evil@sow.example", 400), ("sow.example#", 400)]
)
async def test_a_malformed_host_on_a_network(host: str, status: int) -> None:
    """It is a bad request. HTTP/1.0 has none at all."""
    answer = await ask(http_server(host="0.0.0.0"), "localhost", None, Host=host)
    assert answer.status_code == status
    assert status == 200 or answer.json()["reason"] == "bad request"


@pytest.mark.parametrize(
    ("text", "read"), [("", []), ("10.0.0.7, 10.1.0.0/16,::1", ["10.0.0.7", "10.1.0.0/16", "::1"])]
)
def test_trusted_proxies(text: str, read: list[str]) -> None:
    """Addresses and networks; none if the setting is empty."""
    assert read_proxies(text) == read


@pytest.mark.parametrize("text", ["*", "proxy.example", "10.1.0.7/16", "10.0.0.1:80"])
def test_what_is_no_proxy(text: str) -> None:
    """Stops the service at its start."""
    with pytest.raises(SowlineError, match="SOWLINE_TRUSTED_PROXIES") as error:
        read_proxies(f"10.0.0.7,{text}")
    assert error.value.reason == "bad configuration"


async def test_on_a_network() -> None:
    """By any name; what only reads is not refused, but a page from elsewhere can't see the answer."""
    made = http_server(host="0.0.0.0", origins=DESK)
    assert (await ask(made, "sow.example", "https://sow.example")).status_code == 200
    assert (await ask(made, "sow.example", "https://evil.example")).status_code == 403
    read = await ask(made, "sow.example", "https://evil.example", "GET")
    assert (read.status_code, read.headers.get("access-control-allow-origin")) == (405, None)


async def test_pages_of_an_allowed_origin_get_the_header() -> None:
    """What they may ask with, and the headers of an answer that they may read."""
    made = http_server(origins=f"{DESK}, http://other.example:81")
    asked = {"access-control-request-method": "POST", "access-control-request-headers": "authorization"}
    before = await ask(made, "localhost", DESK, "OPTIONS", **asked)
    assert (before.status_code, before.headers["access-control-allow-origin"]) == (200, DESK)
    assert "authorization" in before.headers["access-control-allow-headers"].lower()
    answer = await ask(made, "localhost", DESK)
    assert answer.headers["access-control-allow-origin"] == DESK
    assert answer.headers["access-control-expose-headers"].startswith("sowline-bookmark, ")
    assert (await ask(made, "localhost", "https://evil.example", "OPTIONS", **asked)).status_code == 403


@pytest.mark.parametrize(
    "text", ["*", "desk.example", "https://desk.example/", "ftp://a", "https://a:b", "null"]
)
def test_what_is_no_origin(text: str) -> None:
    """Stops the service at its start."""
    with pytest.raises(SowlineError) as error:
        read_origins(f"{DESK},{text}")
    assert error.value.reason == "bad configuration"


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("localhost", True),
        ("a.localhost", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("0.0.0.0", False),
        ("", False),
    ],
)
def test_names_of_this_machine(name: str, is_one: bool) -> None:
    """And no others."""
    assert is_loopback(name) is is_one


def test_rates() -> None:
    """A second's worth may come at once; what is beyond has to wait, each user for itself."""
    rates = Rates(10.0)
    assert rates.take("ada", 10, 100.0) == 0
    assert rates.take("ada", 5, 100.0) == pytest.approx(0.5)
    assert rates.take("bob", 1, 100.0) == 0
    assert rates.owed("ada", 100.4) == pytest.approx(0.1)
    assert rates.owed("ada", 100.6) == 0
    assert rates.take("ada", 10, 200.0) == 0
    assert rates.slowed == 1
    assert Rates(0).take("ada", 1_000_000, 0.0) == 0


async def test_too_fast_over_http() -> None:
    """Says when to come back."""
    made = http_server(commands_per_second_max=0.01)
    assert [(await ask(made, "localhost", None)).status_code for _ in range(2)] == [200, 429]
    late = await ask(made, "localhost", None)
    assert late.json()["reason"] == "busy"
    assert 1 < int(late.headers["retry-after"]) <= 100


@pytest.mark.parametrize(("certificate", "status"), [(None, 401), ({"subject": ()}, 200)])
async def test_a_certificate_that_is_required(certificate: Any, status: int) -> None:
    """Anyone who brings none gets nowhere but to health and metrics, whatever comes along."""
    made = http_server(tls_client_required=True)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await made.app({**scope, "state": {"certificate": certificate}}, receive, send)

    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        bearer = {"authorization": "Bearer anything"}
        assert (await client.post("/v1/topics/orders/sow", headers=bearer)).status_code == status
        assert (await client.get("/v1-is-something-else")).status_code == 404
