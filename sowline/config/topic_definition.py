"""One topic as services use it: compiled once from its definition in `topics.yaml`, and never changed."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any, Final, Self

from sowline.codecs.codec import Codec, codec_of
from sowline.codecs.framing import Framing
from sowline.codecs.schema import WITHOUT_DELTAS, Schema, is_format
from sowline.commands.key_rule import FieldKeys, GeneratedKeys, KeyRule, SuppliedKeys
from sowline.config.declared_topic import JSON, DeclaredTopic, MessageType
from sowline.config.kafka_names import KafkaNames
from sowline.config.kafka_topics import KafkaTopics
from sowline.config.message_formats import NO_OPTIONS
from sowline.config.topic_fields import GeneratedKey, SuppliedKey
from sowline.config.views import ComputedTopic
from sowline.language.expressions.enrichment import Stage, parse_enrichment, parse_preprocessing
from sowline.model.body import write_body
from sowline.model.bookmark import EPOCH, read_time
from sowline.model.difference import Keys
from sowline.model.limits import Limits
from sowline.model.merge import merge

DECIDING: Final = (
    "key",
    "key_domain",
    "message_type",
    "partitions",
    "preprocessing",
    "enrichment",
    "documents",
    "sow",
    "framing",
)
"""The fields that determine the effect of log records: if one differs, existing state belongs to another topic."""

VIEW_DECIDING: Final = ("from", "join", "filter", "grouping", "projection", "having", "partitions")
"""The fields that determine the records of a view."""

VIEW_OPTIONS: Final = (
    "replication",
    "delta",
    "record_bytes_max",
    "resume_window",
    "history",
    "indexes",
    "hash_indexes",
)
"""The fields of a view that apply to its topic unchanged."""


@dataclass(frozen=True, repr=False)
class TopicDefinition:
    """One topic: whose records, by which keys, in which message type, and how they are computed.

    Only `codec`, `key_sent` and `digest` may raise: they load a library or a key generator at first use.
    `load_topics` does that for its topics.
    """

    declared: DeclaredTopic
    """The fields as the user wrote them."""
    name: str
    log: str
    changes: str
    """The Kafka topic of the changes."""
    partitions: int
    kafka: KafkaTopics
    """Its other Kafka topics, and the sizes of all."""
    message_type: MessageType
    framing: Framing
    """How a message names its schema; none in a message type without schemas."""
    reader: Schema | None
    """The reader schema, or the options of a message type without schemas; None for JSON."""
    has_sow: bool
    """Whether the topic keeps records. If not, messages are only passed on to subscribers."""
    documents: bool
    limits: Limits
    """The expiration, limits, reader schema and template, which may change while the topic has state."""
    key_rule: KeyRule
    """The rule for the topic's keys, if it has a SOW. The first use of the rule loads a key generator."""
    key_paths: Keys
    """The key fields, each as its steps; empty if keys do not come from fields."""
    key_fields: Keys
    """The fields of a record that make its key, which every delta has; in a view, those that its records show."""
    identified_by: Keys
    """The fields that tell a record from all others: its key fields, or those that a view groups by.

    A conflated topic or a view of single records has those of its source, if it keeps all of them at their paths.
    Empty if no fields do.
    """
    preprocess: Stage | None
    """The fields computed from a message before its key is known, or None."""
    enrich: Stage | None
    """The fields computed from a message and its record, or None."""
    starts_empty: bool
    """Whether the topic starts without its previous records when the service starts."""
    recovery_time: int | None
    """The log time, in ms, at which a transient topic restarts; None for the log's end."""
    view: ComputedTopic | None
    """How the topic is computed, if it is: its log has partial states, and takes no publishes."""
    source: "TopicDefinition | None"
    """The topic that it is computed from, if it is a view or a conflated topic."""

    @classmethod
    def of(
        cls,
        declared: DeclaredTopic,
        view: ComputedTopic | None = None,
        source: "TopicDefinition | None" = None,
        key_fields: Keys | None = None,
    ) -> Self:
        """Return the topic that is declared; `view`, `source` and `key_fields` are those of a computed one."""
        names = KafkaNames.of_log(declared.log) if view is None else KafkaNames.of_view(declared.name)
        reader = _reader_of(declared)
        digest = None if reader is None else reader.digest
        limits = Limits(
            declared.expiration,
            declared.record_bytes_max,
            declared.repeat_window,
            declared.records_max,
            digest,
            write_body(declared.template).decode() if declared.template else None,
        )
        paths, time = declared.key_paths, read_time(declared.recovery_point)
        return cls(
            declared=declared,
            name=declared.name,
            log=declared.log,
            changes=names.changes,
            partitions=declared.partitions,
            kafka=KafkaTopics.of(declared, names, limits, is_computed=view is not None),
            message_type=declared.message_type,
            framing=declared.framing,
            reader=reader,
            has_sow=declared.sow,
            documents=declared.documents,
            limits=limits,
            key_rule=_key_rule_of(declared),
            key_paths=paths,
            key_fields=paths if key_fields is None else key_fields,
            identified_by=paths if view is None else _identified_by(view, source),
            preprocess=Stage(map(parse_preprocessing, declared.preprocessing))
            if declared.preprocessing
            else None,
            enrich=Stage(map(parse_enrichment, declared.enrichment)) if declared.enrichment else None,
            starts_empty=declared.durability == "transient" and declared.recovery_point != EPOCH,
            # Rounded up to a millisecond, so that no record before the given time counts.
            recovery_time=None if time is None else -(-time // 1000),
            view=view,
            source=source,
        )

    @classmethod
    def of_view(cls, view: ComputedTopic, read: Mapping[str, "TopicDefinition"]) -> Self:
        """Return the topic that a view or a conflated topic is; `read` has the topics that it reads, by name.

        Its log has partial states, its SOW keys are the key texts of its groups, or the SOW keys of its source.
        """
        common = {name: getattr(view, name) for name in VIEW_OPTIONS if name in view.model_fields_set}
        # The view has it in milliseconds already. A duration without a unit is refused.
        if "resume_window" in common:
            common["resume_window"] = f"{view.resume_window}ms"
        source = read[view.source]
        declared = DeclaredTopic(
            name=view.name,
            key=SuppliedKey.model_validate({"from": "kafka_key"}),
            log=KafkaNames.of_view(view.name).log,
            partitions=view.partitions or source.partitions,
            **common,
        )
        fields = view.key_fields({name: read[name].key_fields for name in view.read_topics})
        return cls.of(declared, view, source, fields)

    @property
    def is_conflated(self) -> bool:
        """Whether it merges the changes of an interval."""
        return self.view is not None and self.view.interval_ms > 0

    @property
    def has_deltas(self) -> bool:
        """Whether changes of its records are sent as deltas; if not, whole records are sent."""
        source = self.source if self.is_conflated else None
        return self.message_type not in WITHOUT_DELTAS if source is None else source.has_deltas

    @property
    def identity(self) -> "TopicDefinition":
        """The topic by whose rule the SOW keys are made: the source of a view that has its SOW keys, or the topic."""
        source = self.source
        return (
            self if source is None or not self.view or not self.view.has_keys_of_source else source.identity
        )

    def schema_named(self, schema_id: int) -> Schema | None:
        """Return the schema with this id if the definition itself contains it, else None."""
        pinned, reader = self.declared.reader_schema, self.reader
        text = self.declared.schemas.get(schema_id)
        if reader is not None and text is not None:
            return text.schema_of(reader.type)
        return reader if pinned is not None and pinned.id == schema_id else None

    @property
    def format(self) -> dict[str, Any] | None:
        """The options of a message type without schemas, as clients read them; None for other message types."""
        if not is_format(self.message_type):
            return None
        return (self.declared.message_format or NO_OPTIONS).sent()

    @property
    def value_names(self) -> dict[str, dict[str, str]]:
        """The meanings of the values of fields, by field; empty if no data dictionary defines them."""
        return (self.declared.message_format or NO_OPTIONS).value_names

    @property
    def codec(self) -> Codec | None:
        """The codec with the reader schema; None for JSON. Raise `bad schema`, or `bad configuration`."""
        return None if self.reader is None else codec_of(self.reader)

    def merged(self, body: bytes, delta: bytes) -> bytes:
        """Return the JSON of a record after a `delta_publish`, by the rules of the message type."""
        codec = self.codec
        if codec is None:
            return merge(body, delta)
        # The record may be stored under earlier options, in which a field has another name. Merged as it is, it would
        # have that field twice (test_a_delta_is_merged_as_the_owner_does_it).
        return codec.completed(codec.merged(codec.upgraded(body), delta))

    @cached_property
    def key_sent(self) -> list[str] | dict[str, Any]:
        """The key definition as JSON: a list of paths, the source, or the generator with its version."""
        key = self.declared.key
        if isinstance(key, SuppliedKey):
            return key.as_yaml()
        if isinstance(key, GeneratedKey):
            assert isinstance(self.key_rule, GeneratedKeys)
            # That of the installed code, also where the definition names none: the digest is made of it, and other
            # keys must not continue the state (test_the_version_of_the_algorithm_decides).
            version = self.key_rule.generator.version
            return {"generator": key.generator, "options": key.options, "version": version}
        return list(key)

    @property
    def deciding(self) -> str:
        """The names of the fields that the digest is made of, for messages."""
        *names, last = DECIDING if self.view is None else VIEW_DECIDING
        return f"{', '.join(names)} and {last}"

    @cached_property
    def digest(self) -> str:
        """A hash of the fields that determine the effect of log records. The state stores it, to detect changes."""
        return self.digest_with(self.limits.template)

    @cached_property
    def fixed_digest(self) -> str:
        """A hash of the fields that can't change while the topic has state: the digest without a template."""
        return self.digest_with(None)

    def digest_with(self, template: str | None) -> str:
        """Return the digest of a state whose documents have this template, as in `Limits`."""
        declared = self.declared
        deciding: dict[str, Any] = {
            "key": self.key_sent,
            "key_domain": declared.key_domain,
            "message_type": self.message_type,
            "partitions": self.partitions,
        }
        # Fields that are not set stay out of the hash. Otherwise a release with a new field would change the digest
        # of every topic, and existing state would be refused (test_the_digest_of_documents_is_what_it_was,
        # test_the_digest_of_a_topic_without_computed_fields_is_what_it_was).
        computed = {"preprocessing": declared.preprocessing, "enrichment": declared.enrichment}
        deciding |= {name: texts for name, texts in computed.items() if texts}
        if not self.has_sow:
            deciding["sow"] = False
        if self.documents:
            deciding |= {"documents": True, "template": json.loads(template or "{}")}
        if self.message_type != JSON:
            deciding["framing"] = self.framing
        if self.view is not None:
            deciding["view"] = self.view.digest
        return blake2b(json.dumps(deciding, sort_keys=True).encode(), digest_size=8).hexdigest()


def define_topic(**fields: Any) -> TopicDefinition:
    """Return the topic with these fields of `topics.yaml`; raise ValidationError."""
    return TopicDefinition.of(DeclaredTopic.model_validate(fields))


def by_changes(topics: Iterable[TopicDefinition]) -> dict[str, TopicDefinition]:
    """Return topics by their changes topics. Readers of changes need this, because no name tells whose it is."""
    return {topic.changes: topic for topic in topics}


def _reader_of(declared: DeclaredTopic) -> Schema | None:
    pinned, type = declared.reader_schema, declared.message_type
    if is_format(type):
        return (declared.message_format or NO_OPTIONS).schema_of(type)
    return None if pinned is None or type == JSON else pinned.schema_of(type)


def _key_rule_of(declared: DeclaredTopic) -> KeyRule:
    key = declared.key
    if isinstance(key, SuppliedKey):
        return SuppliedKeys(key.source)
    if isinstance(key, GeneratedKey):
        return GeneratedKeys(key.generator, key.options, key.version)
    return FieldKeys(declared.key_paths, declared.domain_prefix)


def _identified_by(view: ComputedTopic, source: TopicDefinition | None) -> Keys:
    if source is not None and view.has_keys_of_source:
        return source.identified_by if all(map(view.keeps, source.identified_by)) else ()
    return tuple(tuple(map(str, path.steps)) for path in view.grouping_paths)
