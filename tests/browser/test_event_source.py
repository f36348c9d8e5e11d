"""A browser's `EventSource` on a subscription, over real services and a real Kafka."""

from collections.abc import Iterator

import pytest

from tests.browser.seen import browser
from tests.docs.pages import blocks_of
from tests.integration.served import Served, serve

pytestmark = pytest.mark.needs("chromium")


@pytest.fixture(scope="module")
def served(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A materializer and a query service."""
    with serve(kafka, tmp_path_factory.mktemp("source"), {"orders": {"key": "/id"}}) as served:
        yield served


def test_the_page(served: Served) -> None:
    """What api.md shows keeps a view, also when the service is started again while the page stays."""
    orders = served["orders"]
    [block] = [one for one in blocks_of("docs/api.md") if one.elsewhere.endswith("::test_the_page")]
    script = block.text.replace("topics/orders/", f"topics/{orders.name}/")
    orders.write({"id": 1, "n": 1}, {"id": 2, "n": 1})
    with browser() as chromium, chromium.new_context() as context:
        page = context.new_page()
        page.goto(f"{served.query.url}/console/")
        page.evaluate(f"() => {{ {script}; window.records = records; window.stream = stream }}")
        shows = (
            "wanted => JSON.stringify([...records.values()].map(each => [each.id, each.n]).sort()) === wanted"
        )
        page.wait_for_function(shows, arg="[[1,1],[2,1]]")
        orders.write({"id": 1, "n": 2})
        page.wait_for_function(shows, arg="[[1,2],[2,1]]")
        page.evaluate(
            "() => { window.groups = 0; stream.addEventListener('group_begin', () => window.groups++) }"
        )
        served.query.stop()
        page.wait_for_function("() => stream.readyState === EventSource.CONNECTING")
        served.query.start().wait_ready()
        orders.delete({"id": 2})
        orders.write({"id": 3, "n": 3})
        page.wait_for_function(shows, arg="[[1,2],[3,3]]")
        assert page.evaluate("window.groups") == 0, "it has gone on from its last id"
