"""A newcomer who follows a page literally, with the packages of an environment and a `sowline up` of their own."""

import contextlib
import os
import shlex
import signal
import subprocess
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from sowline.client.client import Client
from tests.docs.compare import agrees
from tests.docs.pages import Block, blocks_of
from tests.docs.reader import USUAL
from tests.docs.terminal import Command, Terminal, commands_of, screen

PAGE = "docs/tutorial.md"
READY_SECONDS_MAX = 180
PREPARING = ("make", "export")
"""The first words of commands that install what the environment has already."""


class Newcomer(Terminal):
    """Types commands at a terminal, all of them as processes; `sowline up` runs in a terminal of its own."""

    def __init__(self, programs: Path, given: Mapping[str, str]) -> None:
        super().__init__(programs, given, screen)
        self._up: subprocess.Popen[bytes] | None = None
        self.url = ""

    @property
    def _environment(self) -> dict[str, str]:
        """The variables of this process, but for those that commands of ours would go by."""
        others = {name: value for name, value in os.environ.items() if not name.startswith("SOWLINE_")}
        return {**others, **self._given, "PATH": f"{self._bin}:{others['PATH']}"}

    def type(self, command: Command) -> None:
        """Type a command, and compare what it prints."""
        words = command.words
        if words[:2] == ["sowline", "up"]:
            self.start(command.output)
        elif words[0] not in PREPARING:
            if words[1:2] and words[1].endswith("subscribe"):
                self._leave_going(command)
                return
            output = self._in_shell(command.text)
            assert agrees(output, command.output), f"{command.text}\nprints\n{output}\nnot\n{command.output}"

    def start(self, panel: str = "") -> None:
        """Start everything, at a free port, and wait for the panel; compare its names with those that are shown."""
        ours, theirs = screen()
        with os.fdopen(theirs, "wb") as written:
            command = shlex.split("sowline up --port 0")
            self._up = subprocess.Popen(command, stdout=written, stderr=written, env=self._environment)
        shown, deadline = b"", time.monotonic() + READY_SECONDS_MAX
        with os.fdopen(ours, "rb", buffering=0) as written_there, contextlib.suppress(OSError):
            while b"  State  " not in shown:
                assert time.monotonic() < deadline, shown.decode()
                shown += written_there.read(1 << 12)
        rows = dict(line.split()[:2] for line in shown.decode().splitlines() if line.startswith("  "))
        assert "Sowline is ready. Ctrl-C stops it." in shown.decode()
        if panel:
            assert [*rows] == [line.split()[0] for line in panel.splitlines() if line.startswith("  ")]
        self.url = rows["Queries"]

    def stop(self) -> None:
        """End it as Ctrl-C does."""
        up, self._up = self._up, None
        if up is not None:
            up.send_signal(signal.SIGINT)
            assert up.wait(60) == 0

    def settle(self) -> None:
        """Wait until what was written before can be read: a later command of the topic has been carried out."""
        request = urllib.request.Request(
            f"{self.url}/v1/topics/tasks/sow_delete?filter=1=2&ack=processed", method="POST"
        )
        urllib.request.urlopen(request, timeout=60).close()
        with Client(self.url) as client:
            reached = next(client.sow("tasks", top_n=0)).bookmark
            assert reached is not None
            if any(topic["name"] == "workload" for topic in client.topics()["topics"]):
                list(client.sow("workload", top_n=0, at_least=reached))


def follow(newcomer: Newcomer) -> int:
    """Do in the current directory what the tutorial says; return how many commands were typed."""
    blocks = [block for block in blocks_of(PAGE) if not block.elsewhere]
    typed = 0
    for block, after in zip(blocks, [*blocks[1:], None], strict=True):
        if block.language == "console":
            for command in commands_of(block.text.replace(USUAL, newcomer.url or USUAL)):
                newcomer.type(command)
                newcomer.settle() if newcomer.url else None
                typed += 1
        elif block.language == "yaml":
            _write(newcomer, block)
        elif block.language == "python":
            assert after is not None
            Path("view.py").write_text(block.text.replace(USUAL, newcomer.url))
            newcomer.type(Command("python view.py", after.text.strip()))
            newcomer.settle()
        elif newcomer.is_going and blocks[blocks.index(block) - 1].language != "python":
            newcomer.read_on(block.text.strip())
    return typed


def _write(newcomer: Newcomer, block: Block) -> None:
    """Write a file by the name in its first line; what has no name is added to the topics, and all starts again."""
    first = block.text.splitlines()[0]
    if first.startswith("# "):
        Path(first.removeprefix("# ")).write_text(block.text)
        return
    newcomer.close()
    newcomer.stop()
    with Path("topics.yaml").open("a") as topics:
        topics.write(block.text)
    newcomer.start()
