"""One running system for all pages whose examples are run."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
import yaml

from tests.docs.pages import page, topics_of

PAGES = ("README.md", "docs/queries.md")


@pytest.fixture(scope="session")
def url(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Everything up, on the topics of all these pages."""
    directory = tmp_path_factory.mktemp("pages")
    topics = [topic for name in PAGES for topic in topics_of(page(name))]
    (directory / "topics.yaml").write_text(yaml.safe_dump({"topics": topics}))
    up = ["up", "--config", "topics.yaml", "--port", "0", "--kafka", kafka]
    process = subprocess.Popen([sys.executable, "-m", "sowline", *up], cwd=directory, stdout=subprocess.PIPE)
    assert process.stdout is not None
    yield json.loads(process.stdout.readline())["url"]
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 0
    process.stdout.close()
