"""What the benchmarks measure with: the CPU of processes, and the page that tables are written into."""

import subprocess
import sys
from pathlib import Path

import pytest

from bench.table import table, write_into
from bench.usage import usage
from tests.waiting import wait_for

CHILD_BURNS = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "while True: pass"])
print(child.pid, flush=True)
child.wait()
"""


def test_usage_holds_the_children() -> None:
    """CPU that only a child takes is counted for its parent."""
    parent = subprocess.Popen([sys.executable, "-c", CHILD_BURNS], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    try:
        before = usage([parent.pid]).cpu_seconds
        wait_for(lambda: usage([parent.pid]).cpu_seconds >= before + 0.1, "the child's CPU to be counted")
        assert usage([parent.pid]).rss_bytes_max > usage([child]).rss_bytes_max > 1_000_000
    finally:
        subprocess.run(["kill", "-9", str(child)], check=True)
        parent.wait()
        parent.stdout.close()


def test_usage_of_a_process_that_is_gone() -> None:
    """A process that has ended has taken nothing any more, and is no error."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert usage([process.pid]) == (0, 0)


def test_table_goes_between_its_marker_lines(tmp_path: Path) -> None:
    """A table takes the place of the one before, and nothing else of the page changes."""
    page, other = tmp_path / "page.md", tmp_path / "other.md"
    other.write_text("nothing\n")
    page.write_text("before\n<!-- bench one -->\nold\n<!-- end of bench one -->\nafter\n")
    text = table(("", "µs"), [("a row", "1.5")])
    write_into([other, page], "one", text)
    write_into([other, page], "one", text)
    lines = ["before", "<!-- bench one -->", "", *text.splitlines(), "", "<!-- end of bench one -->", "after"]
    assert page.read_text().splitlines() == lines
    assert other.read_text() == "nothing\n"
    assert text.splitlines() == ["|  | µs |", "| --- | --- |", "| a row | 1.5 |"]


def test_a_table_without_a_marker_is_refused(tmp_path: Path) -> None:
    """A page that has no marker lines of that name is left alone."""
    page = tmp_path / "page.md"
    page.write_text("<!-- bench one -->\n<!-- end of bench one -->\n")
    with pytest.raises(ValueError, match="expected the lines <!-- bench two -->"):
        write_into([page], "two", "text")
