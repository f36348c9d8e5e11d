"""The demo's processes: they say when they are ready, and none outlives the demo."""

import sys
from pathlib import Path

import pytest

from examples.flights.processes import DemoError, child

READY = "import os, signal; print(os.getpid(), flush=True); signal.pause()"
BROKEN = "import sys; print('out of luck', file=sys.stderr); sys.exit(3)"
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + READY


def python(code: str) -> list[str]:
    """Return the command that runs some Python."""
    return [sys.executable, "-c", code]


def is_running(pid: int) -> bool:
    """Tell whether there is such a process."""
    return Path(f"/proc/{pid}").exists()


async def test_child_lives_as_long_as_its_block(tmp_path: Path) -> None:
    """A child is ready with its first line, and gone after its block."""
    async with child("the child", python(READY), tmp_path / "log") as process:
        pid = int(await process.first_line())
        assert is_running(pid)
    assert not is_running(pid)


async def test_stubborn_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A child that does not end when it is asked to is ended by force."""
    monkeypatch.setattr("examples.flights.processes.STOP_S_MAX", 0.01)
    async with child("the child", python(STUBBORN), tmp_path / "log") as process:
        pid = int(await process.first_line())
    assert not is_running(pid)


async def test_child_that_does_not_start(tmp_path: Path) -> None:
    """A child that ends before it is ready is an error that ends with the child's own words."""
    async with child("the child", python(BROKEN), tmp_path / "log") as process:
        with pytest.raises(DemoError, match=r"the child did not start; the end of .*log:\nout of luck"):
            await process.first_line()


async def test_child_that_ends(tmp_path: Path) -> None:
    """A child that ends by itself while it is needed is an error with its exit code."""
    async with child("the child", python(BROKEN), tmp_path / "log") as process:
        with pytest.raises(DemoError, match="ended by itself with exit code 3"):
            await process.must_live()
