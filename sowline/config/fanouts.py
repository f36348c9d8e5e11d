"""The definition of a fanout: a subscription whose messages are written to Kafka."""

import json
from dataclasses import fields
from functools import cached_property
from hashlib import blake2b
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from sowline.codecs.framing import Framing
from sowline.codecs.schema import WITHOUT_DELTAS, Schema, is_format
from sowline.config.declared_topic import JSON, MessageType
from sowline.config.kafka_names import fanout_output
from sowline.config.message_formats import NO_OPTIONS, MessageFormat
from sowline.config.schema_fields import PinnedSchema, ReaderSchema
from sowline.config.topic_definition import TopicDefinition
from sowline.config.topic_fields import (
    TopicName,
    TopicsModel,
)
from sowline.errors import SowlineError
from sowline.language.filter import FilterError, compile_filter
from sowline.wire.options import Options, parse_options

FANOUT_OPTIONS = ("oof", "select", "no_empties", "timestamp", "intrinsics", "no_redundant")
"""The options that a fanout can have. All others concern a client's connection or are not supported by fanouts."""


def _filter_text(text: str) -> str:
    try:
        compile_filter(text)
    except FilterError as error:
        raise ValueError(error.message) from None
    return text


class FanoutDefinition(TopicsModel):
    """One configured subscription, written to the Kafka topic `fanout.<name>`."""

    name: TopicName
    topic: TopicName
    filter: Annotated[str, AfterValidator(_filter_text)] = Field(
        default="", description="which records are sent; all of them if empty"
    )
    delta: bool = Field(default=False, description="whether messages contain only the fields that changed")
    options: str = Field(default="", description="the options of the subscription, such as oof")
    message_type: MessageType = Field(default="json", alias="as", description="the type of the values")
    own_format: MessageFormat | None = Field(
        default=None,
        alias="message_format",
        description="the options of a message type without schemas; those of the topic if left out",
    )
    own_schema: ReaderSchema | None = Field(
        default=None, alias="schema", description="the schema of the values; that of the topic if left out"
    )
    given_framing: Framing = Field(
        default="confluent",
        alias="framing",
        description="how a value names its schema: confluent, apicurio, or none",
    )
    subject: str = Field(default="", max_length=250, description="the subject of the schema in a registry")

    @field_validator("options")
    @classmethod
    def _written(cls, text: str, others: ValidationInfo) -> str:
        try:
            options = parse_options(text)
        except SowlineError as error:
            raise ValueError(error.message) from None
        given = [one.name for one in fields(options) if getattr(options, one.name) != one.default]
        if unfit := [name for name in given if name not in FANOUT_OPTIONS]:
            raise ValueError(
                f"expected only options of fanouts ({', '.join(FANOUT_OPTIONS)}), got {', '.join(unfit)}"
            )
        if options.no_empties and not others.data.get("delta"):
            raise ValueError("expected no_empties together with delta: true, got it alone")
        return text

    @model_validator(mode="after")
    def _has_type(self) -> Self:
        given = self.model_fields_set
        names = {"own_schema": "schema", "given_framing": "framing", "subject": "subject"}
        has_schemas = self.message_type != JSON and not is_format(self.message_type)
        if not has_schemas and (unfit := [names[name] for name in names if name in given]):
            raise ValueError(
                f"expected as: with a message type with schemas, got {self.message_type} and {', '.join(unfit)}"
            )
        if self.own_format is not None:
            if not is_format(self.message_type):
                raise ValueError(
                    f"expected as: with a message type without schemas and message_format, got {self.message_type}"
                )
            self.own_format.check(self.message_type)
        if self.delta and self.message_type in WITHOUT_DELTAS:
            raise ValueError(f"expected no delta: true with as: {self.message_type}, which has no deltas")
        if self.subject and self.own_schema is not None and self.own_schema.subject:
            raise ValueError("expected one subject, got one of the fanout and one of its schema")
        return self

    @property
    def framing(self) -> Framing:
        """How a value names its schema; none in a message type without schemas."""
        return "none" if is_format(self.message_type) else self.given_framing

    def pinned(self, source: TopicDefinition) -> PinnedSchema | None:
        """Return the schema of the values: its own, else that of its topic; None if the message type has none."""
        if self.message_type == JSON:
            return None
        if self.own_schema is not None:
            return self.own_schema
        return source.declared.reader_schema if source.message_type == self.message_type else None

    def schema_of(self, source: TopicDefinition) -> Schema | None:
        """Return the schema of the values with its type, or the options of a type without one; None for JSON."""
        pinned, type = self.pinned(source), self.message_type
        if is_format(type):
            shared = source.declared.message_format if source.message_type == type else None
            return (self.own_format or shared or NO_OPTIONS).schema_of(type)
        return None if pinned is None or type == JSON else pinned.schema_of(type)

    @property
    def registry_subject(self) -> str:
        """The subject of its schema in a registry."""
        own = "" if self.own_schema is None else self.own_schema.subject
        return self.subject or own or f"{self.output}-value"

    @cached_property
    def reading(self) -> Options:
        """The parsed options."""
        return parse_options(self.options)

    @cached_property
    def digest(self) -> str:
        """A hash of the fields that determine which records, and which of their fields, readers hold."""
        select = self.reading.select
        deciding: list[Any] = [self.topic, self.filter, None if select is None else select.text]
        # Only for other types: a fanout of JSON keeps the digest that it had before there were types.
        if self.message_type != JSON:
            own = self.own_schema or self.own_format
            deciding += [self.message_type, None if own is None else own.schema_of(self.message_type).digest]
        return blake2b(json.dumps(deciding).encode(), digest_size=8).hexdigest()

    @property
    def fixed_digest(self) -> str:
        """The hash if readers keep records by the messages, so that it can't change; otherwise empty."""
        return self.digest if self.delta or self.reading.oof else ""

    @property
    def output(self) -> str:
        """The Kafka topic that the messages are written to."""
        return fanout_output(self.name)
