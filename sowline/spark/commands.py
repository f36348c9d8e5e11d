"""Turns rows into commands: their key text, body and headers, in Spark SQL."""

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DecimalType,
    IntegralType,
    StringType,
    StructField,
)

from sowline.commands.command import PUBLISH, SOW_DELETE
from sowline.commands.pipeline_row import (
    BAD_ROW,
    HEADERS,
    HEADERS_TYPE,
    KEY,
    PART,
    PROBLEM,
    REASON,
    SOURCE,
    VALUE,
)
from sowline.config.topic_definition import TopicDefinition
from sowline.errors import SowlineError
from sowline.spark import sql
from sowline.spark.canonical_body import canonical_body
from sowline.spark.row_json import Refusal, fields_json, misfit, readable_json, with_members

Name = str | Column
"""A column, or its name."""

MESSAGE_CHARACTERS_MAX = 2000
"""Characters of the message in a dead letter."""


def command_rows(  # noqa: PLR0913, PLR0917 - one for each part of a command
    frame: DataFrame,
    key: Name | Sequence[Name],
    command: Name = PUBLISH,
    body: Name | None = None,
    expiration: Column | None = None,
    correlation: Column | None = None,
    keep: Sequence[str] = (),
    key_header: bool = False,
    definition: TopicDefinition | None = None,
    nulls: Column | None = None,
) -> DataFrame:
    """Return the frame's rows as `key`, `value` and, if any row has some, `headers`, with `_source` and `_part`.

    `keep` are further columns to keep; `command` is one for all rows, or a column of them. `to_sow` describes the
    other parameters. `definition` is that of a topic whose messages are not JSON. If a value may be refused, the rows
    have `_reason` and `_problem`, too. `nulls` are members of the body that are null: by default it has none.
    """
    keys = key_columns(frame, key)
    of_keys = misfit(one for one in _fields(frame, key_names(key)) if one.name in frame.columns)
    of_body = None
    if body is None:
        fields = body_fields(frame)
        of_body = misfit(fields, finite=definition is None)
        body = F.expr(fields_json(fields)) if definition is None else canonical_body(frame, definition)
        if nulls is not None:
            body = with_members(body, nulls)
        if of_body is not None:
            body = F.when(F.expr(of_body.condition), F.expr(readable_json(fields))).otherwise(body)
    text = key_text(*keys)
    named = {
        "sow.command": _command(command),
        "sow.key": text if key_header else None,
        "sow.expiration": expiration,
        "sow.correlation": correlation,
    }
    headers = [header(name, value) for name, value in named.items() if value is not None]
    return frame.select(
        text.alias(KEY),
        _column(body).cast("string").alias(VALUE),
        # A header whose value is null would still be a header: `sow.expiration` without a number is not the same as
        # none (test_a_publish_needs_no_command).
        *([F.filter(F.array(*headers), _has_value).alias(HEADERS)] if headers else []),
        *_problem(of_keys, of_body, command),
        *(name for name in dict.fromkeys((SOURCE, PART, *keep)) if name in frame.columns),
    )


def _problem(of_keys: Refusal | None, of_body: Refusal | None, command: Name) -> list[Column]:
    """Return why a row is refused, as `_reason` and `_problem`; no columns if no row can be."""
    found = [] if of_keys is None else [(F.expr(of_keys.condition), of_keys.sentence)]
    # A deletion needs no body: an invalid one must not keep the record.
    if of_body is not None:
        condition = F.expr(of_body.condition)
        if isinstance(command, Column):
            deletes = F.coalesce(command == SOW_DELETE, F.lit(False))
            found.append((condition & ~deletes, of_body.sentence))
        elif command != SOW_DELETE:
            found.append((condition, of_body.sentence))
    if not found:
        return []
    refused = reduce(Column.__or__, (condition for condition, _ in found))
    sentences = (F.when(condition, F.expr(sentence)) for condition, sentence in found)
    return [F.when(refused, BAD_ROW).alias(REASON), F.coalesce(*sentences).alias(PROBLEM)]


def key_text(*fields: Column) -> Column:
    """Return the key text of a record's key fields: the field itself, or a JSON array of several as strings."""
    texts = [field.cast("string") for field in fields]
    return texts[0] if len(texts) == 1 else F.to_json(F.array(*texts))


def body_fields(frame: DataFrame) -> list[StructField]:
    """Return the columns that are in a body by default."""
    return [field for field in frame.schema.fields if not field.name.startswith("_")]


def header(name: str, value: Column) -> Column:
    """Return a header of a Kafka record."""
    return F.struct(F.lit(name).alias("key"), value.cast("string").cast("binary").alias("value"))


def sql_header(name: str, value: str) -> str:
    """Return a header of a Kafka record, as SQL; `value` is a text."""
    return f"struct({sql.text(name)} AS key, CAST({value} AS BINARY) AS value)"


def dead_headers(own: str, key: str, reason: str, message: str) -> str:
    """Return the headers of a dead letter: those that the row had, its Kafka key (null: none), and the reason."""
    none = f"CAST(array() AS {HEADERS_TYPE})"
    original = f"array({sql_header('sow.original_key', key)})"
    start = f"substring({message}, 1, {MESSAGE_CHARACTERS_MAX})"
    problem = f"array({sql_header('sow.reason', reason)}, {sql_header('sow.message', start)})"
    return f"concat(coalesce({own}, {none}), IF({key} IS NULL, {none}, {original}), {problem})"


def _has_value(header: Column) -> Column:
    return header["value"].isNotNull()


def _command(command: Name) -> Column | None:
    """Return the header's value: null for a publish, which needs no header."""
    if isinstance(command, Column):
        return F.nullif(command, F.lit(PUBLISH))
    return None if command == PUBLISH else F.lit(command)


def _column(name: Name) -> Column:
    return F.col(name) if isinstance(name, str) else name


def key_columns(frame: DataFrame, key: Name | Sequence[Name]) -> list[Column]:
    """Return the columns that make the key; raise `bad key` if they can't."""
    names = key_names(key)
    missing = [name for name in names if isinstance(name, str) and name not in frame.columns]
    if missing or not names:
        got = missing[0] if missing else "none"
        raise SowlineError(
            "bad key", f"expected the columns that make the key, of {', '.join(frame.columns)}, got {got}"
        )
    for field in _fields(frame, names):
        if not _makes_keys(field.dataType):
            raise SowlineError(
                "bad key",
                f"expected strings, whole numbers or booleans in the key column {field.name}, got"
                f" {field.dataType.simpleString()}: cast it to what the body has",
            )
    return [F.col(f"`{name}`") if isinstance(name, str) else name for name in names]


def key_names(key: Name | Sequence[Name]) -> list[Name]:
    """Return the columns that make the key, in the form in which they were given."""
    return [key] if isinstance(key, (str, Column)) else list(key)


def _fields(frame: DataFrame, names: Sequence[Name]) -> list[StructField]:
    """Return the fields of columns. Only those of expressions need a request to Spark."""
    return [
        frame.schema[name] if isinstance(name, str) else frame.select(name).schema.fields[0] for name in names
    ]


def _makes_keys(type: DataType) -> bool:
    whole = isinstance(type, DecimalType) and type.scale == 0
    return whole or isinstance(type, (StringType, IntegralType, BooleanType))
