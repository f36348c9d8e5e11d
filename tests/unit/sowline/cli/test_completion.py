"""Completion by the shell: commands, options, and the names of topics."""

from pathlib import Path

import pytest
from click.shell_completion import BashComplete
from click.testing import CliRunner

from sowline.cli import main
from sowline.cli.connection import ConnectionOptions
from sowline.cli.http import HttpAnswer

UNREACHABLE = "http://127.0.0.1:1"


def completed(*words: str) -> list[str]:
    """Return what may stand in place of the last word."""
    completion = BashComplete(main, {}, "sowline", "_SOWLINE_COMPLETE")
    return [one.value for one in completion.get_completions(list(words[:-1]), words[-1])]


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No service answers, and a file defines topics."""
    (tmp_path / "topics.yaml").write_text(
        "{topics: [{name: orders, key: /id}, {name: offers, key: /id}], views: [{name: open, from: orders}]}"
    )
    monkeypatch.setenv("SOWLINE_URL", UNREACHABLE)
    monkeypatch.setenv("SOWLINE_CONFIG", str(tmp_path / "topics.yaml"))


def test_commands_and_options_are_completed() -> None:
    """From their beginning."""
    assert {"doctor", "delete"} <= set(completed("d"))
    assert completed("sow", "--ord") == ["--order-by"]
    assert completed("top", "--sort", "l") == ["log", "lag"]


def test_topics_are_completed_from_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no query service answers, views too; without a file there is nothing."""
    assert completed("sow", "o") == ["offers", "open", "orders"]
    assert completed("publish", "or") == ["orders"]
    monkeypatch.setenv("SOWLINE_CONFIG", "none.yaml")
    assert completed("sow", "o") == []


def test_topics_are_completed_from_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that `--url` names goes before that of the environment."""
    asked = []

    def get(url: str, connection: ConnectionOptions) -> HttpAnswer:
        asked.append(url)
        return HttpAnswer(200, {}, b'{"topics": [{"name": "trades"}, {"name": "orders"}]}')

    monkeypatch.setattr("sowline.cli.completion.get", get)
    assert completed("sow", "") == ["orders", "trades"]
    assert completed("subscribe", "--url", "http://q/", "t") == ["trades"]
    assert asked == [f"{UNREACHABLE}/v1/topics", "http://q/v1/topics"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_instructions(shell: str) -> None:
    """The script that a shell reads names the command, and asks it with its own variable."""
    variable = {"_SOWLINE_COMPLETE": f"{shell}_source"}
    result = CliRunner().invoke(main, env=variable, prog_name="sowline")
    assert result.exit_code == 0, result.output
    assert f"_SOWLINE_COMPLETE={shell}_complete" in result.output
