"""The columns with which rows travel from a source, through the steps of a pipeline, to the sink.

A source adds `_source` (and who cuts a row into several, `_part`); checks add `_failure`; commands are `key`, `value`
and `headers`; and `refused` marks the rows that go to the dead letters. The sink adds its own columns while it
numbers and sorts rows. No other module spells these names.

This module needs no Spark: the definition of a pipeline is read without it.
"""

from enum import StrEnum

SOURCE = "_source"
"""A struct with the fields of `SourceField`: it identifies a row whenever the row is read again."""

PART = "_part"
"""BIGINT, from 0 on: tells apart the rows that one source row was cut into and that have the same key. Optional."""

FAILURE = "_failure"
"""STRING: the message of the first check that the row fails; NULL if it passes all."""

KEY = "key"
"""STRING: the key text of the record, NULL for a dead letter until the sink names it."""

VALUE = "value"
"""STRING or BINARY: the body of a command, or what a dead letter holds."""

HEADERS = "headers"
"""`HEADERS_TYPE`: the headers of a command, or what is wrong with a dead letter. Optional."""

REFUSED = "refused"
"""BOOLEAN: whether the row goes to the dead letters. Optional: without it none does."""

HEADERS_TYPE = "ARRAY<STRUCT<key: STRING, value: BINARY>>"
"""The type of headers, as Spark's Kafka sink takes them."""


class SourceField(StrEnum):
    """A field of `_source`."""

    PARTITION = "partition"
    """STRING: the Kafka partition, or 0 for files; after the name of the source, where a job has several."""
    FILE = "file"
    """STRING: the URL of the file; NULL if the source has no files."""
    NUMBER = "number"
    """BIGINT: the offset of a Kafka record, or the row of a file."""
    VALUE = "value"
    """BINARY: the bytes of the row as it came, for a dead letter. Only in pipelines, as are the next two."""
    KEY = "key"
    """BINARY: its Kafka key."""
    HEADERS = "headers"
    """`HEADERS_TYPE`: its headers."""

    @property
    def column(self) -> str:
        """The name of the field as a column of a frame that has `_source`."""
        return f"{SOURCE}.{self.value}"


ROW_FIELDS = (SourceField.PARTITION, SourceField.FILE, SourceField.NUMBER)
"""The fields that number a row: all that the sink needs of `_source`."""


class SinkColumn(StrEnum):
    """A column that the sink adds to number and sort rows."""

    PARTITION = "_partition"
    """STRING: `SourceField.PARTITION`."""
    NUMBER = "_n"
    """BIGINT: the first number of a command: the offset of a Kafka record, or the ordinal of a file."""
    ROW = "_m"
    """BIGINT: the second: the part of a Kafka record, or the row of a file. NULL if there is none."""
    ORDER = "_order"
    """BIGINT: rises with both, because Spark sorts one number fastest."""
    FILE = "_file"
    """STRING: the URL of a file with an ordinal."""
    ORDINAL = "_ordinal"
    """BIGINT: the ordinal of that file in the stream."""
