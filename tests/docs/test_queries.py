"""The examples of docs/queries.md do what the page shows, on a real Kafka and with real services."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sowline import Client
from tests.docs.pages import Example, agrees, page, sections_of

TEXT = page("docs/queries.md")
SECTIONS = sections_of(TEXT)
DATA, *READING = SECTIONS
USUAL = "http://127.0.0.1:8080"
RECORDS = {"sales.eu": 5, "sales.us": 1}


@pytest.fixture(scope="module")
def url_with_data(url: str) -> str:
    """The service, once it has what the page publishes."""
    up, *publish = SECTIONS[DATA]
    assert up.text.startswith("sowline up")
    for example in publish:
        assert run(example, url) == ""
    with Client(url) as client:
        for topic, count in RECORDS.items():
            wait_for_records(client, topic, count)
    return url


def wait_for_records(client: Client, topic: str, count: int) -> None:
    """Wait until the topic has so many records."""
    seen: set[str | None] = set()
    for message in client.sow_and_subscribe(topic):
        if message.command in ("sow", "publish"):
            seen.add(message.sow_key)
        if message.command in ("group_end", "publish") and len(seen) == count:
            return


def run(example: Example, url: str) -> str:
    """Run an example against a service, and return what it prints."""
    text = example.text.replace(USUAL, url)
    script = [sys.executable, "-c", text] if example.language == "python" else ["sh", "-c", text]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"SOWLINE_URL": url, "PATH": path}
    done = subprocess.run(script, env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


@pytest.mark.parametrize("title", READING)
def test_the_examples_print_what_the_page_shows(title: str, url_with_data: str) -> None:
    """Each reading example, command or script, and the output below it."""
    for example in SECTIONS[title]:
        if example.text.startswith("curl") and shutil.which("curl") is None:
            continue
        output = run(example, url_with_data)
        assert agrees(output, example.output), f"{example.text}\nprints\n{output}\nnot\n{example.output}"


def test_no_example_is_passed_over() -> None:
    """Every script has its output, and every command is run."""
    examples = [example for found in SECTIONS.values() for example in found]
    scripts = [example for example in examples if example.language == "python"]
    assert len(scripts) == TEXT.count("```python") > 3
    assert len(examples) - len(scripts) == TEXT.count("\n$ ") > 15
