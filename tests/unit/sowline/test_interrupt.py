"""Ctrl-C while a command is still importing what it needs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

INTERRUPTS = "import signal\nsignal.raise_signal(signal.SIGINT)\n"


@pytest.mark.parametrize(
    ("program", "arguments", "imported"),
    [
        ("sowline", ("--version",), "click"),
        ("sowline", ("topics",), "msgspec"),
        ("sowline_materializer", ("backup", "orders", "there"), "confluent_kafka"),
    ],
)
def test_an_interrupt_during_the_imports(
    program: str, arguments: tuple[str, ...], imported: str, tmp_path: Path
) -> None:
    """It ends without a traceback, with the exit status that shells have for it."""
    (tmp_path / f"{imported}.py").write_text(INTERRUPTS)
    ended = subprocess.run(
        [sys.executable, "-m", program, *arguments],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")
