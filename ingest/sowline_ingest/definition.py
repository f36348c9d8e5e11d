"""The file of a pipeline: the sources of its rows, their transforms, and the commands that they become."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple, Self, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from sowline.codecs.framing import Framing
from sowline.codecs.schema import (
    AVRO,
    JSON_SCHEMA,
    PROTOBUF,
    CodecType,
    FormatType,
    Schema,
    SchemaType,
    is_format,
)
from sowline.commands.pipeline_row import SOURCE
from sowline.config.kafka_names import KafkaNames, default_log
from sowline.config.message_formats import NO_OPTIONS, MessageFormat
from sowline.config.plain_numbers import PlainNumbers
from sowline.config.schema_fields import KnownSchema
from sowline.config.topic_fields import KafkaName, TopicName
from sowline.config.yaml_file import Location, YamlFile, open_yaml_file
from sowline_ingest.csv_records import encoding_of

COMMANDS = ("publish", "delta_publish", "delta", "sow_delete")
"""The commands that a row can become."""

TYPED: tuple[SchemaType, ...] = (AVRO, PROTOBUF, JSON_SCHEMA)
"""The formats of messages that have schemas."""

UNTYPED: Final[tuple[FormatType, ...]] = get_args(FormatType)
"""The formats of messages without schemas, other than JSON."""

PLACEHOLDER = "__debezium_unavailable_value"
"""The placeholder unless a Debezium connector has another `unavailable.value.placeholder`."""

ROWS = "rows"
"""The name by which a statement refers to the rows of the previous step, unless there are several sources."""

KEY_COLUMNS_MAX = 16
# Without a slash: rows have the publisher `<name>/<source>/<partition>`, and the dead letters of a run are found by
# the start `<name>/`.
_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_WORD = re.compile(r"'?[\w-]+'?")
_PLACEHOLDER_IN_HEX = re.compile(r"(?!hex:)|hex:(?:[0-9A-Fa-f]{2})+\Z")
_OWN_OPTIONS = {
    "subscribe": "kafka",
    "subscribepattern": "kafka",
    "assign": "kafka",
    "path": "directory",
    "header": "header",
    "kafka.bootstrap.servers": "the setting SOWLINE_KAFKA",
    "includeheaders": "nothing, the pipeline sets it",
    "wholetext": "nothing, the pipeline sets it",
    "linesep": "lines that end with LF or CR LF",
}
_OWN_KAFKA_OPTIONS = {"bootstrap.servers", "key.serializer", "value.serializer"}

Options = dict[Annotated[str, Field(min_length=1)], str]


def _identifier(name: str) -> str:
    if not _IDENTIFIER.fullmatch(name) or name.lower() == ROWS:
        raise ValueError(f"expected a name of letters, digits and _, other than {ROWS}, got {name!r}")
    return name


def _name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(f"expected a name of up to 100 letters, digits and . _ -, got {name!r}")
    return name


def _column(name: str) -> str:
    if name.lower() == SOURCE:
        raise ValueError(f"expected a column other than {SOURCE}, by which rows are known again")
    return name


def _written(text: str) -> str:
    if not text.strip():
        raise ValueError("expected a text for Spark SQL, got nothing")
    return text


Expression = Annotated[str, AfterValidator(_written)]
"""The text of a Spark SQL expression, or of a whole query, with all its lines."""

Identifier = Annotated[str, AfterValidator(_identifier)]
Column = Annotated[str, Field(min_length=1)]
OwnColumn = Annotated[str, Field(min_length=1), AfterValidator(_column)]


class Statement(NamedTuple):
    """A text for Spark SQL, and its line in the file."""

    location: Location
    kind: Literal["expression", "query", "schema"]
    text: str


class _PipelineModel(PlainNumbers, BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Read(_PipelineModel):
    """The fields that all kinds of sources share. `ddl` is the field `schema`."""

    format: Literal["json", "csv", "parquet", "debezium", CodecType] = Field(
        description="how rows are written"
    )
    header: bool = Field(default=False, description="for csv: whether files begin with a line of names")
    ddl: str = Field(alias="schema", description="required for each format without its own schema")
    options: Options = Field(default={}, description="further options for Spark's reader")

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, given: Any) -> Any:
        # Validators run for given fields only: a missing schema is checked like an empty one.
        return {"schema": "", **given} if isinstance(given, dict) else given

    @field_validator("header")
    @classmethod
    def _of_csv(cls, header: bool, others: ValidationInfo) -> bool:
        if header and others.data.get("format", "csv") != "csv":
            raise ValueError(f"expected this option only for csv, but {others.data['format']} is not")
        return header

    @field_validator("ddl")
    @classmethod
    def _needed(cls, ddl: str, others: ValidationInfo) -> str:
        # A format that is invalid has its own error, and needs no second one.
        format = others.data.get("format", "parquet")
        if not ddl.strip() and format not in ("parquet", *TYPED):
            raise ValueError(f"expected the columns of {format} as DDL, got nothing")
        if ddl.strip() and format in TYPED:
            raise ValueError(f"expected no columns of {format} as DDL: those of its reader schema are read")
        return ddl

    @field_validator("options")
    @classmethod
    def _left_to_the_user(cls, options: Options, others: ValidationInfo) -> Options:
        if others.data.get("format") in ("csv", "json"):
            encoding_of(options)
        for name in options:
            # Spark ignores the case of an option: `Subscribe` would replace the topic that the pipeline sets.
            if instead := _OWN_OPTIONS.get(name.lower()):
                raise ValueError(f"expected {instead} in place of the option {name}")
        return options


class LookupTable(_Read):
    """Files that statements may join with, as they are when the pipeline starts."""

    directory: str = Field(min_length=1, description="the directory of the files, or its URL")
    format: Literal["json", "csv", "parquet"] = Field(description="how rows are written")

    @property
    def is_multi_line(self) -> bool:
        """Whether a JSON object may have several lines, which Spark reads itself."""
        return any(name.lower() == "multiline" and text == "true" for name, text in self.options.items())


class Source(_Read):
    """The source of rows: a Kafka topic, or the files that appear in a directory."""

    kafka: KafkaName = Field(default="", description="the Kafka topic that rows are read from")
    directory: str = Field(default="", description="the directory whose files are read, or its URL")
    message_format: MessageFormat | None = Field(
        default=None, description="the options of a format without schemas, as in a topic's message_format"
    )
    reader_schema: KnownSchema | None = Field(
        default=None, description="the schema by which messages are read, for formats that have one"
    )
    subject: str = Field(
        default="", max_length=250, description="the subject whose latest schema is the reader schema"
    )
    framing: Framing = Field(
        default="confluent", description="how a message names its schema: confluent, apicurio, or none"
    )
    unavailable_value_placeholder: str = Field(
        default=PLACEHOLDER,
        min_length=1,
        description="for debezium: the placeholder of a value that an update left alone; hex: begins its bytes",
    )

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if bool(self.kafka) == bool(self.directory):
            raise ValueError(
                f"expected either kafka or directory, got {'both' if self.kafka else 'none of the two'}"
            )
        formats = ("json", "debezium", *TYPED, *UNTYPED) if self.kafka else ("json", "csv", "parquet")
        if self.format not in formats:
            kind = "a Kafka topic" if self.kafka else "a directory"
            raise ValueError(f"expected {' or '.join(formats)} as the format of {kind}, got {self.format}")
        return self

    @model_validator(mode="after")
    def _has_a_placeholder(self) -> Self:
        if self.format != "debezium" and "unavailable_value_placeholder" in self.model_fields_set:
            raise ValueError(
                f"expected unavailable_value_placeholder only for debezium, but {self.format} is not"
            )
        if _PLACEHOLDER_IN_HEX.match(self.unavailable_value_placeholder) is None:
            raise ValueError(
                f"expected pairs of hexadecimal digits after hex:, got {self.unavailable_value_placeholder}"
            )
        return self

    @model_validator(mode="after")
    def _has_one_reader(self) -> Self:
        given = sorted(self.model_fields_set & {"reader_schema", "subject", "framing"})
        if self.message_type is None and given:
            raise ValueError(f"expected {' or '.join(TYPED)} as the format with {', '.join(given)}")
        if self.message_type is not None and (self.reader_schema is None) == (not self.subject):
            got = "both" if self.subject else "none of the two"
            raise ValueError(f"expected either reader_schema or subject with {self.format}, got {got}")
        return self

    @model_validator(mode="after")
    def _has_its_options(self) -> Self:
        if is_format(self.format):
            (self.message_format or NO_OPTIONS).check(self.format)
        elif self.message_format is not None:
            formats = " or ".join(UNTYPED)
            raise ValueError(f"expected {formats} as the format with message_format, got {self.format}")
        return self

    @property
    def message_type(self) -> SchemaType | None:
        """The message type, if it has schemas."""
        return next((one for one in TYPED if one == self.format), None)

    @property
    def format_options(self) -> Schema | None:
        """The options of a format without schemas, in the form that its codec reads; None for other formats."""
        return (self.message_format or NO_OPTIONS).schema_of(self.format) if is_format(self.format) else None

    @property
    def needs_registry(self) -> bool:
        """Whether a schema comes from a registry: the schemas that messages name, or the reader schema."""
        return self.message_type is not None and (self.framing != "none" or bool(self.subject))


class TransformStep(_PipelineModel):
    """One transform: new columns, a condition, columns to drop, or a query; the others are None."""

    columns: dict[OwnColumn, Expression] | None = Field(
        default=None, min_length=1, description="columns to add or replace, and their Spark SQL expressions"
    )
    where: Expression | None = Field(default=None, description="the Spark SQL condition of the rows to keep")
    drop: tuple[OwnColumn, ...] | None = Field(default=None, min_length=1, description="columns to remove")
    select: Expression | None = Field(
        default=None, description="a Spark SQL query whose result replaces the rows"
    )

    @model_validator(mode="after")
    def _one_of_four(self) -> Self:
        given = [name for name in type(self).model_fields if getattr(self, name) is not None]
        if len(given) != 1:
            names = " or ".join(type(self).model_fields)
            raise ValueError(f"expected exactly one of {names}, got {' and '.join(given) or 'none'}")
        return self


class Check(_PipelineModel):
    """A condition that each row must meet; a row that does not meet it becomes a dead letter with the message."""

    expect: Expression = Field(description="the Spark SQL condition that each row must meet")
    message: str = Field(default="", description="the expression if empty")

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, given: Any) -> Any:
        if isinstance(given, dict) and not given.get("message") and isinstance(given.get("expect"), str):
            given = {**given, "message": given["expect"].strip()}
        return given


class Pipeline(_PipelineModel):
    """The whole file of a pipeline."""

    name: Annotated[str, AfterValidator(_name)] = Field(
        description="the name of the publisher of its commands"
    )
    topic: TopicName
    log: KafkaName = Field(default="", description="the Kafka topic; the topic's name if empty")
    sources: dict[Identifier, Source] = Field(min_length=1, description="where rows come from, by name")
    tables: dict[Identifier, LookupTable] = Field(default={}, description="tables to join with, by name")
    # Also validated if missing: several sources need a transform.
    transforms: tuple[TransformStep, ...] = Field(
        default=(), validate_default=True, description="what is done with the rows, step by step"
    )
    checks: tuple[Check, ...] = Field(default=(), description="conditions that each row must meet")
    key: tuple[Column, ...] = Field(
        min_length=1, max_length=KEY_COLUMNS_MAX, description="the columns of a row's key"
    )
    key_header: bool = Field(default=False, description="whether keys go into the header sow.key, too")
    command: Expression | None = Field(
        default=None, description="publish, delta_publish, delta, sow_delete, or a Spark SQL expression"
    )
    body: Expression | None = Field(
        default=None, description="the Spark SQL expression of the command's body"
    )
    expiration: Expression | None = Field(
        default=None, description="the Spark SQL expression of its expiration"
    )
    correlation: Expression | None = Field(default=None, description="that of its correlation id")
    checkpoint: str = Field(min_length=1, description="the directory of Spark's checkpoint, or its URL")
    rows_per_second: float | None = Field(
        default=None, gt=0, allow_inf_nan=False, description="how many rows are read per second, at most"
    )
    kafka_options: Options = Field(default={}, description="options of the Kafka clients, without kafka.")

    @field_validator("key", mode="before", json_schema_input_type=Column | tuple[Column, ...])
    @classmethod
    def _as_list(cls, key: Any) -> Any:
        return (key,) if isinstance(key, str) else key

    @field_validator("key")
    @classmethod
    def _different(cls, key: tuple[str, ...]) -> tuple[str, ...]:
        for at, name in enumerate(key):
            if name in key[:at]:
                raise ValueError(f"expected different columns, got {name!r} twice")
        return key

    @field_validator("sources", "tables")
    @classmethod
    def _distinct_names(cls, named: dict[str, Any], others: ValidationInfo) -> dict[str, Any]:
        # Spark finds its views whatever the case of their names.
        seen = [name.lower() for name in others.data.get("sources", {})]
        for name in named:
            if name.lower() in seen:
                raise ValueError(f"expected a name that no other source or table has, got {name!r}")
            seen.append(name.lower())
        return named

    @field_validator("transforms")
    @classmethod
    def _brought_together(
        cls, transforms: tuple[TransformStep, ...], others: ValidationInfo
    ) -> tuple[TransformStep, ...]:
        sources = others.data.get("sources", {})
        if len(sources) > 1 and not (transforms and transforms[0].select):
            raise ValueError(
                f"expected a select first, which makes the rows of {' and '.join(sources)} those of one table"
            )
        return transforms

    @field_validator("command")
    @classmethod
    def _known(cls, command: str | None) -> str | None:
        word = (command or "").strip()
        if _WORD.fullmatch(word) and word.strip("'") not in COMMANDS:
            raise ValueError(
                f"expected {', '.join(COMMANDS)} or a Spark SQL expression (a column in backticks),"
                f" got {word!r}"
            )
        return word or None

    @field_validator("kafka_options")
    @classmethod
    def _of_java(cls, options: Options) -> Options:
        for name in options:
            if name in _OWN_KAFKA_OPTIONS:
                raise ValueError(f"expected options that the pipeline does not set itself, got {name}")
            if name.startswith("kafka."):
                raise ValueError(f"expected {name.removeprefix('kafka.')}, without kafka., got {name}")
        return options

    @property
    def log_topic(self) -> str:
        """The Kafka topic that the commands are written to."""
        return self.log or default_log(self.topic)

    @property
    def dead_topic(self) -> str:
        """The Kafka topic of the dead letters."""
        return KafkaNames.of_log(self.log_topic).dead

    @property
    def command_expression(self) -> str | None:
        """The Spark SQL expression that chooses a row's command, if it is not one of the four words for all."""
        return None if self.command in COMMANDS else self.command

    def statements(self) -> Iterator[Statement]:
        """Yield every text for Spark SQL, in the order in which they are used."""
        for field, named in (("sources", self.sources), ("tables", self.tables)):
            for name, read in named.items():
                if read.ddl.strip():
                    yield Statement((field, name, "schema"), "schema", read.ddl)
        for at, step in enumerate(self.transforms):
            yield from _of_step(("transforms", at), step)
        for at, check in enumerate(self.checks):
            yield Statement(("checks", at, "expect"), "expression", check.expect)
        named_texts = {
            "command": self.command_expression,
            "body": self.body,
            "expiration": self.expiration,
            "correlation": self.correlation,
        }
        for name, text in named_texts.items():
            if text is not None:
                yield Statement((name,), "expression", text)


def _of_step(location: Location, step: TransformStep) -> Iterator[Statement]:
    for name, text in (step.columns or {}).items():
        yield Statement((*location, "columns", name), "expression", text)
    if step.where is not None:
        yield Statement((*location, "where"), "expression", step.where)
    if step.select is not None:
        yield Statement((*location, "select"), "query", step.select)


def open_pipeline(path: Path, environment: Mapping[str, str]) -> YamlFile:
    """Return the file of a pipeline with its variables replaced; raise `bad configuration` for invalid YAML."""
    return open_yaml_file(path, "the file of a pipeline", environment)


def load_pipeline(path: Path, environment: Mapping[str, str]) -> Pipeline:
    """Read the file of a pipeline, except for its SQL; raise `bad configuration` with every problem found.

    Each problem names the file, the line and the reason. `environment` has the values of `${NAME}`.
    """
    return open_pipeline(path, environment).read(Pipeline)
