"""The console's files as they are served, without a socket."""

import gzip
import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
from starlette.applications import Starlette

from sowline.serving.http.static import CONSOLE, HEADERS, POLICY, TYPES, Console

GRID = "vendor/perspective-4.3.0/viewer-datagrid/dist/cdn/perspective-viewer-datagrid.js"
ENGINE = "vendor/perspective-4.3.0/server/dist/wasm/perspective-server.wasm"


@pytest.fixture
async def http() -> AsyncIterator[httpx2.AsyncClient]:
    """A client of the console's APIs."""
    transport = httpx2.ASGITransport(app=Starlette(routes=Console().routes))
    async with httpx2.AsyncClient(transport=transport, base_url="http://sowline") as client:
        yield client


async def test_the_root_leads_to_the_console(http: httpx2.AsyncClient) -> None:
    """By a relative way, so that it is found behind a proxy's path too."""
    answer = await http.get("/")
    assert (answer.status_code, answer.headers["location"]) == (307, "console/")
    page = await http.get("/console/")
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert page.text == CONSOLE.joinpath("index.html").read_text()


@pytest.mark.parametrize("name", ["", "main.js", GRID, "none.js"])
async def test_every_answer_is_kept_to_this_host(http: httpx2.AsyncClient, name: str) -> None:
    """What the console may load is said with each of its files, workers' scripts and errors too."""
    answer = await http.get(f"/console/{name}")
    assert {header: answer.headers[header] for header in HEADERS} == HEADERS
    assert "default-src 'none'" in POLICY
    assert "http:" not in POLICY
    assert "'unsafe-eval'" not in POLICY
    assert "script-src 'self' 'wasm-unsafe-eval';" in POLICY


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("main.js", "no-cache"),
        ("built/sowline.js", "no-cache"),
        (GRID, "public, max-age=31536000, immutable"),
    ],
)
async def test_how_long_a_file_is_kept(http: httpx2.AsyncClient, name: str, kept: str) -> None:
    """Others' files have a version in their path; ours are asked for again, and not sent again."""
    answer = await http.get(f"/console/{name}")
    assert answer.headers["cache-control"] == kept
    again = await http.get(f"/console/{name}", headers={"If-None-Match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    changed = await http.get(f"/console/{name}", headers={"If-None-Match": '"another"'})
    assert changed.status_code == 200


@pytest.mark.parametrize(("name", "is_packed"), [("main.js", True), (GRID, True), (ENGINE, False)])
async def test_what_gains_by_it_is_compressed(http: httpx2.AsyncClient, name: str, is_packed: bool) -> None:
    """Where the browser takes that; the engine's files unpack themselves."""
    plain = await http.get(f"/console/{name}", headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert plain.content == CONSOLE.joinpath(name).read_bytes()
    async with http.stream("GET", f"/console/{name}", headers={"Accept-Encoding": "gzip, br"}) as answer:
        sent = b"".join([part async for part in answer.aiter_raw()])
    assert (answer.headers.get("content-encoding") == "gzip") is is_packed
    assert (gzip.decompress(sent) if is_packed else sent) == plain.content


@pytest.mark.parametrize("name", ["../server.py", "%2e%2e/server.py", "vendor", "main.js/", "//etc/passwd"])
async def test_nothing_else_is_served(http: httpx2.AsyncClient, name: str) -> None:
    """Only files of the console."""
    assert (await http.get(f"/console/{name}")).status_code == 404


def test_every_kind_of_file_has_a_type() -> None:
    """A file of a kind that nobody has thought of would be no answer at all."""
    kinds = {path.suffix for path in CONSOLE.rglob("*") if path.is_file()}
    assert kinds <= TYPES.keys()


def test_pages_have_nothing_inline() -> None:
    """No script and no style that the policy would refuse."""
    page = CONSOLE.joinpath("index.html").read_text()
    assert page.count("<script") == page.count('<script src="') + page.count('<script type="module" src="')
    assert "<style" not in page
    assert " style=" not in page
    assert not [path.name for path in Path(CONSOLE).glob("*.js") if "innerHTML" in path.read_text()]


OTHER_WAYS = re.compile(r"\b(WebSocket|EventSource|XMLHttpRequest|sendBeacon)\b|(?<!\.)\bfetch\(")


def test_the_console_asks_the_service_through_the_client_alone() -> None:
    """The modules of the console make no connection and no request; one of them makes the client."""
    modules = {path.name: path.read_text() for path in CONSOLE.glob("*.js")}
    assert len(modules) > 20
    assert [(name, found[0]) for name, text in modules.items() for found in OTHER_WAYS.finditer(text)] == []
    assert [name for name, text in modules.items() if 'from "./built/sowline.js"' in text] == ["service.js"]


@pytest.mark.parametrize("text", ["new WebSocket(url)", "await fetch(`v1/topics`)", "new EventSource(url)"])
def test_another_way_is_found(text: str) -> None:
    """The test above would see it."""
    assert OTHER_WAYS.search(text)
