"""The ordinals of a stream's files: numbers that rise in the order in which the files are taken.

Spark's checkpoint shows which files a micro-batch has. This module numbers them in the order of their modification
times. It stores the numbers in the same checkpoint before it writes the micro-batch, so the files keep their numbers
when a micro-batch is written again.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from sowline.errors import SowlineError
from sowline.spark.hadoop import Directory, row_url

KEPT_MAX = 100
"""Micro-batches whose numbers are kept; Spark itself can go back no further."""


class _Taken(NamedTuple):
    """The files that have been numbered up to a micro-batch, and the numbers of the files in it."""

    next: int
    logs: Mapping[str, int]
    files: Mapping[str, int]


class Ordinals:
    """The ordinals of the files of one stream, by its checkpoint."""

    def __init__(self, spark: SparkSession, checkpoint: str) -> None:
        self._spark = spark
        self._checkpoint = Directory(spark, checkpoint)
        self._kept = self._checkpoint.sub("files")

    def of_batch(self, batch: int) -> Mapping[str, int]:
        """Return the ordinal of each file of a micro-batch, by its URL; none if no source has files."""
        logs = self._logs(batch)
        if not logs:
            return {}
        kept = self._kept.read(str(batch))
        taken = _Taken(**json.loads(kept)) if kept is not None else self._number(batch, logs)
        return taken.files

    def _logs(self, batch: int) -> dict[str, int]:
        """Return the end of each file source's log in this micro-batch, by the source's number."""
        # Before the offsets, Spark writes its version of the format and the metadata of the micro-batch, a line each.
        lines = (self._checkpoint.sub("offsets").read(str(batch)) or "").splitlines()[2:]
        offsets: list[dict[str, Any]] = [json.loads(line) if line.startswith("{") else {} for line in lines]
        return {str(at): one["logOffset"] for at, one in enumerate(offsets) if "logOffset" in one}

    def _number(self, batch: int, logs: Mapping[str, int]) -> _Taken:
        before = self._before(batch)
        files = sorted(
            (entry["timestamp"], url)
            for source, end in logs.items()
            for number in range(before.logs.get(source, -1) + 1, end + 1)
            for entry in self._entries(source, number)
            for url in [row_url(self._spark, entry["path"])]
        )
        numbers = {url: before.next + at for at, (_, url) in enumerate(files)}
        taken = _Taken(before.next + len(numbers), logs, numbers)
        # Before the rows are written: a micro-batch that is written again gets the same numbers, so its rows count as
        # repeats.
        self._kept.write(str(batch), json.dumps(taken._asdict()))
        for old in self._kept.names():
            if old.isdecimal() and int(old) <= batch - KEPT_MAX:
                self._kept.delete(old)
        return taken

    def _before(self, batch: int) -> _Taken:
        kept = [int(name) for name in self._kept.names() if name.isdecimal() and int(name) < batch]
        if kept:
            return _Taken(**json.loads(self._kept.read(str(max(kept))) or ""))
        # A stream may have had records of Kafka only until now, and such a checkpoint is not a foreign one.
        if batch == 0 or not self._logs(batch - 1):  # the first that has files
            return _Taken(0, {}, {})
        raise SowlineError(
            "bad checkpoint",
            f"expected the numbers of the files before micro-batch {batch} in {self._kept}, got none: this"
            " checkpoint was made by something else; give a new one, and another publisher",
        )

    def _entries(self, source: str, number: int) -> Iterator[dict[str, Any]]:
        log = self._checkpoint.sub("sources").sub(source)
        text = log.read(str(number))
        # Spark merges old entries into such files, and deletes the others.
        if text is None:
            text = log.read(f"{number}.compact") or ""
        entries = (json.loads(line) for line in text.splitlines()[1:])
        return (entry for entry in entries if entry["batchId"] == number)
