"""The blotter of the gallery, end to end: FIX and NVFIX in, one view in two clients, FIX out."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import blocks_of

ROOT = Path(__file__).parents[2]
PAGE = "docs/gallery.md"
TEST = "tests/integration/test_fix_blotter.py::test_the_example_prints_what_the_page_shows"
SECONDS_MAX = 110


@pytest.mark.long
@pytest.mark.needs("node")
def test_the_example_prints_what_the_page_shows() -> None:
    """Both clients show the same rows."""
    command = [sys.executable, "-m", "examples.fix_blotter"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS_MAX)
    assert (done.returncode, done.stderr) == (0, "")
    [block] = [block for block in blocks_of(PAGE) if block.elsewhere == TEST]
    assert block.text == f"$ python -m examples.fix_blotter\n{done.stdout}"
