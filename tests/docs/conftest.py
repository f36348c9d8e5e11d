"""One running system for all pages whose blocks are run: the topics of all of them."""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.docs.pages import blocks_of
from tests.docs.reader import Running
from tests.integration.services import system

# Whose `topics.yaml` is served; those of other pages are only loaded.
SERVED = ("README.md", "docs/queries.md", "docs/emodb.md", "docs/tutorial.md", "docs/gallery.md")
# What other pages ask of these topics.
MORE: list[dict[str, Any]] = [{"name": "files", "key": {"from": "kafka_key"}}]
"""Topics that pages use and do not define."""
BESIDES: dict[str, Any] = {"orders": {"history": {"window": "1h"}}}


def topics_of(page: str) -> list[dict[str, Any]]:
    """Return the topics that a page's `topics.yaml` defines, but for those that another test serves."""
    blocks = [block for block in blocks_of(page) if block.language == "yaml" and "topics:" in block.text]
    texts = [block.text for block in blocks if not block.elsewhere]
    return [
        topic | BESIDES.get(topic["name"], {}) for text in texts for topic in yaml.safe_load(text)["topics"]
    ]


@pytest.fixture(scope="module")
def running(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Everything up."""
    directory = tmp_path_factory.mktemp("pages")
    with system(kafka, directory, [topic for page in SERVED for topic in topics_of(page)] + MORE) as made:
        services = [made.service(module).start() for module in ("materializer", "query_service")]
        for service in services:
            service.wait_ready()
        yield Running(made, services[1].url)
