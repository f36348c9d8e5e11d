"""The terminals of a reader: what is typed there, and what has to come."""

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from sowline.cli import main, reading, writing
from sowline.runtime.child_process import bound_to_parent
from tests.docs.compare import agrees
from tests.docs.pages import ROOT
from tests.integration.services import SECONDS_MAX

_LINE = re.compile(r"(?:[^\n]*\\\n)*[^\n]*")
"""A line, with those that it goes on in."""

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


class Terminal:
    """Types commands, in the current directory. One that goes on by itself is left in a window of its own."""

    def __init__(self, url: str, kafka: str, bin: Path) -> None:
        self._given = {"SOWLINE_URL": url, "SOWLINE_KAFKA": kafka}
        self._bin = _with_our_command(bin)
        self._going: subprocess.Popen[str] | None = None

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
        assert self._going is not None
        assert self._going.stdout is not None
        output = "".join(self._going.stdout.readline() for _ in expected.splitlines())
        assert agrees(output, expected), f"what goes on prints\n{output}\nnot\n{expected}"

    def close(self) -> None:
        """End what goes on, as Ctrl-C does."""
        going, self._going = self._going, None
        if going is not None and going.stdout is not None:
            going.send_signal(signal.SIGINT)
            with going.stdout:
                going.stdout.read()
            assert going.wait(SECONDS_MAX) == 0

    def _leave_going(self, command: Command) -> None:
        self.close()
        typed = bound_to_parent(["sh", "-c", f"exec {command.text}"])
        self._going = subprocess.Popen(typed, stdout=subprocess.PIPE, env=self._environment, text=True)
        self.read_on(command.output)

    def _call(self, arguments: list[str]) -> str:
        """Call a command of ours in this process: most of what one takes is its start."""
        with pytest.MonkeyPatch.context() as patch, open("printed", "w+") as printed:
            for name, value in self._given.items():
                patch.setenv(name, value)
            with contextlib.redirect_stdout(printed):
                main.main(arguments, prog_name="sowline", standalone_mode=False)
            printed.seek(0)
            return printed.read()

    def _in_shell(self, text: str) -> str:
        typed = ["sh", "-c", text]
        done = subprocess.run(
            typed, capture_output=True, env=self._environment, text=True, timeout=SECONDS_MAX
        )
        assert (done.returncode, done.stderr) == (0, ""), (
            f"{text}\nends with {done.returncode}\n{done.stderr}"
        )
        return done.stdout

    @property
    def _environment(self) -> dict[str, Any]:
        path = (str(self._bin), str(Path(sys.executable).parent), os.environ["PATH"])
        return os.environ | self._given | {"PATH": os.pathsep.join(path)}


def _look_at_up(arguments: list[str], output: str) -> None:
    """What a page starts is running already: its options are real ones, its file is there, it prints what it does."""
    main.commands["up"].make_context("up", arguments)
    if output:
        assert json.loads(output).keys() == {"kafka", "url", "console", "pid", "materializer"}


def _is_ours(command: Command) -> bool:
    """Whether it is one plain command of ours that can be called here."""
    plain = not _SHELL.search(re.sub(r"'[^']*'|\"[^\"]*\"", "", command.text))
    return plain and command.words[0] == "sowline" and command.words[1] in _STAYING


def _with_our_command(directory: Path) -> Path:
    """Return the directory, with a `sowline` in it that is the one of this clone."""
    directory.mkdir(exist_ok=True)
    script = directory / "sowline"
    script.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m sowline "$@"\n')
    script.chmod(0o755)
    return directory
