"""Programs that write to Kafka and know nothing of Sowline: those that docs/producers.md shows."""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import orjson

from sowline.runtime.jars import kafka_jars
from sowline.runtime.java import find_java
from tests.integration.producers.records import HEADERS, KINDS, UNKEYED, Record, grouped
from tests.waiting import SECONDS_MAX

SOURCES = Path(__file__).parent
ROUNDS = 3
"""How often a program is run, each time with its share of the records."""

Write = Callable[[str, str, Sequence[Record], Path], list[Record]]
"""Writes records to a topic of a Kafka, and returns them in the order in which that was done."""


class Program(NamedTuple):
    """A program, and whether its keys land in the partitions that they belong in."""

    source: str
    write: Write
    is_partitioned: bool
    needs: tuple[str, ...] = ()
    """The tools of `tests/tools.py` that it takes."""


def _kcat(kafka: str, topic: str, records: Sequence[Record], directory: Path) -> list[Record]:
    """Write one kind after the other, some of the records at a time."""
    written: list[Record] = []
    share = -(-len(records) // ROUNDS)
    for start in range(0, len(records), share):
        some = grouped(records[start : start + share])
        for kind in KINDS:
            lines = [_columns(record) for record in some if record.kind == kind]
            text = "".join("\t".join(line[1:] if kind == UNKEYED else line) + "\n" for line in lines)
            (directory / f"{kind}.{'json' if kind == UNKEYED else 'tsv'}").write_text(text)
        run(["sh", str(SOURCES / "orders.sh"), kafka, topic], directory)
        written += some
    return written


def _java(kafka: str, topic: str, records: Sequence[Record], directory: Path) -> list[Record]:
    jars = os.pathsep.join(map(str, kafka_jars()))
    java = [str(find_java()), "-XX:TieredStopAtLevel=1", "-cp", jars]
    command = [*java, str(SOURCES / "Orders.java"), kafka, topic]
    return _by_lines(command, records, directory)


def _python(kafka: str, topic: str, records: Sequence[Record], directory: Path) -> list[Record]:
    return _by_lines([sys.executable, str(SOURCES / "orders.py"), kafka, topic], records, directory)


PROGRAMS = {
    "kcat": Program("orders.sh", _kcat, is_partitioned=False, needs=("kcat",)),
    "java": Program("Orders.java", _java, is_partitioned=True, needs=("javac",)),
    "python": Program("orders.py", _python, is_partitioned=False),
}


def _by_lines(command: Sequence[str], records: Sequence[Record], directory: Path) -> list[Record]:
    """Write records with a program that reads lines: key, value and headers, with tabs between them."""
    headers = {kind: [f"{name}={value}" for name, value in of.items()] for kind, of in HEADERS.items()}
    lines = ["\t".join([*_columns(record), *headers[record.kind]]) + "\n" for record in records]
    run(command, directory, "".join(lines))
    return list(records)


def _columns(record: Record) -> list[str]:
    return [record.key or "", "" if record.body is None else orjson.dumps(record.body).decode()]


def run(command: Sequence[str], directory: Path, given: str = "") -> None:
    """Run a program with what it reads; it must succeed."""
    done = subprocess.run(
        command, cwd=directory, input=given.encode(), capture_output=True, timeout=SECONDS_MAX
    )
    assert done.returncode == 0, done.stderr.decode()
