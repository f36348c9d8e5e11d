"""The definition of one topic in `topics.yaml`: every field as its user wrote it, checked once."""

from collections.abc import Sequence
from itertools import combinations, product
from typing import Any, Final, Literal, Self

import orjson
from pydantic import (
    Field,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from sowline.codecs.framing import Framing
from sowline.codecs.schema import BINARY, CodecType, is_format
from sowline.config.kafka_names import default_log
from sowline.config.message_formats import NO_OPTIONS, MessageFormat
from sowline.config.schema_fields import KnownSchema, ReaderSchema, SchemaId
from sowline.config.topic_fields import (
    DurationMs,
    Enrichment,
    GeneratedKey,
    HashIndexes,
    HistoryDefinition,
    IndexedPaths,
    KafkaName,
    Key,
    Lifetime,
    Preprocessing,
    RecordBytesMax,
    RecoveryPoint,
    Replication,
    ResumeWindow,
    SuppliedKey,
    TopicName,
    TopicsModel,
    key_steps,
    refuse_twice,
)
from sowline.language.emodb.template import check_template
from sowline.language.expressions.enrichment import (
    FIELDS_MAX,
    ComputedField,
    overlapping,
    parse_enrichment,
    parse_preprocessing,
)
from sowline.model.bookmark import EPOCH
from sowline.model.difference import Keys
from sowline.model.limits import (
    LIFETIME_MS_MAX,
    MIB,
)
from sowline.model.path import Path as FieldSteps

JSON: Final = "json"
MessageType = Literal["json", CodecType]


NEEDS_SOW = (
    "key",
    "key_domain",
    "expiration",
    "durability",
    "recovery_point",
    "preprocessing",
    "enrichment",
    "delta",
    "records_max",
    "repeat_window",
    "history",
    "documents",
    "template",
    "history_ttl",
    "indexes",
    "hash_indexes",
)
"""The fields that concern records. A topic without a SOW can't have them."""


_truth: Final = TypeAdapter(bool)


class DeclaredTopic(TopicsModel):
    """One topic as its user defines it."""

    name: TopicName
    message_type: MessageType = Field(default="json", description="the type of the messages in the log")
    message_format: MessageFormat | None = Field(
        default=None, description="the options of a message type without schemas"
    )
    reader_schema: ReaderSchema | None = Field(
        default=None, description="the schema of the records, for message types that have one"
    )
    given_framing: Framing = Field(
        default="confluent",
        alias="framing",
        description="how a message names its schema: confluent, apicurio, or none",
    )
    schemas: dict[SchemaId, KnownSchema] = Field(
        default={}, max_length=1000, description="schemas that messages name, without a registry"
    )
    sow: bool = Field(default=True, description="whether records are kept")
    key: Key = Field(default=(), validate_default=True, description="fields, or where keys come from")
    key_domain: str = Field(default="", max_length=200, description="the topic's name if empty")
    log: KafkaName = Field(default="", description="the Kafka topic; the topic's name if empty")
    partitions: int = Field(default=1, ge=1, le=1024, description="how many partitions the log has")
    replication: Replication = 1
    expiration: Lifetime = Field(default="disabled", description="disabled, enabled, or a lifetime")
    durability: Literal["persistent", "transient"] = Field(
        default="persistent",
        description="transient: its records begin again at the recovery point at each start",
    )
    recovery_point: RecoveryPoint = Field(
        default=EPOCH, description="where a transient topic begins when the service starts"
    )
    preprocessing: tuple[Preprocessing, ...] = Field(
        default=(), max_length=FIELDS_MAX, description="fields computed of a message before its key is known"
    )
    enrichment: tuple[Enrichment, ...] = Field(
        default=(), max_length=FIELDS_MAX, description="fields computed of a message for its record"
    )
    delta: bool = Field(default=False, description="whether updates list in a header what they changed")
    record_bytes_max: RecordBytesMax = MIB
    records_max: int | None = Field(default=None, ge=1, le=10**12, description="in all partitions together")
    repeat_window: DurationMs = Field(
        default="7d", validate_default=True, le=LIFETIME_MS_MAX, description="in log time"
    )
    resume_window: ResumeWindow = Field(default="1h", validate_default=True)
    history: HistoryDefinition | None = Field(default=None, description="whether the past can be asked for")
    documents: bool = Field(
        default=False, description="whether records are documents: deltas, intrinsics, a timeline"
    )
    template: dict[str, Any] = Field(
        default_factory=dict, description="fields that every document of the topic has"
    )
    history_ttl: DurationMs = Field(
        default="2d",
        validate_default=True,
        description="how far back a document's timeline has each write",
    )
    indexes: IndexedPaths = ()
    hash_indexes: HashIndexes = ()

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, given: Any) -> Any:
        if isinstance(given, dict) and isinstance(given.get("name"), str):
            given = {**given}
            # A field that is filled in counts as one that the user wrote. Without these conditions, `sow: false` and
            # keys of publishers would always be refused because of a key_domain.
            if _has_sow(given) and not isinstance(given.get("key"), (dict, SuppliedKey, GeneratedKey)):
                given["key_domain"] = given.get("key_domain") or given["name"]
            given["log"] = given.get("log") or default_log(given["name"])
        return given

    @field_validator("key")
    @classmethod
    def _is_keyed(cls, key: Key, others: ValidationInfo) -> Key:
        # A validator sees only the fields that are declared before its own, so `sow` comes before `key`, and `key`
        # before the computed fields.
        if key == () and others.data.get("sow", True):
            # Pydantic's own kind of error, which gets the sentence of every missing field.
            raise PydanticCustomError("missing", "Field required")
        return key

    @field_validator("indexes")
    @classmethod
    def _different(cls, indexes: tuple[str, ...]) -> tuple[str, ...]:
        refuse_twice("index", list(indexes))
        return indexes

    @field_validator("hash_indexes")
    @classmethod
    def _different_sets(cls, indexes: tuple[tuple[str, ...], ...]) -> tuple[tuple[str, ...], ...]:
        for paths in indexes:
            refuse_twice("field of a hash index", list(paths))
        refuse_twice("hash index", [" and ".join(sorted(paths)) for paths in indexes])
        return indexes

    @field_validator("preprocessing")
    @classmethod
    def _makes_keys(cls, texts: tuple[str, ...], others: ValidationInfo) -> tuple[str, ...]:
        fields = [parse_preprocessing(text) for text in texts]
        _refuse_overlaps(fields)
        for field, key in product(fields, _key_paths(others.data.get("key", ()))):
            if field.output != key and overlapping(field.output, key):
                raise ValueError(
                    f"expected a path that is a key field or outside of it, got {FieldSteps(field.output)}"
                    f" and the key field {FieldSteps(key)}"
                )
        return texts

    @field_validator("enrichment")
    @classmethod
    def _leaves_keys(cls, texts: tuple[str, ...], others: ValidationInfo) -> tuple[str, ...]:
        fields = [parse_enrichment(text) for text in texts]
        _refuse_overlaps(fields)
        for field, key in product(fields, _key_paths(others.data.get("key", ()))):
            if overlapping(field.output, key):
                raise ValueError(
                    f"expected paths other than the key's, got {FieldSteps(field.output)} (only preprocessing"
                    " comes before the key)"
                )
        return texts

    @field_validator("key_domain")
    @classmethod
    def _of_fields(cls, domain: str, others: ValidationInfo) -> str:
        if domain and isinstance(others.data.get("key", ()), (SuppliedKey, GeneratedKey)):
            raise ValueError(
                f"expected a key_domain only with key fields, got {domain!r}: other keys are not hashed"
            )
        return domain

    @model_validator(mode="after")
    def _keeps_records(self) -> Self:
        unfit = [name for name in NEEDS_SOW if name in self.model_fields_set]
        if unfit and not self.sow:
            raise ValueError(f"expected no field for records with sow: false, got {', '.join(unfit)}")
        return self

    @field_validator("template")
    @classmethod
    def _storable(cls, template: dict[str, Any]) -> dict[str, Any]:
        check_template(template)
        try:
            # Read back, because documents are stored as JSON: a template with a tuple would differ from the same one
            # after a restart (test_a_template_is_json).
            loaded: dict[str, Any] = orjson.loads(orjson.dumps(template))
        except TypeError as error:
            raise ValueError(f"expected fields with JSON values: {error}") from None
        return loaded

    @model_validator(mode="after")
    def _keeps_documents(self) -> Self:
        given = self.model_fields_set
        if not self.documents and (unfit := sorted(given & {"template", "history_ttl"})):
            raise ValueError(f"expected documents: true with {', '.join(unfit)}, got false")
        if self.documents and (unfit := sorted(given & {"preprocessing", "enrichment"})):
            raise ValueError(f"expected no {' and no '.join(unfit)} with documents: true")
        check_template(self.template, self.key_paths)
        # A `define` names the template before and after the change, and has to fit the log.
        if (size := len(orjson.dumps(self.template))) > self.record_bytes_max:
            raise ValueError(
                f"expected a template of at most {self.record_bytes_max} bytes (record_bytes_max), got {size}"
            )
        return self

    @model_validator(mode="after")
    def _has_options(self) -> Self:
        if not is_format(self.message_type):
            if self.message_format is not None:
                raise ValueError(
                    f"expected a message_type without schemas with message_format, got {self.message_type}"
                )
            return self
        options = self.message_format or NO_OPTIONS
        options.check(self.message_type)
        for path in self.key_paths:
            # With its tag for a name, the field would be in no record, and each message would become a dead letter
            # (test_a_key_field_has_the_name_that_records_have).
            if (named := options.named(self.message_type, path)) != path:
                raise ValueError(
                    f"expected the key field {FieldSteps(named)}, as records have it, got {FieldSteps(path)}: the"
                    " message_format names this tag"
                )
        if self.message_type == BINARY and self.sow and not isinstance(self.key, SuppliedKey):
            raise ValueError(
                "expected keys that publishers give with message_type: binary, which is not parsed, got others:"
                " set key: {from: kafka_key} or key: {from: header}"
            )
        return self

    @model_validator(mode="after")
    def _has_schemas(self) -> Self:
        names = {"reader_schema": "reader_schema", "given_framing": "framing", "schemas": "schemas"}
        given = [names[name] for name in names if name in self.model_fields_set]
        has_schemas = self.message_type != JSON and not is_format(self.message_type)
        if not has_schemas and given:
            raise ValueError(
                f"expected a message_type with schemas, got {self.message_type} and {', '.join(given)}"
            )
        if has_schemas and self.reader_schema is None:
            raise ValueError(f"expected a reader_schema with message_type: {self.message_type}, got none")
        if self.message_type != JSON and self.documents:
            raise ValueError(f"expected message_type: json with documents: true, got {self.message_type}")
        if self.framing == "none" and self.schemas:
            raise ValueError("expected no schemas with framing: none, which names none in a message")
        return self

    @model_validator(mode="after")
    def _recovers(self) -> Self:
        if self.recovery_point != EPOCH and self.durability != "transient":
            raise ValueError(
                f"expected durability: transient with a recovery_point, got {self.recovery_point} alone"
            )
        return self

    @property
    def key_paths(self) -> Keys:
        """The key fields, each as its steps; empty if keys do not come from fields."""
        return _key_paths(self.key)

    @property
    def framing(self) -> Framing:
        """How a message names its schema; none in a message type without schemas."""
        return "none" if is_format(self.message_type) else self.given_framing

    @property
    def domain_prefix(self) -> bytes:
        """The bytes before the key text in the hash that makes a SOW key."""
        return self.key_domain.encode() + b"\0"


def _has_sow(given: dict[str, Any]) -> bool:
    """Return whether a topic definition keeps records; True for an invalid value, which another check reports."""
    try:
        # Values of a file are texts: `no` is true in Python, but false for its user.
        return _truth.validate_python(given.get("sow", True))
    except ValidationError:
        return True


def _key_paths(key: Key) -> tuple[tuple[str, ...], ...]:
    return tuple(map(key_steps, key)) if isinstance(key, tuple) else ()


def _refuse_overlaps(fields: Sequence[ComputedField]) -> None:
    for one, other in combinations(fields, 2):
        if overlapping(one.output, other.output):
            raise ValueError(
                f"expected paths that don't overlap, got {FieldSteps(one.output)} and {FieldSteps(other.output)}"
            )
