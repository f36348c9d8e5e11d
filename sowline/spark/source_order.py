"""Brings all rows of a key to one task, in the order of their source: as the sink has to write them.

Rows keep their columns, and get columns with their origin. Spark drops before a shuffle what nothing needs
after it. So the sink makes commands of rows after the shuffle, which carries columns then and not their JSON.
"""

import json
from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sowline.commands.pipeline_row import PART, SinkColumn, SourceField
from sowline.spark import sql

ROW_BITS = 40
"""Bits for the row within a file, in the number that orders rows. The others number the files of a micro-batch."""

LOOKED_UP_FILES_MAX = 16
"""Files whose ordinals each row looks up in a constant map, which Spark searches from its start.

Beyond this, the ordinals are joined, which costs each row as much as a search of some dozens.
"""


def in_order(
    rows: DataFrame,
    keys: Sequence[Column],
    ordinals: Mapping[str, int],
    *,
    tasks: int | None = None,
    is_one_task: bool = False,
) -> DataFrame:
    """Return rows with `_source` so that one task has all those with equal `keys`, in the order of their source.

    `ordinals` are those of the files. With `is_one_task` the rows are in one task already; otherwise they are spread
    over this many `tasks`, by default as many as Spark chooses.
    """
    found = located(rows, ordinals)
    if tasks is not None:
        found = found.repartition(tasks, *keys)
    elif not is_one_task:
        found = found.repartition(*keys)
    return found.sortWithinPartitions(*_order(found, ordinals))


def located(rows: DataFrame, ordinals: Mapping[str, int]) -> DataFrame:
    """Return rows with their origins as columns: of `_source`, only these have to go through a shuffle."""
    located_by = [
        f"{SourceField.PARTITION.column} AS {SinkColumn.PARTITION}",
        f"{SourceField.NUMBER.column} AS {SinkColumn.NUMBER}",
    ]
    if not ordinals:
        return rows.selectExpr("*", *located_by)
    # Not createDataFrame: that would need Python on the executors.
    numbers = f"from_json({sql.text(json.dumps(dict(ordinals)))}, 'MAP<STRING, BIGINT>')"
    file = SourceField.FILE.column
    if len(ordinals) <= LOOKED_UP_FILES_MAX:
        return rows.selectExpr("*", *located_by, _found(file, f"try_element_at({numbers}, {file})"))
    files = rows.sparkSession.range(1).selectExpr(
        f"explode({numbers}) AS ({SinkColumn.URL}, {SinkColumn.FOUND})"
    )
    # Taken from `_source` before the join, because the join would copy the whole struct of each row.
    rows = rows.selectExpr("*", *located_by, f"{file} AS {SinkColumn.FILE}")
    joined = rows.join(F.broadcast(files), F.col(SinkColumn.FILE) == F.col(SinkColumn.URL), "left")
    found = joined.selectExpr("*", _found(SinkColumn.FILE, SinkColumn.FOUND))
    return found.drop(SinkColumn.FILE, SinkColumn.URL, SinkColumn.FOUND)


def _found(file: str, ordinal: str) -> str:
    """Return the ordinal of a file, null for a row without one; a file that has none ends the job."""
    known = f"coalesce({ordinal}, raise_error(concat('no number for ', {file})))"
    return f"IF({file} IS NULL, NULL, {known}) AS {SinkColumn.ORDINAL}"


def _order(rows: DataFrame, ordinals: Mapping[str, int]) -> list[Column]:
    """Return what sorts rows: one number, which Spark sorts fastest, and the part of a row."""
    order = SinkColumn.NUMBER.value
    if ordinals:
        # Ordinals rise as long as a stream exists. Less the first one of the micro-batch, they fit into the bits that
        # the row leaves.
        ordinal = f"coalesce({SinkColumn.ORDINAL} - {min(ordinals.values())}, 0)"
        order = f"shiftleft({ordinal}, {ROW_BITS}) + {order}"
    part = [f"CAST({PART} AS BIGINT)"] if PART in rows.columns else []
    return [F.expr(one) for one in (order, *part)]
