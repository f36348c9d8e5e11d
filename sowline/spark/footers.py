"""The footers of Parquet files: the number of rows in a file, and the range of a column's values."""

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
    """The least and the greatest value of a column: integers, or the bytes of strings, which sort as unsigned."""

    first: Any
    last: Any


class Footer(NamedTuple):
    """The number of rows of a file, and the range of a column; None if it is unknown, or some values are null."""

    rows: int
    range: KeyRange | None


def read_footer(spark: SparkSession, options: Any, url: str, column: str | None) -> Footer:
    """Return the facts in the footer of a file; `options` are those with which Spark reads the file."""
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
    """Return the range of the values by the statistics of row groups, by which Spark skips row groups, too."""
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
    # Rows with null as their key may be in several files, and no range shows them.
    if not statistics.isNumNullsSet() or statistics.getNumNulls() > 0:
        return None
    type = chunk.getPrimitiveType()
    kind, annotation = str(type.getPrimitiveTypeName()), type.getLogicalTypeAnnotation()
    text = "" if annotation is None else str(annotation.toString())
    first, last = statistics.genericGetMin(), statistics.genericGetMax()
    # Unsigned integers are left out: Java reads 2^63 and above as negative, and the range would exclude values of the
    # file.
    if kind in _INTEGERS and _SIGNED.fullmatch(text):
        return KeyRange(int(first), int(last))
    if kind == "BINARY" and text == "STRING":
        return KeyRange(bytes(first.getBytes()), bytes(last.getBytes()))
    return None
