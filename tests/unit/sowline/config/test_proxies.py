"""Proxies of the environment: loopback goes past them in every client, and elsewhere errors name them."""

import http.server
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import orjson
import pytest

from sowline.cli.http import get
from sowline.client.connection import ServiceConnection
from sowline.client.http_api import HttpClient
from sowline.config.credentials import Credentials
from sowline.config.proxies import is_loopback, proxy_of, via
from sowline.errors import SowlineError
from sowline.registry.client import Registry, RegistryAway
from sowline_gateway.nodes.connections import NodeLost
from sowline_gateway.nodes.http import NodeHttp

VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
PROXY = "http://ann:secret@127.0.0.1:9"
"""A port at which nobody listens: what goes through it fails."""

NAMED = r"through the proxy http://127\.0\.0\.1:9 of the environment"


@pytest.fixture(autouse=True)
def proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy for everything, in both spellings of the variables."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name in VARIABLES[:3]:
        monkeypatch.setenv(name, PROXY)
        monkeypatch.setenv(name.upper(), PROXY)


class Answers(http.server.BaseHTTPRequestHandler):
    """Answers every request with the same JSON."""

    def do_GET(self) -> None:
        """Answer."""
        body = orjson.dumps({"topics": [], "subjects": []})
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def port() -> Iterator[int]:
    """The port of a service on this machine."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("url", "proxy"),
    [
        ("http://127.0.0.1:8080", None),
        ("ws://localhost:8080/v1", None),
        ("wss://LOCALHOST./v1", None),
        ("https://api.localhost", None),
        ("http://127.8.9.10:1", None),
        ("http://[::1]:8080", None),
        ("http://127.1:8080", None),
        ("http://0x7f.0.0.1:8080", None),
        ("http://2130706433:8080", None),
        ("http://0.0.0.0:8080", None),
        ("http://[::]:8080", None),
        ("http://[::ffff:127.0.0.1]:8080", None),
        ("http://[0:0:0:0:0:0:0:1]:8080", None),
        ("http://10.1:8080", PROXY),
        ("http://[::ffff:10.0.0.1]:8080", PROXY),
        ("http://[", None),
        ("http://10.0.0.1:8080", PROXY),
        ("ws://orders.example/v1", PROXY),
        ("https://localhost.example", PROXY),
    ],
)
def test_which_urls_go_through_a_proxy(url: str, proxy: str | None) -> None:
    """All but those of this machine."""
    assert proxy_of(url) == proxy
    assert ("through the proxy" in via(url)) is (proxy is not None)


def test_hosts_without_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """NO_PROXY is followed, a proxy without a scheme is one of HTTP, and its password is not told."""
    monkeypatch.setenv("no_proxy", "orders.example")
    monkeypatch.setenv("https_proxy", "proxy.example:3128")
    assert proxy_of("wss://orders.example") is None
    assert proxy_of("wss://trades.example") == "http://proxy.example:3128"
    assert "secret" not in via("http://trades.example")
    assert not is_loopback("")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.1", "0.0.0.0", "[::ffff:127.0.0.1]"])
async def test_every_client_reaches_this_machine(host: str, port: int) -> None:
    """Whatever the variables say."""
    url = f"http://{host}:{port}"
    assert get(f"{url}/readyz").status == 200
    client = HttpClient(url, Credentials(), lambda: None)
    assert await client.topics() == {"topics": [], "subjects": []}
    await client.close()
    nodes = NodeHttp(Credentials())
    assert orjson.loads(await nodes.ask_announcement(url, 10))["topics"] == []
    await nodes.close()
    registry = Registry(url)
    assert registry._get("/subjects").document == {"topics": [], "subjects": []}
    registry.close()


ELSEWHERE = "http://orders.invalid:8080"


async def test_a_socks_proxy_without_its_package(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands and clients reach this machine all the same; elsewhere, one sentence names the proxy."""
    for name in VARIABLES[:3]:
        monkeypatch.setenv(name, "socks5://127.0.0.1:9")
        monkeypatch.setenv(name.upper(), "socks5://127.0.0.1:9")
    assert get(f"http://127.0.0.1:{port}/readyz").status == 200
    client = HttpClient(f"http://127.0.0.1:{port}", Credentials(), lambda: None)
    assert await client.topics() == {"topics": [], "subjects": []}
    await client.close()
    named = r"'socksio' .*through the proxy socks5://127\.0\.0\.1:9 of the environment"
    for ask in (asked_by_client, asked_by_command):
        with pytest.raises(SowlineError, match=named):
            await ask()


async def asked_by_client() -> None:
    """Ask as the Python client does."""
    await HttpClient(ELSEWHERE, Credentials(), lambda: None).topics()


async def subscribed_by_client() -> None:
    """Subscribe as the Python client does."""
    no_outbox: Any = None
    await ServiceConnection(ELSEWHERE, Credentials(), lambda: None, no_outbox)._connect_within(0)


async def asked_by_gateway() -> None:
    """Ask as a gateway does."""
    await NodeHttp(Credentials()).ask_announcement(ELSEWHERE, 10)


async def asked_by_command() -> None:
    """Ask as a command does."""
    get(f"{ELSEWHERE}/readyz")


async def asked_for_schemas() -> None:
    """Ask a registry."""
    Registry(ELSEWHERE)._get("/subjects")


@pytest.mark.parametrize(
    "ask", [asked_by_client, subscribed_by_client, asked_by_gateway, asked_by_command, asked_for_schemas]
)
async def test_an_error_names_the_proxy(ask: Callable[[], Awaitable[None]]) -> None:
    """Otherwise nobody would look there."""
    with pytest.raises((SowlineError, NodeLost, RegistryAway), match=NAMED):
        await ask()
