"""Small files through Hadoop: whole after a crash at any moment."""

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from sowline.spark.hadoop import Directory


class Crash(Exception):
    """The process ends."""


class Files:
    """A file system on which a process crashes at one of its calls."""

    def __init__(self, files: Any, calls: int) -> None:
        self._files = files
        self.calls_left = calls

    def __getattr__(self, name: str) -> Any:
        if self.calls_left == 0:
            raise Crash
        self.calls_left -= 1
        return getattr(self._files, name)


def test_a_crash_leaves_the_previous_file(spark: SparkSession, tmp_path: Path) -> None:
    """Or the new one; also if the process crashes again when it writes the file again."""
    path = str(tmp_path / "kept")
    Directory(spark, path).write("sums", "0")
    expected = {"0"}
    for number in range(1, 50):
        directory = Directory(spark, path)
        files = Files(directory.files, number // 2)
        directory.files = files
        expected.add(str(number))
        try:
            directory.write("sums", str(number))
        except Crash:
            found = Directory(spark, path).read("sums")
            assert found in expected
            expected = {found}
        else:
            expected = {str(number)}
        if files.calls_left:
            break
    assert number > 8
    assert Directory(spark, path).names() == ["sums"]
    Directory(spark, path).delete("sums")
    assert Directory(spark, path).read("sums") is None
