"""The services, the browser and the page that the tests of the console share, module by module."""

import json
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from examples.flights.landing import PAGE
from tests.browser.seen import Console, browser
from tests.integration.served import Served, ServedTopic, serve
from tests.integration.wire import Json


def avro(**fields: str) -> str:
    """Return an Avro schema of a record with fields of these types."""
    named = [{"name": name, "type": type} for name, type in fields.items()]
    return json.dumps({"type": "record", "name": "Trade", "fields": named})


TRADE = avro(id="long", qty="int")
DICTIONARY = """
<fix><messages/><fields>
  <field number="11" name="ClOrdID" type="STRING"/>
  <field number="54" name="Side" type="CHAR">
    <value enum="1" description="BUY"/><value enum="5" description="SELL_SHORT"/>
  </field>
  <field number="18" name="ExecInst" type="MULTIPLECHARVALUE">
    <value enum="1" description="NOT_HELD"/><value enum="G" description="ALL_OR_NONE"/>
  </field>
  <field number="453" name="NoPartyIDs" type="NUMINGROUP"/>
  <field number="448" name="PartyID" type="STRING"/>
  <field number="452" name="PartyRole" type="INT"><value enum="3" description="Client ID"/></field>
</fields></fix>"""
TOPICS: dict[str, Json] = {
    "flights": {"key": ["/carrier", "/flight"], "partitions": 2, "indexes": ["/status"]},
    "papers": {"key": ["/id"], "documents": True},
    "news": {"sow": False},
    "parcels": {"key": {"from": "kafka_key"}},
    "trades": {
        "key": "/id",
        "partitions": 2,
        "message_type": "avro",
        "reader_schema": {"text": TRADE, "id": 2, "subject": "trades-value"},
        "schemas": {
            1: {"text": avro(id="int", qty="int")},
            3: {"text": avro(id="int", qty="string")},
        },
    },
    "orders": {
        "key": ["/ClOrdID"],
        "message_type": "fix",
        "message_format": {"separator": "|", "dictionaries": [{"text": DICTIONARY}]},
    },
}


VIEWS: dict[str, Json] = {
    "late": {
        "from": "flights",
        "filter": "/status = 'late'",
        "grouping": ["/carrier"],
        "projection": ["COUNT(1) AS /flights"],
    }
}


@pytest.fixture(scope="module")
def served(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A materializer and a query service."""
    with serve(kafka, tmp_path_factory.mktemp("console"), TOPICS, VIEWS, progress_seconds=0.2) as served:
        yield served


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """One browser for all."""
    with browser() as begun:
        yield begun


@pytest.fixture(scope="module")
def window(chromium: Browser, served: Served) -> Iterator[Console]:
    """One page for all: its engine is loaded once."""
    with chromium.new_context() as context:
        yield Console(context.new_page(), served.query.url)


@pytest.fixture
def console(window: Console) -> Iterator[Console]:
    """The page as it is for most tests; whatever it has complained of fails the test."""
    window.complaints.clear()
    window.page.set_viewport_size({"width": 1280, "height": 800})
    window.page.emulate_media(color_scheme="light", reduced_motion="no-preference")
    yield window
    assert window.complaints == []


@pytest.fixture
def flights(served: Served) -> ServedTopic:
    """Three flights, of which two are late."""
    topic = served["flights"]
    topic.clear()
    topic.write(
        flight("UA", 1, "late"), flight("B6", 2, "late", delay={"dep": 20}), flight("AA", 3, "landed")
    )
    return topic


def flight(carrier: str, number: int, status: str, **more: object) -> Json:
    """A record."""
    return {"carrier": carrier, "flight": number, "status": status, **more}


class Files(SimpleHTTPRequestHandler):
    """The files of the page, and nothing said about requests."""

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def parts() -> Iterator[Page]:
    """A browser's page with the modules of the landing page, by the names of their files."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Files, directory=str(PAGE))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with browser() as chromium, chromium.new_context() as context:
            page = context.new_page()
            page.goto(f"http://127.0.0.1:{server.server_port}/page.css")
            page.evaluate(
                """async () => {
                  const names = "board charts departures latency map moments outage svg text";
                  for (const name of names.split(" ")) window[name] = await import(`/${name}.js`);
                  window.dressed = async (html) => {
                    document.body.innerHTML = html;
                    const style = document.createElement("link");
                    Object.assign(style, { rel: "stylesheet", href: "/page.css" });
                    document.head.replaceChildren(style);
                    await new Promise((loaded) => { style.onload = loaded; });
                  };
                }"""
            )
            yield page
        server.shutdown()
