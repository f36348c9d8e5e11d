"""Bytes that are not UTF-8 in the input of a command, and an output that takes nothing: a sentence each."""

import io
import subprocess
import sys
from pathlib import Path

import click
import pytest

from sowline.cli import main
from sowline.cli.help import HelpCommand

LATIN = b"\xe9clair"
SOWLINE = Path(sys.executable).with_name("sowline")


@pytest.mark.parametrize(
    "arguments",
    [
        [b"sow", LATIN],
        [b"sow", b"orders", b"-f", b"/a = '" + LATIN],
        [b"sow", b"orders", b"--key", b"1", b"--key", LATIN],
        [b"explain", b"orders", b"-c", LATIN],
        [b"publish", b"orders", b'{"id":"' + LATIN + b'"}'],
        [b"delete", b"orders", b"--filter", LATIN],
        [b"subscribe", b"orders", b"-b", LATIN],
        [b"topics", b"-u", b"http://" + LATIN],
        [b"dead", b"list", LATIN],
        [b"schemas", b"pull", LATIN],
    ],
)
def test_a_byte_that_is_not_utf8_in_an_argument(arguments: list[bytes]) -> None:
    """It is refused with the name of the parameter, before anything is sent."""
    decoded = [argument.decode(errors="surrogateescape") for argument in arguments]
    with pytest.raises(click.BadParameter, match=r"expected text in UTF-8, got b.*\\xe9clair") as error:
        main.main(decoded, standalone_mode=False)
    assert error.value.param is not None


def test_a_file_may_have_any_name(tmp_path: Path) -> None:
    """File systems have bytes."""
    path = tmp_path / LATIN.decode(errors="surrogateescape")
    path.write_text("topics: []")
    command = HelpCommand(
        "x", params=[click.Option(["--config"], type=click.Path(path_type=Path, exists=True))]
    )
    assert command.make_context("x", ["--config", str(path)]).params == {"config": path}


def test_input_that_is_not_utf8(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """It is one sentence, whichever command reads it."""

    @click.command()
    def reads() -> None:
        sys.stdin.read()

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"id":"' + LATIN), "utf-8"))
    monkeypatch.setitem(main.commands, "reads", reads)
    with pytest.raises(SystemExit) as ended:
        main.main(["reads"])
    assert ended.value.code == 1
    assert capsys.readouterr().err == "bad request: expected text in UTF-8, got b'\\xe9clair'\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has an output that is always full")
@pytest.mark.parametrize("arguments", [["--help"], ["doctor", "--json"], ["token", "new"]])
def test_an_output_that_is_full(arguments: list[str], tmp_path: Path) -> None:
    """It is one sentence, and no traceback follows when the interpreter ends."""
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [SOWLINE, *arguments], stdout=full, stderr=subprocess.PIPE, cwd=tmp_path, text=True
        )
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, "failed: No space left on device")
    assert "Traceback" not in done.stderr
