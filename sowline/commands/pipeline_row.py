"""The columns of the rows that a pipeline passes from its source, through its steps, to the sink.

A source adds `_source`. A step that splits a row into several adds `_part`. Checks add `_failure`. Commands are in
`key`, `value` and `headers`, and `refused` marks the rows that become dead letters. The sink adds more columns while
it numbers and sorts rows. All other modules use the names defined here.

This module does not import Spark, because a pipeline's definition is read without it.
"""

from enum import StrEnum

SOURCE = "_source"
"""A struct with the fields of `SourceField`: it identifies a row whenever the row is read again."""

PART = "_part"
"""BIGINT, from 0: distinguishes rows with the same key that come from one source row. Optional."""

FAILURE = "_failure"
"""STRING: the message of the first check that the row fails; NULL if it passes all."""

REASON = "_reason"
"""STRING: the reason why a row can't be a command of the topic; NULL if it can. Optional."""

PROBLEM = "_problem"
"""STRING: the message that explains the reason."""

BAD_ROW = "bad row"
"""The reason for a row that can't be read, or would be other data as JSON."""

KEY = "key"
"""STRING: the key text of the record; NULL for a dead letter until the sink sets it."""

VALUE = "value"
"""STRING or BINARY: the body of a command, or the refused input of a dead letter."""

HEADERS = "headers"
"""`HEADERS_TYPE`: the headers of a command, or the reason for a dead letter. Optional."""

REFUSED = "refused"
"""BOOLEAN: whether the row becomes a dead letter. Optional: without this column no row does."""

HEADERS_TYPE = "ARRAY<STRUCT<key: STRING, value: BINARY>>"
"""The type of headers that Spark's Kafka sink accepts."""


class SourceField(StrEnum):
    """A field of `_source`."""

    PARTITION = "partition"
    """STRING: the Kafka partition, or 0 for files; prefixed with the source's name if a job has several sources."""
    FILE = "file"
    """STRING: the URL of the file; NULL if the source has no files."""
    NUMBER = "number"
    """BIGINT: the offset of a Kafka record, or the row of a file."""
    VALUE = "value"
    """BINARY: the original bytes of the row, for a dead letter. Only pipelines have this field and the next three."""
    KEY = "key"
    """BINARY: the row's Kafka key."""
    HEADERS = "headers"
    """`HEADERS_TYPE`: the row's Kafka headers."""
    UNCHANGED = "unchanged"
    """ARRAY<STRING>: the columns that a Debezium update does not have, because it left them as they were; or NULL."""

    @property
    def column(self) -> str:
        """The name of the field as a column of a frame that has `_source`."""
        return f"{SOURCE}.{self.value}"


ROW_FIELDS = (SourceField.PARTITION, SourceField.FILE, SourceField.NUMBER)
"""The fields that number a row. The sink needs only these of `_source`."""


class SinkColumn(StrEnum):
    """A column that the sink takes from `_source`, or adds to it, to number and sort rows.

    Frames of users have columns of any other name.
    """

    PARTITION = "_sowline_partition"
    """STRING: `SourceField.PARTITION`."""
    NUMBER = "_sowline_number"
    """BIGINT: `SourceField.NUMBER`."""
    FILE = "_sowline_file"
    """STRING: `SourceField.FILE`."""
    ORDINAL = "_sowline_ordinal"
    """BIGINT: the ordinal of that file in the stream or batch; NULL if the row is not from a file."""
    URL = "_sowline_url"
    """STRING: the URL of a file with an ordinal."""
    FOUND = "_sowline_found"
    """BIGINT: the ordinal of that file."""
