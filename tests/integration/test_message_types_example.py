"""The worked example of message types, end to end: with the schemas in its definition, and with a real registry."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import blocks_of

ROOT = Path(__file__).parents[2]
PAGE = "docs/gallery.md"
TEST = "tests/integration/test_message_types_example.py::test_the_example_prints_what_the_page_shows"
SECONDS_MAX = 110


@pytest.mark.long
@pytest.mark.parametrize("has_registry", [False, True], ids=["alone", "registry"])
def test_the_example_prints_what_the_page_shows(
    has_registry: bool, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """The views are the same, no matter where the schemas are, and nothing is left of it."""
    environment = os.environ | {"TMPDIR": str(tmp_path), "SOWLINE_REGISTRY": ""}
    if has_registry:
        environment["SOWLINE_REGISTRY"] = request.getfixturevalue("registry")
    command = [sys.executable, "-m", "examples.message_types"]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=SECONDS_MAX
    )
    assert (done.returncode, done.stderr) == (0, "")
    [block] = [block for block in blocks_of(PAGE) if block.elsewhere == TEST]
    assert block.text == f"$ python -m examples.message_types\n{done.stdout}"
    assert list(tmp_path.iterdir()) == []
