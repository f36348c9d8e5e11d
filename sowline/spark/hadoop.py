"""Small files in any file system that Spark can reach: a disk, HDFS, an object store."""

from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession


def row_url(spark: SparkSession, url: str) -> str:
    """Return a file's URL in the spelling of Spark's rows."""
    jvm: Any = spark._jvm
    plain = jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI(url)).toString()
    return str(jvm.org.apache.hadoop.fs.Path(plain).toUri())


class Directory:
    """A directory of small text files; it need not exist yet."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._spark = spark
        self._path = path.rstrip("/")
        jvm: Any = spark._jvm
        self._jvm = jvm
        configuration = spark._jsc.hadoopConfiguration()
        self.files: Any = jvm.org.apache.hadoop.fs.Path(self._path).getFileSystem(configuration)

    def __str__(self) -> str:
        return self._path

    def sub(self, name: str) -> "Directory":
        """Return a directory in this one."""
        return Directory(self._spark, f"{self._path}/{name}")

    def names(self) -> list[str]:
        """Return the names of the files; none of a directory that does not exist."""
        here = self._jvm.org.apache.hadoop.fs.Path(self._path)
        if not self.files.exists(here):
            return []
        return [str(status.getPath().getName()) for status in self.files.listStatus(here)]

    def read(self, name: str) -> str | None:
        """Return a file's text; None if there is no such file."""
        text = self._read(self._at(name))
        # A crash may have left only the previous file (test_a_crash_leaves_the_previous_file).
        return self._read(self._previous(name)) if text is None else text

    def _read(self, file: Any) -> str | None:
        try:
            stream = self.files.open(file)
        except Py4JJavaError as error:
            if "FileNotFoundException" in str(error.java_exception.getClass().getName()):
                return None
            raise
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, name: str, text: str) -> None:
        """Write a file; after a crash, it has the new text or the previous one."""
        # A crash leaves the half file under a name that no reader asks for.
        half = self._at(f".{name}.half")
        stream = self.files.create(half, True)
        stream.write(bytearray(text.encode()))
        stream.close()
        # HDFS does not rename a file to a name that exists. Few file systems replace a file in one step.
        if self.files.exists(self._at(name)):
            self.files.delete(self._previous(name), False)
            self._rename(self._at(name), self._previous(name))
        self._rename(half, self._at(name))
        self.files.delete(self._previous(name), False)

    def delete(self, name: str) -> None:
        """Delete a file, if it exists."""
        self.files.delete(self._previous(name), False)
        self.files.delete(self._at(name), False)

    def _rename(self, file: Any, name: Any) -> None:
        if not self.files.rename(file, name):
            raise OSError(f"expected to write {name}, but the file system refused")

    def _previous(self, name: str) -> Any:
        return self._at(f".{name}.previous")

    def _at(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self._path}/{name}")
