"""The definition of one topic: its name, the keys of its records, and its Kafka topics."""

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from hashlib import blake2b
from itertools import combinations, product
from typing import Any, Final, Literal, Self

import orjson
from pydantic import (
    Field,
    PrivateAttr,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from sowline.codecs.codec import Codec, codec_of
from sowline.codecs.framing import Framing
from sowline.codecs.schema import BINARY, WITHOUT_DELTAS, CodecType, Schema, is_format
from sowline.config.kafka_names import KafkaNames, default_log
from sowline.config.message_formats import NO_OPTIONS, MessageFormat
from sowline.config.schema_fields import KnownSchema, ReaderSchema, SchemaId
from sowline.config.topic_fields import (
    DurationMs,
    Enrichment,
    FieldPath,
    GeneratedKey,
    HashIndex,
    HistoryDefinition,
    KafkaName,
    Key,
    Lifetime,
    Preprocessing,
    RecoveryPoint,
    SuppliedKey,
    TopicName,
    TopicsModel,
    key_steps,
    refuse_twice,
)
from sowline.config.views import ComputedTopic
from sowline.emodb.intrinsics import RESERVED_KEYS
from sowline.expressions.enrichment import (
    FIELDS_MAX,
    ComputedField,
    Stage,
    overlapping,
    parse_enrichment,
    parse_preprocessing,
)
from sowline.model.bookmark import EPOCH, read_time
from sowline.model.difference import Keys
from sowline.model.limits import (
    HEADROOM_BYTES,
    LIFETIME_MS_MAX,
    MIB,
    Limits,
)
from sowline.model.merge import merge
from sowline.model.path import Path as FieldSteps
from sowline.protocol.key_rule import FieldKeys, GeneratedKeys, KeyRule, SuppliedKeys

INDEXES_MAX = 64

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


DECIDING: Final = (
    "key",
    "key_domain",
    "message_type",
    "partitions",
    "preprocessing",
    "enrichment",
    "documents",
    "template",
    "sow",
    "framing",
)
"""The fields that determine the effect of log records: with other ones, a state is one of another topic."""

VIEW_DECIDING: Final = ("from", "join", "filter", "grouping", "projection", "having", "partitions")
"""Those of a view."""

VIEW_OPTIONS: Final = (
    "replication",
    "delta",
    "record_bytes_max",
    "resume_window",
    "history",
    "indexes",
    "hash_indexes",
)
"""The fields of a view that its topic has as they are."""

VIEW_KEY: Final = SuppliedKey.model_validate({"from": "kafka_key"})


_truth: Final = TypeAdapter(bool)


class TopicDefinition(TopicsModel):
    """One topic: its name, its keys, its Kafka topics, and all its options."""

    name: TopicName
    message_type: MessageType = "json"
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
    partitions: int = Field(default=1, ge=1, le=1024)
    replication: int = Field(default=1, ge=1, le=9, description="of the Kafka topics that Sowline creates")
    expiration: Lifetime = Field(default="disabled", description="disabled, enabled, or a lifetime")
    durability: Literal["persistent", "transient"] = "persistent"
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
    record_bytes_max: int = Field(default=MIB, ge=64, le=64 * MIB)
    records_max: int | None = Field(default=None, ge=1, le=10**12, description="in all partitions together")
    repeat_window: DurationMs = Field(
        default="7d", validate_default=True, le=LIFETIME_MS_MAX, description="in log time"
    )
    resume_window: DurationMs = Field(
        default="1h",
        validate_default=True,
        description="how long every change is kept, so that clients can resume",
    )
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
    indexes: tuple[FieldPath, ...] = Field(
        default=(), max_length=INDEXES_MAX, description="fields whose memo index is built at start"
    )
    hash_indexes: tuple[HashIndex, ...] = Field(
        default=(), max_length=INDEXES_MAX, description="sets of fields that are looked up by their strings"
    )
    _view: ComputedTopic | None = PrivateAttr(default=None)
    _source: "TopicDefinition | None" = PrivateAttr(default=None)
    _key_fields: Keys = PrivateAttr(default=())

    def computed_by(self, view: ComputedTopic) -> Self:
        """Return the same topic as a view, as a service describes it: it takes no commands."""
        topic = type(self)(**{name: getattr(self, name) for name in self.model_fields_set})
        topic._view = view
        return topic

    @classmethod
    def of_view(cls, view: ComputedTopic, read: Mapping[str, "TopicDefinition"]) -> Self:
        """Return the topic that a view or a conflated topic is; `read` has the topics that it reads, by name.

        Its log has partial states, its SOW keys are the key texts of its groups, or the SOW keys of its source.
        """
        common = {name: getattr(view, name) for name in VIEW_OPTIONS if name in view.model_fields_set}
        if "resume_window" in common:
            common["resume_window"] = f"{view.resume_window}ms"
        log = KafkaNames.of_view(view.name).log
        source = read[view.source]
        partitions = view.partitions or source.partitions
        topic = cls(name=view.name, key=VIEW_KEY, log=log, partitions=partitions, **common)
        topic._view, topic._source = view, source
        topic._key_fields = view.key_fields({name: read[name].key_fields for name in view.read_topics})
        return topic

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, given: Any) -> Any:
        if isinstance(given, dict) and isinstance(given.get("name"), str):
            given = {**given}
            if _has_sow(given) and not isinstance(given.get("key"), (dict, SuppliedKey, GeneratedKey)):
                given["key_domain"] = given.get("key_domain") or given["name"]
            given["log"] = given.get("log") or default_log(given["name"])
            if isinstance(given.get("key"), str):
                given["key"] = (given["key"],)
        return given

    @field_validator("key")
    @classmethod
    def _is_keyed(cls, key: Key, others: ValidationInfo) -> Key:
        if key == () and others.data.get("sow", True):
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
        reserved = sorted(RESERVED_KEYS & template.keys())
        if reserved:
            raise ValueError(f"expected fields other than intrinsics, got {', '.join(reserved)}")
        try:
            loaded: dict[str, Any] = orjson.loads(orjson.dumps(template))
        except TypeError as error:
            raise ValueError(f"expected fields with JSON values: {error}") from None
        return loaded

    @model_validator(mode="after")
    def _keeps_documents(self) -> Self:
        given = self.model_fields_set
        if not self.documents and (unfit := sorted(given & {"template", "history_ttl"})):
            raise ValueError(f"expected documents: true with {', '.join(unfit)}")
        if self.documents and (unfit := sorted(given & {"preprocessing", "enrichment"})):
            raise ValueError(f"expected no {' and no '.join(unfit)} with documents: true")
        if keyed := sorted(set(self.template) & {steps[0] for steps in self.key_paths}):
            raise ValueError(f"expected a template without the key's fields, got {', '.join(keyed)}")
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
            if (named := options.named(self.message_type, path)) != path:
                raise ValueError(
                    f"expected the key field {FieldSteps(named)}, as records have it, got {FieldSteps(path)}: the"
                    " message_format names this tag"
                )
        if self.message_type == BINARY and self.sow and not self.key_rule.is_supplied:
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
            raise ValueError(f"expected a reader_schema with message_type: {self.message_type}")
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
    def view(self) -> ComputedTopic | None:
        """How the topic is computed, if it is: its log has partial states, and takes no publishes."""
        return self._view

    @property
    def source(self) -> "TopicDefinition | None":
        """The topic that it is computed from, if it is a view or a conflated topic."""
        return self._source

    @property
    def is_conflated(self) -> bool:
        """Whether it merges the changes of an interval."""
        return self._view is not None and self._view.interval_ms > 0

    @property
    def has_deltas(self) -> bool:
        """Whether changes of its records are sent as deltas; if not, whole records are sent."""
        source = self._source if self.is_conflated else None
        return self.message_type not in WITHOUT_DELTAS if source is None else source.has_deltas

    @property
    def has_sow(self) -> bool:
        """Whether the topic keeps records. If not, messages are only passed on to subscribers."""
        return self.sow

    @property
    def starts_empty(self) -> bool:
        """Whether the topic starts without its previous records when the service starts."""
        return self.durability == "transient" and self.recovery_point != EPOCH

    @property
    def recovery_time(self) -> int | None:
        """The log time, in ms, at which a transient topic restarts; None for the log's end."""
        time = read_time(self.recovery_point)
        return None if time is None else -(-time // 1000)

    @property
    def _names(self) -> KafkaNames:
        return KafkaNames.of_log(self.log) if self.view is None else KafkaNames.of_view(self.name)

    @cached_property
    def changes(self) -> str:
        """The Kafka topic of the changes."""
        return self._names.changes

    @property
    def dead(self) -> str:
        """The Kafka topic of the dead letters."""
        return self._names.dead

    @property
    def kafka_topics(self) -> list[str]:
        """The names of all Kafka topics of the topic."""
        typed = [] if self.message_type == JSON else [self.schema_log]
        return [self.log, self.changes, self.dead, *typed]

    @property
    def schema_log(self) -> str:
        """The Kafka topic of the schemas that messages name, for message types that have them."""
        return self._names.schema_log

    @cached_property
    def reader(self) -> Schema | None:
        """The reader schema, or the options of a message type without schemas; None for JSON."""
        pinned, type = self.reader_schema, self.message_type
        if is_format(type):
            return (self.message_format or NO_OPTIONS).schema_of(type)
        return None if pinned is None or type == JSON else pinned.schema_of(type)

    def schema_named(self, schema_id: int) -> Schema | None:
        """Return the schema with an id that the definition itself has; None if it has none."""
        pinned, reader, text = self.reader_schema, self.reader, self.schemas.get(schema_id)
        if reader is not None and text is not None:
            return text.schema_of(reader.type)
        return reader if pinned is not None and pinned.id == schema_id else None

    @property
    def framing(self) -> Framing:
        """How a message names its schema; none in a message type without schemas."""
        return "none" if is_format(self.message_type) else self.given_framing

    @property
    def format(self) -> dict[str, Any] | None:
        """The options of a message type without schemas, as clients read them; None for other message types."""
        return (self.message_format or NO_OPTIONS).sent() if is_format(self.message_type) else None

    @property
    def codec(self) -> Codec | None:
        """The codec with the reader schema; None for JSON. Raise `bad schema`, or `bad configuration`."""
        return None if self.reader is None else codec_of(self.reader)

    def merged(self, body: bytes, delta: bytes) -> bytes:
        """Return the JSON of a record after a `delta_publish`, by the rules of the message type."""
        codec = self.codec
        if codec is None:
            return merge(body, delta)
        return codec.completed(codec.merged(codec.upgraded(body), delta))

    @property
    def change_window(self) -> int:
        """The time for which every single change is kept, in ms."""
        history = self.history.window if self.history is not None else 0
        return max(self.resume_window, history, self.history_ttl if self.documents else 0)

    @property
    def log_bytes_max(self) -> int:
        """The largest Kafka record of the log. It must also fit a body that is refused as too large, with headers.

        A change fits too: its body, the previous body and a delta. The limit includes the delta even if `delta` is
        False, so that the setting does not change which records fit (`test_what_fits_does_not_depend_on_deltas`).
        """
        # A change of a view also has the states of the group.
        states = self.record_bytes_max if self.view is not None else 0
        return self.limits.log_bytes_max + states

    @property
    def dead_bytes_max(self) -> int:
        """The largest dead letter: a complete log record, and the reason for its refusal."""
        return self.log_bytes_max + HEADROOM_BYTES

    @cached_property
    def key_paths(self) -> tuple[tuple[str, ...], ...]:
        """The key fields, each as its steps; empty if keys do not come from fields."""
        return _key_paths(self.key)

    @property
    def key_fields(self) -> Keys:
        """The fields of a record that make its key, which every delta has; in a view those that its records have."""
        return self.key_paths if self.view is None else self._key_fields

    @property
    def identity(self) -> "TopicDefinition":
        """The topic by whose rule the SOW keys are made: the source of a view that has its SOW keys, or the topic."""
        source = self._source
        return (
            self if source is None or not self.view or not self.view.has_keys_of_source else source.identity
        )

    @cached_property
    def identified_by(self) -> Keys:
        """The fields that tell a record from all others: its key fields, or those that a view groups by.

        A conflated topic or a view of single records has those of its source, if it keeps them all where they are.
        Empty if no fields do.
        """
        if self.view is None:
            return self.key_paths
        if self._source is not None and self.view.has_keys_of_source:
            return self._source.identified_by if all(map(self.view.keeps, self._source.identified_by)) else ()
        return tuple(tuple(map(str, path.steps)) for path in self.view.grouping_paths)

    @cached_property
    def key_rule(self) -> KeyRule:
        """The rule for the topic's keys, if it has a SOW. The first use of the rule loads a key generator."""
        if isinstance(self.key, SuppliedKey):
            return SuppliedKeys(self.key.source)
        if isinstance(self.key, GeneratedKey):
            return GeneratedKeys(self.key.generator, self.key.options, self.key.version)
        return FieldKeys(self.key_paths, self.domain_prefix)

    @cached_property
    def key_sent(self) -> list[str] | dict[str, Any]:
        """The key definition as JSON: a list of paths, the source, or the generator with its version."""
        if isinstance(self.key, SuppliedKey):
            return self.key.as_yaml()
        if isinstance(self.key, GeneratedKey):
            assert isinstance(self.key_rule, GeneratedKeys)
            version = self.key_rule.generator.version
            return {"generator": self.key.generator, "options": self.key.options, "version": version}
        return list(self.key)

    @cached_property
    def preprocess(self) -> Stage | None:
        """The fields computed from a message before its key is known, or None."""
        return Stage(map(parse_preprocessing, self.preprocessing)) if self.preprocessing else None

    @cached_property
    def enrich(self) -> Stage | None:
        """The fields computed from a message and its record, or None."""
        return Stage(map(parse_enrichment, self.enrichment)) if self.enrichment else None

    @cached_property
    def domain_prefix(self) -> bytes:
        """The bytes before the key text in the hash that makes a SOW key."""
        return self.key_domain.encode() + b"\0"

    @cached_property
    def limits(self) -> Limits:
        """The expiration, limits and reader schema, which may change while the topic has state."""
        schema = None if self.reader is None else self.reader.digest
        return Limits(self.expiration, self.record_bytes_max, self.repeat_window, self.records_max, schema)

    @property
    def deciding(self) -> str:
        """The names of the fields that the digest is made of, for messages."""
        *names, last = DECIDING if self.view is None else VIEW_DECIDING
        return f"{', '.join(names)} and {last}"

    @cached_property
    def digest(self) -> str:
        """A hash of the fields that determine the effect of log records. The state stores it, to detect changes."""
        deciding: dict[str, Any] = {
            "key": self.key_sent,
            "key_domain": self.key_domain,
            "message_type": self.message_type,
            "partitions": self.partitions,
        }
        computed = {"preprocessing": self.preprocessing, "enrichment": self.enrichment}
        deciding |= {name: texts for name, texts in computed.items() if texts}
        if not self.sow:
            deciding["sow"] = False
        if self.documents:
            deciding |= {"documents": True, "template": self.template}
        if self.message_type != JSON:
            deciding["framing"] = self.framing
        if self.view is not None:
            deciding["view"] = self.view.digest
        return blake2b(json.dumps(deciding, sort_keys=True).encode(), digest_size=8).hexdigest()


def by_changes(topics: Iterable[TopicDefinition]) -> dict[str, TopicDefinition]:
    """Return topics by their changes topics. What reads these finds its topic here: no name tells whose it is."""
    return {topic.changes: topic for topic in topics}


def _has_sow(given: dict[str, Any]) -> bool:
    """Return whether a topic definition keeps records; True for an invalid value, which another check reports."""
    try:
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
