"""A reader who does what a page says, block after block, and compares what comes with what the page shows."""

import asyncio
import contextlib
import inspect
import io
import os
import re
import urllib.request
from ast import PyCF_ALLOW_TOP_LEVEL_AWAIT
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from sowline.cli import main
from sowline.client.client import Client
from sowline.config.kafka_options import kafka_config
from sowline.config.topics import parse_topics
from sowline.kafka.admin import Cluster
from sowline.serving.authorization.access_file import parse_access
from sowline_ingest.definition import load_pipeline
from sowline_materializer.admin.commands import operate
from tests.docs.compare import agrees
from tests.docs.pages import Block, blocks_of
from tests.docs.terminal import Command, Terminal, commands_of, screen, with_our_command
from tests.docs.transcript import Transcript
from tests.integration.services import System, system
from tests.waiting import SECONDS_MAX

USUAL = "http://127.0.0.1:8080"
USUAL_KAFKA = "127.0.0.1:29092"
PIPELINE = "docs/pipeline-file.md"
ON_A_SCREEN = {"README.md", "docs/tutorial.md"}
"""Pages that show what a terminal shows. Others show what a program reads from a pipe."""

UNKNOWN = "nothing runs this block; say why in a comment before it: CONTRIBUTING.md has the forms"

_TIME = re.compile(r"20\d{6}T\d{6}Z")


@contextlib.contextmanager
def system_of_pages(
    kafka: str, directory: Path, topics: list[dict[str, Any]], **more: Any
) -> Iterator[System]:
    """Lend a system with the topics that pages define, and delete these topics from Kafka at the end.

    Several pages call a topic `orders`, with other types and numbers of partitions. Their modules may share a Kafka.
    """
    with system(kafka, directory, topics, **more) as made:
        yield made
    names = [name for topic in made.topics.topics for name in topic.kafka.names]
    Cluster(kafka_config(kafka)).delete_topics(names)


class Running(NamedTuple):
    """The system that pages are read beside, and where its query service is."""

    system: System
    url: str


class Shown(io.StringIO):
    """Takes what a script prints. Where the page shows that it goes on (`…` as the last line), ends it as Ctrl-C."""

    def __init__(self, expected: str) -> None:
        super().__init__()
        self._lines = expected.count("\n") if expected.endswith("\n…") else None

    def write(self, text: str) -> int:
        """Take some of it."""
        written = super().write(text)
        if self._lines is not None and self.getvalue().count("\n") == self._lines:
            raise KeyboardInterrupt
        return written


class Reader:
    """Reads one page, or those of its blocks that name a test that runs them.

    What it does lies in a directory of its own; its topics are empty when it begins.
    """

    def __init__(self, page: str, running: Running, directory: Path, test: str = "") -> None:
        self._blocks = [block for block in blocks_of(page) if not block.excuse and block.elsewhere == test]
        self._running = running
        self._directory = directory
        outlet = screen if page in ON_A_SCREEN else os.pipe
        given = {"SOWLINE_URL": running.url, "SOWLINE_KAFKA": running.system.kafka}
        self._terminal = Terminal(with_our_command(directory / "bin"), given, outlet)
        self._transcript = Transcript(running.url)
        self._names: dict[str, Any] = {"__name__": "__main__"}
        self._output: Block | None = None
        self._began = datetime.now(UTC)

    def read(self) -> None:
        """Do everything that the page says."""
        if any(block.language in ("console", "json", "python") for block in self._blocks):
            self._empty_topics()
            self._began = datetime.now(UTC)
        with contextlib.chdir(self._directory), contextlib.closing(self._terminal), self._transcript:
            for block, after in zip(self._blocks, [*self._blocks[1:], None], strict=True):
                try:
                    self._do(block, after)
                except BaseException as error:
                    error.add_note(f"at {block.location}")
                    raise

    def _do(self, block: Block, after: Block | None) -> None:
        if block.language == "console":
            for command in commands_of(self._here(block.text)):
                self._terminal.type(command)
                self._settle(command)
        elif block.language == "python":
            self._run_script(block, after)
        elif block.language == "json":
            self._transcript.play(block, self._here(block.text))
        elif block.language == "yaml":
            self._load(block)
        elif block is not self._output:
            self._look_at(block)

    def _here(self, text: str) -> str:
        """Return a text as it has to be here: addresses, and times, the first of which is when the reading began."""
        for number, time in enumerate(sorted(set(_TIME.findall(text)))):
            at = self._began if number == 0 else datetime.now(UTC) + timedelta(seconds=1)
            text = text.replace(time, at.strftime("%Y%m%dT%H%M%S.%fZ"))
        return text.replace(USUAL_KAFKA, self._running.system.kafka).replace(USUAL, self._running.url)

    def _run_script(self, block: Block, after: Block | None) -> None:
        """Run a script; its names are there for those after it. The block behind it is what it prints."""
        self._output = after if after is not None and after.language == "" and not block.hidden else None
        expected = "" if self._output is None else self._output.text.strip()
        code = compile(self._here(block.text), block.location, "exec", PyCF_ALLOW_TOP_LEVEL_AWAIT)
        with contextlib.redirect_stdout(Shown(expected)) as printed, contextlib.suppress(KeyboardInterrupt):
            running = eval(code, self._names)
            if inspect.iscoroutine(running):
                asyncio.run(running)
        output = printed.getvalue() + ("…" if expected.endswith("\n…") else "")
        assert agrees(output, expected), f"prints\n{output}\nnot\n{expected}"
        self._settle(block)

    def _load(self, block: Block) -> None:
        """Load YAML as what it is for, and leave topics where commands look for them."""
        given = yaml.safe_load(block.text)
        if given.keys() <= {"topics", "fanouts", "views", "conflated"}:
            self._load_topics(block.text, given)
        elif "roles" in given:
            assert parse_access(block.text).roles
        else:
            whole = given if "sources" in given else yaml.safe_load(_first_yaml(PIPELINE)) | given
            Path("pipeline.yaml").write_text(yaml.safe_dump(whole, sort_keys=False))
            variables = dict.fromkeys(re.findall(r"\$\{(\w+)\}", block.text), "given")
            assert load_pipeline(Path("pipeline.yaml"), variables).name

    def _load_topics(self, text: str, given: dict[str, Any]) -> None:
        """Check a file of topics. A block without topics is added to the file that the page has made before."""
        if "topics" not in given:
            # As text, because `on`, a field of joins, is a truth value otherwise.
            texts = Path("topics.yaml").read_text(), text
            before, added = (yaml.load(one, yaml.BaseLoader) for one in texts)
            whole = before | {kind: before.get(kind, []) + more for kind, more in added.items()}
            text = yaml.safe_dump(whole, sort_keys=False)
        parse_topics(text)
        Path("topics.yaml").write_text(text)

    def _look_at(self, block: Block) -> None:
        """Text is what goes on in a terminal, or tells how a command is called, with options that it has."""
        assert block.language in ("", "text"), UNKNOWN
        if self._terminal.is_going:
            self._terminal.read_on(block.text.strip())
            return
        for line in block.text.splitlines():
            program, name, *words = re.findall(r"[\w-]+", line)
            assert program == "sowline", UNKNOWN
            ours = [of.commands[name] for of in (main, operate) if name in of.commands]
            options = {option for command in ours for of in command.params for option in of.opts}
            assert {word for word in words if word.startswith("--")} <= options, line

    def _empty_topics(self) -> None:
        request = f"{self._running.url}/v1/topics/%5E.*/sow_delete?filter=1=1&ack=processed"
        urllib.request.urlopen(urllib.request.Request(request, method="POST"), timeout=SECONDS_MAX).close()
        self._wait_settled({topic.name for topic in self._running.system.topics.topics})

    def _settle(self, done: Command | Block) -> None:
        """Wait until what was written to the topics that it names can be read."""
        topics = self._running.system.topics.topics
        self._wait_settled({topic.name for topic in topics if topic.name in done.text})

    def _wait_settled(self, names: set[str]) -> None:
        """Wait until the logs of topics are applied, and views of them reflect that."""
        settled = set[str]()
        for topic in self._running.system.topics.topics:
            view = topic.view
            if topic.name in names:
                self._running.system.wait_settled(self._running.url, topic.name)
                settled.add(topic.name)
            for read in () if view is None else view.read_topics:
                if read in settled:
                    self._wait_reflected(topic.name, read)
                    settled.add(topic.name)

    def _wait_reflected(self, view: str, read: str) -> None:
        with Client(self._running.url) as client:
            reached = next(client.sow(read, top_n=0)).bookmark
            assert reached is not None
            list(client.sow(view, top_n=0, at_least=reached))


def _first_yaml(page: str) -> str:
    return next(block.text for block in blocks_of(page) if block.language == "yaml")
