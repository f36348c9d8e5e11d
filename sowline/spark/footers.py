"""The footers of Parquet files: how many rows a file has, and between which values a column's are."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from pyspark.sql import SparkSession

ROW_GROUPS_MAX: Final = 64
"""Row groups of a file whose statistics the driver looks at, one after the other."""

_SIGNED: Final = re.compile(r"|INTEGER\(\d+,true\)")
_INTEGERS: Final = ("INT32", "INT64")


class KeyRange(NamedTuple):
    """All values of a column are between these. Integers, or the bytes of strings, which sort as unsigned ones."""

    first: Any
    last: Any


class Footer(NamedTuple):
    """The rows of a file, and where the values of a column are; None if that is not known, or some are null."""

    rows: int
    range: KeyRange | None


def read_footer(spark: SparkSession, options: Any, url: str, column: str | None) -> Footer:
    """Return what the footer of a file says; `options` are those that Spark reads the file with."""
    with _opened(spark, options, url) as reader:
        rows = int(reader.getRecordCount())
        return Footer(rows, _range(reader, column) if column is not None and rows > 0 else None)


@contextmanager
def _opened(spark: SparkSession, options: Any, url: str) -> Iterator[Any]:
    jvm: Any = spark._jvm
    session: Any = spark._jsparkSession
    path = jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI(url))
    parquet = jvm.org.apache.parquet.hadoop
    file = parquet.util.HadoopInputFile.fromPath(
        path, session.sessionState().newHadoopConfWithOptions(options)
    )
    reader = parquet.ParquetFileReader.open(file)
    try:
        yield reader
    finally:
        reader.close()


def _range(reader: Any, column: str) -> KeyRange | None:
    """Return where the values are by the statistics of row groups: Spark leaves out row groups by them, too."""
    blocks = reader.getFooter().getBlocks()
    ranges = []
    for at in range(min(blocks.size(), ROW_GROUPS_MAX + 1)):
        chunks = blocks.get(at).getColumns()
        named = (chunks.get(number) for number in range(chunks.size()))
        chunk = next((one for one in named if one.getPath().toDotString() == column), None)
        if chunk is None or at == ROW_GROUPS_MAX or (found := _range_of_chunk(chunk)) is None:
            return None
        ranges.append(found)
    return KeyRange(min(one.first for one in ranges), max(one.last for one in ranges)) if ranges else None


def _range_of_chunk(chunk: Any) -> KeyRange | None:
    statistics = chunk.getStatistics()
    if statistics is None or not statistics.hasNonNullValue():
        return None
    if not statistics.isNumNullsSet() or statistics.getNumNulls() > 0:
        return None
    type = chunk.getPrimitiveType()
    kind, annotation = str(type.getPrimitiveTypeName()), type.getLogicalTypeAnnotation()
    text = "" if annotation is None else str(annotation.toString())
    first, last = statistics.genericGetMin(), statistics.genericGetMax()
    if kind in _INTEGERS and _SIGNED.fullmatch(text):
        return KeyRange(int(first), int(last))
    if kind == "BINARY" and text == "STRING":
        return KeyRange(bytes(first.getBytes()), bytes(last.getBytes()))
    return None
