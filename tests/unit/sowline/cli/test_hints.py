"""What the command says about an error besides its message."""

import pytest
from click.testing import CliRunner

from sowline.cli import main
from sowline.errors import SowlineError


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        (
            "logon required",
            (
                "logon required: expected this; give the command a token with --token-file or --token, or in"
                " SOWLINE_TOKEN\n"
            ),
        ),
        ("auth failure", "auth failure: expected this\n"),
    ],
)
def test_a_logon_that_is_required(monkeypatch: pytest.MonkeyPatch, reason: str, shown: str) -> None:
    """The message of a service is for programs: the user of the command also learns which options there are."""

    def refuse(**_: object) -> None:
        raise SowlineError(reason, "expected this")

    monkeypatch.setattr("sowline.cli.reading.Client", refuse)
    done = CliRunner().invoke(main, ["topics", "--url", "http://127.0.0.1:1"])
    assert (done.exit_code, done.stderr) == (1, shown)


def test_a_message_can_not_steer_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may quote another user's text; its own line breaks stay."""

    def refuse(**_: object) -> None:
        raise SowlineError("bad request", "got \x1b[31m\r\x9b\nsee above")

    monkeypatch.setattr("sowline.cli.reading.Client", refuse)
    done = CliRunner().invoke(main, ["topics", "--url", "http://127.0.0.1:1"])
    assert done.stderr == "bad request: got \\x1b[31m\\r\\x9b\nsee above\n"
