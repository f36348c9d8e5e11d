"""The terminals of a reader: what is typed there, and what has to come."""

import contextlib
import json
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
import termios
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

import pytest

from sowline.cli import main, reading, writing
from sowline.runtime.child_process import bound_to_parent
from tests.docs.compare import agrees
from tests.docs.pages import ROOT
from tests.waiting import SECONDS_MAX

_LINE = re.compile(r"(?:[^\n]*\\\n)*[^\n]*")
"""A line, with those that it goes on in."""

COLUMNS = 100
"""The width of a screen."""

PANEL = ("Console", "Queries", "Kafka", "Materializer", "Topics", "State")
"""What `sowline up` shows on a screen."""

Outlet = Callable[[], tuple[int, int]]
"""Opens what a command writes to; returns the descriptor to read there, and the one of the command."""

_SHELL = re.compile(r"[|<>;&`$]")
_STAYING = {
    name
    for name, of in main.commands.items()
    if getattr(of.callback, "__module__", "") in (reading.__name__, writing.__name__)
}
"""Commands that do not become another program."""


class Command(NamedTuple):
    """A command, and what a page shows below it."""

    text: str
    output: str

    @property
    def words(self) -> list[str]:
        """What the shell makes of it."""
        return shlex.split(self.text, comments=True)


def commands_of(text: str) -> list[Command]:
    """Return the commands of a console block."""
    found = []
    for part in f"\n{text}".split("\n$ ")[1:]:
        line = _LINE.match(part)
        assert line is not None
        found.append(Command(line[0].replace("\\\n", " "), part[line.end() :].strip()))
    return found


def screen() -> tuple[int, int]:
    """Open a terminal, whose lines end as those of a pipe do."""
    ours, theirs = pty.openpty()
    attributes = termios.tcgetattr(theirs)
    attributes[1] &= ~termios.OPOST
    termios.tcsetattr(theirs, termios.TCSANOW, attributes)
    return ours, theirs


class Terminal:
    """Types commands, in the current directory. One that goes on by itself is left in a window of its own.

    Commands write to pipes, or each to a `screen`.
    """

    def __init__(self, programs: Path, given: Mapping[str, str], outlet: Outlet) -> None:
        """Prepare to run the commands of a directory, with variables."""
        self._given = {"COLUMNS": str(COLUMNS), "NO_COLOR": "1", **given}
        self._bin = programs
        self._outlet = outlet
        self._going: subprocess.Popen[bytes] | None = None
        self._shown: IO[str] | None = None
        """What the command that goes on writes."""

    @property
    def is_going(self) -> bool:
        """Whether there is a command that goes on."""
        return self._going is not None

    def type(self, command: Command) -> None:
        """Type a command, and compare what it prints."""
        words = command.words
        if words[:2] == ["sowline", "up"]:
            _look_at_up(words[2:], command.output)
        elif words[0] == "make":
            done = subprocess.run(["make", "-n", *words[1:]], cwd=ROOT, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
        elif (
            words[:1] == ["sowline"]
            and words[1].endswith("subscribe")
            and not {"--count", "--up-to"} & set(words)
        ):
            self._leave_going(command)
        else:
            output = self._call(words[1:]) if _is_ours(command) else self._in_shell(command.text)
            assert agrees(output, command.output), f"{command.text}\nprints\n{output}\nnot\n{command.output}"

    def read_on(self, expected: str) -> None:
        """Compare what the command that goes on has printed since."""
        assert self._shown is not None
        output = "".join(self._shown.readline() for _ in expected.splitlines())
        assert agrees(output, expected), f"what goes on prints\n{output}\nnot\n{expected}"

    def close(self) -> None:
        """End what goes on, as Ctrl-C does."""
        going, shown, self._going, self._shown = self._going, self._shown, None, None
        if going is not None and shown is not None:
            going.send_signal(signal.SIGINT)
            with shown, contextlib.suppress(OSError):  # as _all_of has it
                shown.read()
            assert going.wait(SECONDS_MAX) == 0

    def _leave_going(self, command: Command) -> None:
        self.close()
        typed = bound_to_parent(["sh", "-c", f"exec {command.text}"])
        ours, theirs = self._outlet()
        self._shown = os.fdopen(ours, encoding="utf-8")
        with os.fdopen(theirs, "wb") as written:
            self._going = subprocess.Popen(typed, stdout=written, env=self._environment)
        self.read_on(command.output)

    def _call(self, arguments: list[str]) -> str:
        """Call a command of ours in this process: most of what one takes is its start."""
        ours, theirs = self._outlet()
        with pytest.MonkeyPatch.context() as patch, os.fdopen(theirs, "w", encoding="utf-8") as printed:
            for name, value in self._given.items():
                patch.setenv(name, value)
            with contextlib.redirect_stdout(printed):
                main.main(arguments, prog_name="sowline", standalone_mode=False)
        return _all_of(ours)

    def _in_shell(self, text: str) -> str:
        typed = ["sh", "-c", text]
        ours, theirs = self._outlet()
        with os.fdopen(theirs, "wb") as written:
            done = subprocess.run(
                typed,
                stdout=written,
                stderr=subprocess.PIPE,
                env=self._environment,
                text=True,
                timeout=SECONDS_MAX,
            )
        assert (done.returncode, done.stderr) == (0, ""), (
            f"{text}\nends with {done.returncode}\n{done.stderr}"
        )
        return _all_of(ours)

    @property
    def _environment(self) -> dict[str, Any]:
        path = (str(self._bin), str(Path(sys.executable).parent), os.environ["PATH"])
        return os.environ | self._given | {"PATH": os.pathsep.join(path)}


def _look_at_up(arguments: list[str], output: str) -> None:
    """What a page starts is running already: its options are real ones, its file is there, it prints what it does."""
    main.commands["up"].make_context("up", arguments)
    if output.startswith("Sowline is ready. Ctrl-C stops it."):
        assert re.findall(r"^  (\w+)  +\S+$", output, re.MULTILINE) == [*PANEL]
    elif output:
        assert json.loads(output).keys() == {"kafka", "url", "console", "pid", "materializer"}


def _all_of(ours: int) -> str:
    """Return what was written, once nobody writes any more: a terminal then ends with an error, not with its end."""
    found = b""
    with open(ours, "rb", buffering=0) as written, contextlib.suppress(OSError):
        while some := written.read(1 << 16):
            found += some
    return found.decode()


def _is_ours(command: Command) -> bool:
    """Whether it is one plain command of ours that can be called here."""
    plain = not _SHELL.search(re.sub(r"'[^']*'|\"[^\"]*\"", "", command.text))
    return plain and command.words[0] == "sowline" and command.words[1] in _STAYING


def with_our_command(directory: Path) -> Path:
    """Return the directory, with a `sowline` in it that is the one of this clone."""
    directory.mkdir(exist_ok=True)
    script = directory / "sowline"
    script.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m sowline "$@"\n')
    script.chmod(0o755)
    return directory
