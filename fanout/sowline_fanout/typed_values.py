"""The values of a fanout that is written in another message type than JSON: made from JSON, and read back."""

from typing import NamedTuple, Self

from sowline.codecs.codec import codec_of
from sowline.codecs.framing import Framing, read_frame
from sowline.codecs.schema import MessagePayload, Schema, is_format
from sowline.config.fanouts import FanoutDefinition
from sowline.config.topic_definition import TopicDefinition
from sowline.config.typed_message import TypedDelta, changes_nothing, framed
from sowline.errors import SowlineError
from sowline.registry.client import Registry
from sowline.subscriptions.engine.delivery import Form, selected
from sowline.subscriptions.engine.subscription import Delivery
from sowline_fanout.message import OutputMessage


class TypedValues(NamedTuple):
    """Converts between JSON and the messages of one schema; `schema_id` is None without a frame.

    The `registry`, if there is one, is asked for the schemas of messages that were written earlier.
    """

    schema: Schema
    framing: Framing
    schema_id: int | None
    registry: Registry | None

    @classmethod
    def of(cls, fanout: FanoutDefinition, source: TopicDefinition, registry: Registry | None) -> Self | None:
        """Return what makes the values of a fanout; None for JSON.

        The schema's id is the one in the definition. Otherwise the registry is asked for it, and the schema is
        registered if it is not there. Raise RegistryAway if there is no answer, `not registered` if the registry
        refuses the schema, and `bad configuration` if there is neither an id nor a registry.
        """
        pinned, schema = fanout.pinned(source), fanout.schema_of(source)
        if schema is None:
            return None
        schema_id = None if pinned is None else pinned.id
        # Without a frame, a message can't have an id, even if the definition does.
        if fanout.framing == "none":
            schema_id = None
        elif schema_id is None:
            schema_id = _id_in(registry, fanout, schema)
        return cls(schema, fanout.framing, schema_id, registry)

    def whole(self, body: bytes) -> bytes:
        """Return the message of a record; raise `bad message` if the schema has no such record."""
        return self._framed(codec_of(self.schema).write(body))

    def delta(self, body: bytes, delivery: Delivery, form: Form) -> TypedDelta | None:
        """Return the message of a delta of a delivery in a form; None if no message can show it.

        Raise `bad message` if the schema has no such fields.
        """
        if is_format(self.schema.type):
            assert delivery.previous is not None, "only updates have deltas"
            return self._exact_delta(body, selected(delivery.previous, form), selected(delivery.body, form))
        data, fields = codec_of(self.schema).write_delta(body)
        # An Avro message has every field. Without paths, a delta of nothing would seem to change all of them
        # (test_a_delta_of_nothing_is_a_whole_record).
        if changes_nothing(self.schema.type, fields):
            return None
        return TypedDelta(self._framed(data), fields)

    def _exact_delta(self, body: bytes, held: bytes, after: bytes) -> TypedDelta | None:
        """Return the message of a delta without paths; None if readers that merge it would hold another record."""
        codec = codec_of(self.schema)
        try:
            data, _ = codec.write_delta(body)
            # In XML, no delta takes an attribute away (test_a_delta_that_xml_can_not_show_is_a_whole_record).
            is_exact = self.merged(
                held, codec.read_delta(MessagePayload(data), self.schema, None)
            ) == codec.completed(after)
        except SowlineError:
            return None
        return TypedDelta(data) if is_exact else None

    def _framed(self, data: bytes) -> bytes:
        if self.schema_id is None:
            return data
        return framed(self.framing, codec_of(self.schema), self.schema.type, self.schema_id, data)

    def merged(self, body: bytes, delta: bytes) -> bytes:
        """Return the JSON of a record after a delta that `read` has returned."""
        codec = codec_of(self.schema)
        merged = codec.merged(body, delta)
        return codec.completed(merged) if is_format(self.schema.type) else merged

    def read(self, message: OutputMessage) -> OutputMessage:
        """Return a message that was written earlier, with its value as JSON.

        Raise RegistryAway, or the reason why the value can't be read.
        """
        schema_id, payload = read_frame(self.framing, self.schema.type, message.value)
        codec, writer = codec_of(self.schema), self._writer(schema_id)
        if message.delta:
            value = codec.read_delta(payload, writer, message.fields or None)
        else:
            value = codec.read(payload, writer)
        return message._replace(value=value)

    def _writer(self, schema_id: int | None) -> Schema:
        if schema_id == self.schema_id:
            return self.schema
        found = None if self.registry is None or schema_id is None else self.registry.resolve(schema_id)
        if found is None:
            raise SowlineError(
                "unknown schema",
                f"expected values that were written with schema {self.schema_id}, got one with schema {schema_id},"
                " which no registry knows: give the fanout another name",
            )
        return found.schema


def _id_in(registry: Registry | None, fanout: FanoutDefinition, schema: Schema) -> int:
    if registry is None:
        raise SowlineError(
            "bad configuration",
            f"expected the id of the schema of fanout {fanout.name}, or a registry, got neither: add the id, set"
            " SOWLINE_REGISTRY, or set framing: none",
        )
    found = registry.id_of(fanout.registry_subject, schema)
    return registry.register(fanout.registry_subject, schema) if found is None else found
