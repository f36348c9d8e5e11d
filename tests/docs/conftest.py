"""One running system for all pages whose blocks are run: the topics of all of them."""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.docs.pages import blocks_of
from tests.docs.reader import Running, system_of_pages

# Whose `topics.yaml` is served; those of other pages are only loaded.
SERVED = (
    "README.md",
    "docs/queries.md",
    "docs/emodb.md",
    "docs/tutorial.md",
    "docs/gallery.md",
    "docs/views.md",
    "docs/agents.md",
)
# What other pages ask of these topics.
MORE: list[dict[str, Any]] = [{"name": "files", "key": {"from": "kafka_key"}}]
"""Topics that pages use and do not define."""
BESIDES: dict[str, Any] = {"orders": {"history": {"window": "1h"}}}


def defined(page: str, kind: str) -> list[dict[str, Any]]:
    """Return the topics, views or conflated topics that a page defines, but for those that another test serves."""
    blocks = [block for block in blocks_of(page) if block.language == "yaml" and f"{kind}:" in block.text]
    texts = [block.text for block in blocks if not block.elsewhere]
    found = [one for text in texts for one in _loaded(text).get(kind, [])]
    return [one | BESIDES.get(one["name"], {}) for one in found]


def _loaded(text: str) -> dict[str, Any]:
    """Return YAML, with all values as text: otherwise `on`, a field of joins, is a truth value."""
    found: dict[str, Any] = yaml.load(text, yaml.BaseLoader)
    return found


def of_all_pages(kind: str) -> list[dict[str, Any]]:
    """Return what all served pages define of a kind."""
    return [one for page in SERVED for one in defined(page, kind)]


@pytest.fixture(scope="module")
def running(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Everything up."""
    directory = tmp_path_factory.mktemp("pages")
    topics, views, conflated = map(of_all_pages, ("topics", "views", "conflated"))
    with system_of_pages(kafka, directory, topics + MORE, views=views, conflated=conflated) as made:
        modules = ("materializer", "query_service", "views")
        services = [made.service(module).start() for module in modules]
        for service in services:
            service.wait_ready()
        yield Running(made, services[1].url)
