"""How commands find a running `sowline up`."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from sowline.cli import main
from sowline.cli.connection import USUAL_URL, found_url
from sowline.cli.operate import stack_settings
from sowline.cli.top.command import found_urls
from sowline.errors import SowlineError
from sowline.runtime.running_stack import RunningStack, announced, chosen_stack, running_stacks, start_of


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of its own for the files."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "sowline" / "running"


def stack(**more: object) -> RunningStack:
    """Return a stack of this process."""
    mine = RunningStack(
        pid=os.getpid(),
        started=start_of(os.getpid()) or "",
        directory=str(Path.cwd()),
        kafka="127.0.0.1:9092",
        url="http://127.0.0.1:8080",
        services={"materializer": "http://127.0.0.1:8081"},
        config="topics.yaml",
        data_dir="var/sow",
    )
    return replace(mine, **more)  # type: ignore[arg-type]


def test_a_stack_is_found_while_it_runs() -> None:
    """And not any more afterwards."""
    assert chosen_stack() is None
    with announced(stack()):
        assert chosen_stack() == stack()
        assert stack().urls == ("http://127.0.0.1:8080", "http://127.0.0.1:8081")
    assert chosen_stack() is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": 1}', "null"])
def test_a_damaged_file_is_no_stack(state: Path, text: str) -> None:
    """The next announcement removes it."""
    state.mkdir(parents=True)
    (state / "7.json").write_text(text)
    assert running_stacks() == []
    with announced(stack()):
        assert not (state / "7.json").exists()


def test_a_stale_file_is_no_stack(state: Path) -> None:
    """Its process was killed; or another one has its id."""
    state.mkdir(parents=True)
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    (state / "1.json").write_text(json.dumps(asdict(stack(pid=ended.pid))))
    (state / "2.json").write_text(json.dumps(asdict(stack(started="12"))))
    assert running_stacks() == []


def test_of_several_the_one_of_this_directory(state: Path) -> None:
    """Without one of this directory, none of several is chosen."""
    state.mkdir(parents=True)
    for number, directory in enumerate(("/a", "/b")):
        (state / f"{number}.json").write_text(json.dumps(asdict(stack(directory=directory))))
    assert chosen_stack() is None
    with announced(stack()):
        assert chosen_stack() == stack()


def announced_in(state: Path, *directories: str) -> None:
    """Let stacks run that were started in these directories, at ports from 8080 on."""
    state.mkdir(parents=True)
    for number, directory in enumerate(directories):
        one = stack(directory=directory, url=f"http://127.0.0.1:{8080 + number}")
        (state / f"{number}.json").write_text(json.dumps(asdict(one)))


USING = "sowline: using http://127.0.0.1:8080 of `sowline up` (pid {}, topics.yaml)"
ELSEWHERE = f"{USING}, which runs in another directory\n"


@pytest.mark.parametrize("is_terminal", [True, False])
@pytest.mark.parametrize("find", [found_url, lambda: found_urls()[0]])
@pytest.mark.parametrize("directories", [("/a",), ("/a", "/b")])
def test_who_goes_to_the_system_of_another_directory_says_so(
    state: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    directories: tuple[str, ...],
    find: Callable[[], str],
    is_terminal: bool,
) -> None:
    """In a pipe too; also if it is found only because it has the usual port."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    announced_in(state, *directories)
    assert find() == USUAL_URL
    assert capsys.readouterr() == ("", ELSEWHERE.format(os.getpid()))


@pytest.mark.parametrize(("url", "is_reported"), [(USUAL_URL, False), ("http://127.0.0.1:8081", True)])
def test_who_goes_to_the_system_of_this_directory_says_little(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], url: str, is_reported: bool
) -> None:
    """A terminal shows which one it is if it has an unusual port; a pipe has no line about what was expected."""
    with announced(stack(url=url)):
        assert found_url() == url
        assert capsys.readouterr() == ("", "")
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
        assert found_url() == url
        line = USING.format(os.getpid()).replace(USUAL_URL, url)
        assert capsys.readouterr() == ("", f"{line}\n" if is_reported else "")


@pytest.mark.parametrize("find", [found_url, found_urls])
def test_a_directory_with_topics_has_a_system_of_its_own(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, find: Callable[[], object]
) -> None:
    """While it does not run, no command that sends requests goes to that of another directory instead."""
    announced_in(state, "/a")
    monkeypatch.chdir(tmp_path)
    find()
    (tmp_path / "topics.yaml").touch()
    with pytest.raises(SowlineError, match="found one of /a: start `sowline up` here") as error:
        find()
    assert error.value.reason == "not connected"
    with announced(stack(url="http://127.0.0.1:9090")):
        assert "9090" in str(find())


def test_a_directory_with_topics_is_examined_by_itself(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands that examine topics or state use its files and settings, not those of a system elsewhere."""
    announced_in(state, "/a")
    monkeypatch.chdir(tmp_path)
    assert chosen_stack() is not None
    assert stack_settings()["SOWLINE_CONFIG"] == "topics.yaml"
    (tmp_path / "topics.yaml").touch()
    assert chosen_stack() is None
    assert stack_settings() == {}


def test_a_shell_that_completes_a_word_shows_only_words(state: Path) -> None:
    """A line about the system would stand in the middle of the command that is being typed."""
    announced_in(state, "/a")
    completing = {
        "_SOWLINE_COMPLETE": "bash_complete",
        "COMP_WORDS": "sowline sow orders --full",
        "COMP_CWORD": "3",
    }
    done = CliRunner().invoke(main, prog_name="sowline", env=completing)
    assert (done.stdout, done.stderr) == ("plain,--full\n", "")


def test_who_finds_no_system_says_nothing(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The usual address is asked, at which none of them is."""
    assert found_url() == USUAL_URL
    state.mkdir(parents=True)
    for number in range(2):
        one = stack(directory="/a", url=f"http://127.0.0.1:{9000 + number}")
        (state / f"{number}.json").write_text(json.dumps(asdict(one)))
    assert found_url() == USUAL_URL
    assert capsys.readouterr() == ("", "")


def test_where_nothing_can_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stack runs without being found."""
    monkeypatch.setenv("XDG_STATE_HOME", "/dev/null")
    with announced(stack()):
        assert running_stacks() == []
