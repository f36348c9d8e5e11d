"""The main demo, end to end: it loses nothing, and leaves no process behind."""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ONLY_ON_LINUX = pytest.mark.skipif(
    sys.platform != "linux", reason="finds left processes by /proc, which only Linux has"
)

pytestmark = [pytest.mark.timeout(420), ONLY_ON_LINUX]

MARK = "SOWLINE_DEMO_TEST"
FED = "facts about flights that were fed"


@contextmanager
def demo(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run the demo in a session of its own, and yield it with the mark that all its processes carry.

    Tests of its page run it, too (tests/browser/test_landing_page.py), and end it by Ctrl-C.
    """
    mark = f"{MARK}={uuid.uuid4()}"
    environment = {**os.environ, **dict([mark.split("=")])}
    command = [sys.executable, "-m", "examples.flights", *arguments]
    process = subprocess.Popen(
        command,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    with process:
        try:
            yield process, mark
        finally:
            for pid in marked(mark):
                os.kill(pid, signal.SIGKILL)


def marked(mark: str) -> list[int]:
    """Return the processes that have the mark in their environment."""
    return [
        int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit() and has_mark(entry, mark)
    ]


def wait_until_none(mark: str) -> None:
    """Wait until no process has the mark: one that was killed takes a moment to go."""
    while marked(mark):
        os.sched_yield()


def has_mark(entry: Path, mark: str) -> bool:
    """Tell whether a process has the mark; one that is gone, or somebody else's, has not."""
    try:
        return mark.encode() in (entry / "environ").read_bytes().split(b"\0")
    except OSError:
        return False


def numbers(output: str) -> dict[str, int]:
    """Return the numbers of the summary by name."""
    found = re.findall(r"^ *([\w ,]+?) {2,}([\d,]+)(?: ms|\.\d s)?$", output, re.MULTILINE)
    return {name: int(number.replace(",", "")) for name, number in found}


def last_event(link: str, ended: subprocess.Popen[str] | None = None) -> tuple[str, dict[str, Any]]:
    """Open the demo's page and return the last event of its stream of states: the name and the data.

    A demo that is given is ended by SIGTERM once the stream is open.
    """
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    with opener.open(link):
        pass
    with opener.open(f"{link.partition('?')[0]}states") as stream:
        if ended is not None:
            ended.terminate()
        events = stream.read().decode().strip().split("\n\n")
    name, data = (line.partition(": ")[2] for line in events[-1].split("\n"))
    return name, json.loads(data)


@pytest.mark.long
def test_demo() -> None:
    """The demo ends by itself with a summary, having lost nothing, and no process is left. Its page has the end."""
    with demo("--seconds", "60", "--speed", "max", "--no-browser") as (process, mark):
        assert process.stdout is not None
        link = next(line.split()[-1] for line in process.stdout if "in a browser" in line)
        with ThreadPoolExecutor() as pool:
            received = pool.submit(last_event, link)
            output = process.stdout.read()
        process.wait()
        assert process.returncode == 0, output
        wait_until_none(mark)
    rows = numbers(output)
    name, outcome = received.result()
    assert (name, outcome["is_lossless"]) == ("end", True)
    assert outcome["verdict"].startswith("nothing was lost")
    assert outcome["moment"] is not None
    assert [FED, f"{rows[FED]:,}"] in outcome["summary"]
    # How many there are in a minute, and whether a flight has landed, depends on the machine.
    assert rows[FED] == rows["records that Spark wrote to Kafka"] == rows["changes that Sowline sent"] > 0, (
        output
    )
    assert 0 < rows["changes of some fields among them"] < rows[FED], output
    assert rows["flights that Sowline holds"] > 0, output
    assert rows["records of Spark that Sowline refused"] == 0, output
    assert rows["records of the view delays"] > 0, output
    assert {
        "records of the view arrivals",
        "flights that left the JFK board in the terminal",
        "from Kafka to a subscriber, median",
    } <= rows.keys(), output
    # A busy machine's minute ends before the first flight comes to the board: one with 215 facts did.
    if rows[FED] > 1000:
        assert re.search(r"^\w{3} \d\d \w{3} 2013 \d\d:\d\d \w+ +enters ", output, re.MULTILINE), output
    assert "nothing was lost" in output


@pytest.mark.long
def test_interrupted() -> None:
    """A signal other than Ctrl-C ends the demo at once: it says that it has not compared, and leaves no process."""
    with demo("--no-browser") as (process, mark):
        assert process.stdout is not None
        link = next(line.split()[-1] for line in process.stdout if "in a browser" in line)
        with ThreadPoolExecutor() as pool:
            received = pool.submit(last_event, link, process)
            output = process.stdout.read()
        assert process.wait() == 130, output  # as docs/demo.md says
        wait_until_none(mark)
    assert "interrupted: the last flights were not compared" in output
    name, outcome = received.result()
    assert (name, outcome["is_lossless"], outcome["moment"]) == ("end", None, None)


def test_directory_in_use(tmp_path: Path) -> None:
    """The demo does not run in a directory that has something in it, and says so."""
    (tmp_path / "mine").touch()
    with demo("--data-dir", str(tmp_path)) as (process, _):
        output, _ = process.communicate()
    assert process.returncode == 1
    assert output.splitlines()[-1].startswith("expected an empty directory")
