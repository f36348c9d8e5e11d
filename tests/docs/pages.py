"""What the pages hold that can be run: topics, commands with their output, and scripts with theirs."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

ROOT = Path(__file__).parents[2]

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)

_COMMAND = re.compile(r"(?:[^\n]*\\\n)*[^\n]*")
"""A line, with those that it goes on in."""


class Example(NamedTuple):
    """A command or a script, and what it prints; `…` in that stands for any text."""

    language: str
    text: str
    output: str


def page(name: str) -> str:
    """Return the text of a page: README.md, or one below docs/."""
    return (ROOT / name).read_text()


def topics_of(text: str) -> list[dict[str, Any]]:
    """Return the topics that a page's `topics.yaml` defines."""
    blocks = [body for language, body in _BLOCK.findall(text) if language == "yaml" and "topics.yaml" in body]
    return [topic for body in blocks for topic in yaml.safe_load(body)["topics"]]


def sections_of(text: str) -> dict[str, list[Example]]:
    """Return a page's examples by heading, in order; a script without its output behind it is none."""
    parts = re.split(r"^##+ (.*)$", text, flags=re.MULTILINE)
    sections = zip(parts[1::2], parts[2::2], strict=True)
    return {title: found for title, body in sections if (found := list(_examples(body)))}


def _examples(text: str) -> Iterator[Example]:
    script = None
    for language, body in _BLOCK.findall(text):
        if language == "console":
            for part in f"\n{body}".split("\n$ ")[1:]:
                command = _COMMAND.match(part)
                assert command is not None
                yield Example("console", command[0], part[command.end() :].strip())
        elif language == "python":
            script = body
        elif language == "" and script is not None:
            yield Example("python", script, body.strip())
            script = None


def agrees(output: str, expected: str) -> bool:
    """Whether an output is as the page shows it."""
    pattern = ".*".join(map(re.escape, expected.split("…")))
    return re.fullmatch(pattern, output.strip()) is not None
