"""Commands whose bodies are messages of their topic's message type.

The codecs are Python, so these rows pass through Python on the executors, which need Sowline with the library of the
message type.
"""

from pathlib import Path
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sowline.codecs.schema import AVRO, is_format
from sowline.commands.command import DELTA_PUBLISH, PUBLISH, SOW_DELETE
from sowline.commands.pipeline_row import HEADERS, HEADERS_TYPE, PROBLEM, REASON, VALUE
from sowline.config.declared_topic import JSON
from sowline.config.kafka_names import KafkaNames
from sowline.config.message_formats import MessageFormat
from sowline.config.topic_definition import TopicDefinition, define_topic
from sowline.config.topics import load_topics
from sowline.config.typed_message import typed_delta, typed_message
from sowline.errors import SowlineError
from sowline.spark.broker import Broker
from sowline.spark.commands import header
from sowline.spark.events import header_text
from sowline.spark.missing_nulls import MissingNulls

_MESSAGE: Final = "_message"
_MESSAGE_TYPE: Final = "value BINARY, fields STRING, reason STRING, problem STRING"


class RowMessage(NamedTuple):
    """The result for a row: the value of the command, the paths that a delta changes, or why it is refused."""

    value: bytes | None
    fields: str | None = None
    reason: str | None = None
    problem: str | None = None


def typed_rows(rows: DataFrame, definition: TopicDefinition) -> DataFrame:
    """Return commands with messages of the topic's type as their values, and with `REASON` and `PROBLEM`.

    A `sow_delete` has no value: its Kafka key names the record. The value of a row that is refused stays its JSON.
    """
    command = header_text("sow.command") if HEADERS in rows.columns else F.lit(None).cast("string")
    headers = F.col(HEADERS) if HEADERS in rows.columns else F.array().cast(HEADERS_TYPE)
    message_of = F.udf(RowMessages(definition).of, _MESSAGE_TYPE)
    typed = rows.withColumn(_MESSAGE, message_of(F.col(VALUE), command))
    fields = F.col(f"{_MESSAGE}.fields")
    more = F.when(fields.isNotNull(), F.array(header("sow.fields", fields)))
    return typed.select(
        F.col(f"{_MESSAGE}.value").alias(VALUE),
        F.concat(headers, F.coalesce(more, F.array().cast(HEADERS_TYPE))).alias(HEADERS),
        _first(rows, REASON, F.col(f"{_MESSAGE}.reason")),
        _first(rows, PROBLEM, F.col(f"{_MESSAGE}.problem")),
        *(F.col(name) for name in rows.columns if name not in (VALUE, HEADERS, REASON, PROBLEM)),
    )


def _first(rows: DataFrame, name: str, found: Column) -> Column:
    """Return a column that rows may have already, with `found` where it is null."""
    return (F.coalesce(name, found) if name in rows.columns else found).alias(name)


class RowMessages:
    """Makes the messages of a topic; it is sent to the executors."""

    def __init__(self, definition: TopicDefinition) -> None:
        self._definition = _sendable(definition)
        assert definition.codec is not None, "rows of a JSON topic stay JSON"
        is_avro = definition.message_type == AVRO
        self._nulls = MissingNulls(definition.codec.described()) if is_avro else None

    def of(self, body: str | None, command: str | None) -> RowMessage:
        """Return the message of a body."""
        if command == SOW_DELETE or body is None:
            return RowMessage(None)
        text = body.encode()
        try:
            if command == DELTA_PUBLISH:
                message, fields = typed_delta(self._definition, text)
                return RowMessage(message, ",".join(fields) or None)
            if command in (None, PUBLISH):
                whole = text if self._nulls is None else self._nulls.added(text)
                return RowMessage(typed_message(self._definition, whole))
        except SowlineError as error:
            # No row is at fault, such as for a missing library: the job fails, and no row becomes a dead letter.
            if error.reason == "bad configuration":
                raise
            return RowMessage(text, None, error.reason, error.message)
        return RowMessage(text)


def _sendable(definition: TopicDefinition) -> TopicDefinition:
    """Return a definition with only the fields that the messages of a topic depend on.

    A definition keeps what it has computed, and not all of that can be sent. The codec needs only a part of a data
    dictionary.
    """
    type = definition.message_type
    if is_format(type):
        options = MessageFormat.model_validate(definition.format)
        return define_topic(name=definition.name, sow=False, message_type=type, message_format=options)
    return define_topic(
        name=definition.name,
        sow=False,
        message_type=type,
        reader_schema=definition.declared.reader_schema,
        framing=definition.framing,
    )


def typed_definition(broker: Broker, log: str, config: Path) -> TopicDefinition | None:
    """Return the definition of the topic with this log in `topics.yaml`; None if its messages are JSON.

    Raise `bad configuration` if they are not, and the file does not say what they are.
    """
    if not broker.has(KafkaNames.of_log(log).schema_log):
        return None
    topics = load_topics(config).topics if config.exists() else ()
    found = next((one for one in topics if one.log == log and one.message_type != JSON), None)
    if found is None:
        raise SowlineError(
            "bad configuration",
            f"expected a topic with the log {log} and a message_type in {config}, got none: messages of that log are"
            " not JSON; set SOWLINE_CONFIG to the topics.yaml that defines it",
        )
    check_writable(found)
    return found


def check_writable(definition: TopicDefinition) -> None:
    """Raise `bad configuration` or `bad schema` if messages of a topic with a message type can't be written."""
    pinned = definition.declared.reader_schema
    assert definition.codec is not None, "rows of a JSON topic stay JSON"
    if pinned is not None and pinned.id is None and definition.framing != "none":
        raise SowlineError(
            "bad configuration",
            f"expected the id of the reader_schema of topic {definition.name}, which messages have, got none: add its"
            " id in the registry, or set framing: none",
        )
