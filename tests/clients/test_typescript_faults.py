"""Faults that users meet, over real services, and what the TypeScript client makes of them.

Those that take a minute or an hour are in `clients/typescript/test/faults.test.ts`, over a clock that the tests move.
"""

import json
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from sowline import Client
from sowline.errors import SowlineError
from tests.clients.drivers import Driver, in_chromium, in_node, page_server
from tests.integration.house import TOKENS, records, write_access
from tests.integration.issuer import Issuer, issuer
from tests.integration.served import Served, serve
from tests.integration.services import Service, System, http_text, system
from tests.waiting import wait_for

pytestmark = [pytest.mark.needs("node"), pytest.mark.usefixtures("package")]

WAITING_MAX = 10_000
"""Messages that wait for their caller before the client pauses a subscription."""

BEYOND = 5_000
RENEWED_SECONDS = 8
"""How long a token is valid that expires during a test."""

REFUSALS_MAX = 6


class Guarded(NamedTuple):
    """A query service with an access file, an issuer of tokens, and a topic with a record of each desk."""

    system: System
    query: Service
    topic: str
    issuer: Issuer

    def token(self, *roles: str, seconds: float = 600) -> str:
        """Return a token of the same user."""
        return self.issuer.token("eve", *roles, seconds=seconds)

    def wait_expired(self, token: str) -> None:
        """Wait until the service closes a connection with this token, which nobody renews."""
        url = self.query.url.replace("http", "ws") + "/v1"
        with (
            connect(url, additional_headers={"Authorization": f"Bearer {token}"}) as connection,
            pytest.raises(ConnectionClosed),
        ):
            connection.recv()


@pytest.fixture(scope="module")
def guarded(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """Services that ask for tokens."""
    directory, topic = tmp_path_factory.mktemp("guarded"), f"t{uuid.uuid4().hex[:12]}-guarded"
    with issuer() as issues, system(kafka, directory, [{"name": topic, "key": "/id"}]) as made:
        write_access(directory / "access.yaml", issues)
        materializer = made.service("materializer").start()
        query = made.service("query_service", access=directory / "access.yaml").start()
        made.write(topic, {"id": 1, "desk": "a"}, {"id": 2, "desk": "b"})
        for service in (materializer, query):
            service.wait_ready()
        with Client(query.url, token=TOKENS["root"]) as client:
            wait_for(lambda: len(records(client, topic)) == 2, "the records to be there")
        yield Guarded(made, query, topic, issues)


@pytest.fixture(scope="module")
def served(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Services that ask for nothing."""
    topics = {"orders": {"key": "/id"}, "ticks": {"key": "/id"}}
    with serve(kafka, tmp_path_factory.mktemp("faults"), topics) as served:
        yield served


def wait_shows(driver: Driver, ids: Mapping[int, Any]) -> dict[str, Any]:
    """Wait until the view is live with these values of `n` by `id`; return its state."""

    def shows() -> dict[str, Any] | None:
        state: dict[str, Any] = driver.do("state", view="view")
        found = {record["id"]: record.get("n") for _, record in state["records"]}
        return state if state["status"] == "live" and found == ids else None

    return wait_for(shows, f"the view to show {dict(ids)}")


def wait_closed(driver: Driver) -> dict[str, Any]:
    """Wait until the client gives up, and return what it knows then."""

    def closed() -> dict[str, Any] | None:
        about: dict[str, Any] = driver.do("about")
        return about if about["status"] == "closed" else None

    return wait_for(closed, "the client to give up")


def test_a_service_that_is_gone(served: Served) -> None:
    """The view stays readable, the client tries again and again, and the view resumes from its bookmark."""
    orders = served["orders"]
    orders.write({"id": 1, "n": 1}, {"id": 2, "n": 1})
    with in_node("") as driver:
        driver.do("connect", url=served.query.url)
        driver.do("open", view="view", topic=orders.name, reading={})
        wait_shows(driver, {1: 1, 2: 1})
        served.query.kill()
        served.system.write(orders.name, {"id": 1, "n": 2}, {"id": 3, "n": 1})
        wait_for(lambda: driver.do("about")["attempts"] > 5, "attempts to connect")
        state = driver.do("state", view="view")
        assert (state["status"], len(state["records"]), state["error"]) == ("reconnecting", 2, None)
        served.query.start().wait_ready()
        state = wait_shows(driver, {1: 2, 2: 1, 3: 1})
        assert state["statuses"][-3:] == ["reconnecting", "catching up", "live"]
        assert driver.do("about")["groups"] == 1, "what follows the bookmark is enough"
        assert driver.do("prove", view="view") is True


def test_a_token_is_renewed_before_it_expires(guarded: Guarded) -> None:
    """Over the same connection, which outlives the first token."""
    with in_node("") as driver:
        tokens = [guarded.token("desk", seconds=RENEWED_SECONDS), guarded.token("desk")]
        driver.do("connect", url=guarded.query.url, tokens=tokens)
        driver.do("open", view="view", topic=guarded.topic, reading={})
        guarded.wait_expired(tokens[0])
        guarded.system.write(guarded.topic, {"id": 1, "desk": "a", "n": 2})
        state = wait_shows(driver, {1: 2})
        assert "reconnecting" not in state["statuses"]
        about = driver.do("about")
        assert (about["attempts"], about["tokensAsked"]) == (1, 2)


@pytest.mark.long
@pytest.mark.parametrize("renews", [False, True])
def test_a_token_that_expires_ends_the_client(guarded: Guarded, renews: bool) -> None:
    """Without another token at once, and otherwise after some attempts to get a better one."""
    with in_node("") as driver:
        token = guarded.token("desk", seconds=RENEWED_SECONDS)
        driver.do("connect", url=guarded.query.url, **({"tokens": [token]} if renews else {"token": token}))
        driver.do("open", view="view", topic=guarded.topic, reading={})
        about = wait_closed(driver)
        assert (about["error"], about["attempts"]) == ("auth failure", 1 + (REFUSALS_MAX if renews else 1))
        state = driver.do("state", view="view")
        assert (state["status"], state["error"], len(state["records"])) == ("failed", "auth failure", 1)


def test_rights_that_become_narrower(guarded: Guarded) -> None:
    """A renewed token of another role: the view starts again with a group, and what may not be seen leaves it."""
    with in_node("") as driver:
        tokens = [guarded.token("all", seconds=RENEWED_SECONDS), guarded.token("desk")]
        driver.do("connect", url=guarded.query.url, tokens=tokens)
        driver.do("open", view="view", topic=guarded.topic, reading={})
        assert len(driver.do("state", view="view")["records"]) == 2
        guarded.system.write(guarded.topic, {"id": 1, "desk": "a", "n": 5}, {"id": 2, "desk": "b", "n": 5})
        wait_shows(driver, {1: 5})
        about = driver.do("about")
        assert (about["attempts"], about["groups"], about["error"]) == (2, 2, None)
        assert driver.do("prove", view="view") is True


@pytest.mark.needs("chromium")
def test_an_origin_that_is_refused(served: Served, tmp_path: Path) -> None:
    """A page of another origin gets the reason, and makes no other attempt."""
    with page_server(tmp_path) as origin, in_chromium(origin) as driver:
        with pytest.raises(SowlineError) as refused:
            driver.do("connect", url=served.query.url)
        assert refused.value.reason == "origin refused"
        about = driver.do("about")
        assert (about["status"], about["error"], about["attempts"]) == ("closed", "origin refused", 1)


def test_a_tab_that_does_not_read(served: Served) -> None:
    """The service stops sending to its subscription, a view of the same client goes on, and nothing is lost."""
    ticks = served["ticks"]
    numbers = range(WAITING_MAX + 2 * BEYOND)

    def write(numbers: range) -> None:
        ticks.write(*({"id": 1, "n": number} for number in numbers))

    def slow() -> dict[str, Any]:
        clients = json.loads(http_text(f"{served.query.url}/v1/clients"))["clients"]
        (found,) = (
            one for client in clients for one in client["subscriptions"] if one["command"] == "subscribe"
        )
        return dict(found)

    with in_node("") as driver:
        driver.do("connect", url=served.query.url)
        driver.do("subscribe", subscription="slow", topic=ticks.name)
        driver.do("open", view="view", topic=ticks.name, reading={})
        write(numbers[:-BEYOND])
        wait_for(lambda: slow()["state"] == "paused", "the subscription to be paused")
        write(numbers[-BEYOND:])
        wait_shows(driver, {1: numbers[-1]})
        assert slow()["behind_positions"] >= BEYOND, "it is sent nothing while it is paused"
        taken = driver.do("take", subscription="slow", count=len(numbers))
        assert [record["n"] for record in taken] == list(numbers)
        wait_for(lambda: slow()["state"] == "live", "the subscription to be live")
        write(range(1))
        assert driver.do("take", subscription="slow", count=1) == [{"id": 1, "n": 0}]
