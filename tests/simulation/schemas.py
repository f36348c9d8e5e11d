"""Topics of a message type with schemas: the schemas, and a registry that lags, answers late and is away at times."""

import json
from collections.abc import Callable, Mapping
from functools import cache, partial
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from sowline.codecs.codec import codec_of
from sowline.codecs.framing import frame
from sowline.codecs.resolutions import Resolution, entry_value, id_key
from sowline.codecs.schema import AVRO, PROTOBUF, Schema
from sowline.commands.command import Headers
from sowline.config.topic_definition import TopicDefinition
from sowline.model.key import partition_of
from sowline.registry.client import RegistryAway, Resolved
from tests.simulation.broker import Broker, Written
from tests.simulation.publishers import KEYS, Publishers
from tests.simulation.schema_truth import SchemaEntries
from tests.simulation.truth import hold

if TYPE_CHECKING:
    from tests.simulation.world import Simulation

TYPED_SHARE = 1 / 6
"""Of the seeds whose topic has key fields and no documents: those whose message type has schemas."""

PROTOBUF_SHARE = 1 / 3
"""Of these: those of Protobuf. The others are of Avro."""

AWAY_MS = 400_000
"""How far the times at which the registry is away are planned."""

USUAL_ID = 1
"""The id of a schema that the registry knows from the beginning."""

INCOMPATIBLE_ID, DELTA_ID, UNKNOWN_ID, LAGGING_ID, STRANGE_ID = 5, 6, 7, 8, 9

Field = dict[str, Any]


def _avro(*fields: Field) -> Schema:
    return Schema(AVRO, json.dumps({"type": "record", "name": "Order", "fields": fields}))


def _protobuf(fields: str) -> Schema:
    text = f'syntax = "proto3"; message Order {{ {fields} }} message More {{ int32 a = 1; int32 b = 2; }}'
    return Schema(PROTOBUF, text)


def _maybe(name: str, type: str) -> Field:
    return {"name": name, "type": ["null", type], "default": None}


_ID: Field = {"name": "id", "type": "string"}
_Q: Field = {"name": "q", "type": "int", "default": 0, "aliases": ["quantity"]}
_R: Field = {"name": "r", "type": "string", "default": "m"}
_MORE: Field = {
    "name": "more",
    "type": {
        "type": "record",
        "name": "More",
        "fields": [{"name": n, "type": "int", "default": 0} for n in "ab"],
    },
    "default": {"a": 0, "b": 0},
}
_NOTE: Field = {"name": "note", "type": "string", "default": "-"}
_REMARK: Field = {"name": "remark", "type": "string", "default": "-", "aliases": ["note"]}
_LEVEL: Field = {"name": "level", "type": "int", "default": 7}
_NEWER = _avro(_ID, _Q | {"type": "long"}, _R, _MORE, _REMARK, _LEVEL)
_PROTO = "string id = 1; int32 q = 2; optional string r = 3; More more = 4; optional string note = 5;"
_NEWER_PROTO = _protobuf(f"{_PROTO} int32 level = 9;")


class Evolution(NamedTuple):
    """The reader schema of a topic and the one after it, and the schemas of messages by their ids."""

    reader: Schema
    next_reader: Schema
    writers: Mapping[int, Schema]


EVOLUTIONS: Mapping[str, Evolution] = {
    AVRO: Evolution(
        _avro(_ID, _Q, _R, _MORE, _NOTE),
        _NEWER,
        {
            USUAL_ID: _avro(_ID, _Q),
            2: _avro(_ID, _Q, _R, _MORE, _NOTE),
            3: _avro(_ID, {"name": "quantity", "type": "int", "default": 1}, _R),
            4: _avro(_ID, _R, {"name": "extra", "type": "string", "default": "x"}),
            INCOMPATIBLE_ID: _avro(_ID, {"name": "q", "type": "string", "default": "5"}),
            DELTA_ID: _avro(_ID, _maybe("q", "int"), _maybe("r", "string")),
            LAGGING_ID: _NEWER,
            STRANGE_ID: _NEWER_PROTO,
        },
    ),
    PROTOBUF: Evolution(
        _protobuf(_PROTO),
        _NEWER_PROTO,
        {
            USUAL_ID: _protobuf("string id = 1; int32 q = 2;"),
            2: _protobuf(_PROTO),
            3: _protobuf("string id = 1; int32 quantity = 2; optional string r = 3;"),
            4: _protobuf("string id = 1; optional string r = 3;"),
            INCOMPATIBLE_ID: _protobuf("string id = 1; string q = 2;"),
            DELTA_ID: _protobuf("string id = 1; optional int32 q = 2; optional string r = 3;"),
            LAGGING_ID: _NEWER_PROTO,
            STRANGE_ID: _NEWER,
        },
    ),
}
"""By message type. A field is added with a default, one renamed, one dropped; one schema can't be read."""

IDS = (USUAL_ID, USUAL_ID, 2, 2, 2, 3, 3, 4, LAGGING_ID, LAGGING_ID, INCOMPATIBLE_ID, UNKNOWN_ID, STRANGE_ID)
"""What a message names, the frequent ones more than once."""

FIELDS = (
    "/id,/q",
    "/id,/q",
    "/id,/r",
    "/id,/more",
    "/id,/more/a,/q",
    "/id,/note",
    "/id,/remark",
    "/q",
    "/id,/nope",
)


class Later:
    """The future of an answer: it is there after a while."""

    def __init__(self, is_due: Callable[[], bool], call: Callable[[], Any]) -> None:
        self._is_due = is_due
        self._found: Any = None
        self._error: RegistryAway | None = None
        try:
            self._found = call()
        except RegistryAway as error:
            self._error = error

    def done(self) -> bool:
        """Whether it is there."""
        return self._is_due()

    def result(self) -> Any:
        """Return it, or raise it."""
        if self._error is not None:
            raise self._error
        return self._found


class PlayedRegistry:
    """The registry, the client of each worker, and the thread in which it would be asked."""

    def __init__(self, chance: Random, schemas: Mapping[int, Schema], now: Callable[[], float]) -> None:
        self._chance = chance
        self._schemas = schemas
        self._now = now
        self._known_from = {
            id: chance.uniform(1000, 40_000)
            if id == LAGGING_ID or (id != USUAL_ID and chance.random() < 0.3)
            else 0
            for id in schemas
        }
        self._away: list[tuple[float, float]] = []
        share, at = chance.choice((0.0, 0.3, 1.0)), 0.0
        while share and at < AWAY_MS:
            begin = at + chance.uniform(1000, 15_000)
            at = begin + share * chance.uniform(500, 15_000)
            self._away.append((begin, at))
        self.is_calm = False
        self.is_gone = False
        self.answers: set[tuple[int, Schema | None]] = set()
        """All that it has answered."""
        self.on_answer: Callable[[int], None] = lambda id: None
        """Called with an id just before a worker gets an answer about it."""

    def resolve(self, id: int) -> Resolved | None:
        """Return the schema, None if the registry does not have it yet; raise RegistryAway."""
        now = self._now()
        is_away = not self.is_calm and any(begin <= now < end for begin, end in self._away)
        if is_away or self.is_gone:
            raise RegistryAway("expected the registry to answer, it is away")
        schema = self._schemas.get(id) if now >= self._known_from.get(id, 0) else None
        self.answers.add((id, schema))
        return None if schema is None else Resolved(schema, "orders-value", id)

    def close(self) -> None:
        """Nothing: the worker's client has no connections."""

    def submit(self, call: Callable[..., Any], registry: Any, id: int) -> Later:
        """Ask now; the answer comes later."""
        due = self._now() + self._chance.choice((0, 10, 300, 5000))

        def is_due() -> bool:
            if not self.is_calm and self._now() < due:
                return False
            self.on_answer(id)
            return True

        return Later(is_due, partial(call, registry, id))

    def shutdown(self, **_: Any) -> None:
        """Nothing: there is no thread."""


class TypedPublishers(Publishers):
    """Producers whose serializers have schemas of different versions, and some that have none."""

    def __init__(self, chance: Random, definition: TopicDefinition, broker: Broker) -> None:
        super().__init__(chance, definition, broker)
        self._type = definition.message_type
        self._writers = EVOLUTIONS[self._type].writers

    def touch(self, partition: int) -> None:
        """Write a good command that belongs to a partition, and a delta of each record."""
        key = self._key_in(partition)
        self._write(partition, None, self._message(USUAL_ID, {"id": key, "q": 7}), [])
        headers: Headers = [("sow.command", b"delta_publish"), ("sow.fields", b"/id,/q")]
        for key in KEYS:
            if partition_of(key, self._definition.partitions) == partition:
                self._write(partition, None, self._message(USUAL_ID, self._fields(key)), headers)

    def name_all(self) -> None:
        """Write a message of each schema to each partition."""
        for partition in range(self._definition.partitions):
            for id in sorted({*IDS, DELTA_ID}):
                key = self._key_in(partition)
                self._write(partition, None, self._message(id, {"id": key, "q": 7, "r": "n"}), [])

    def _key_in(self, partition: int) -> str:
        numbers = map(str, range(1000))
        return next(text for text in numbers if partition_of(text, self._definition.partitions) == partition)

    def _content(self, id: str) -> tuple[bytes | None, bytes | None, Headers]:
        chance, kind = self._chance, self._chance.random()
        key = id.encode()
        if kind < 0.5:
            return key, self._message(chance.choice(IDS), self._fields(id)), []
        if kind < 0.68:
            headers: Headers = [("sow.command", b"delta_publish")]
            fields = chance.choice(FIELDS).encode()
            return (
                key,
                self._message(chance.choice(IDS), self._fields(id)),
                [*headers, ("sow.fields", fields)],
            )
        if kind < 0.74:
            return key, self._message(DELTA_ID, self._fields(id)), [("sow.command", b"delta_publish")]
        if kind < 0.78:
            return key, self._message(chance.choice(IDS), self._fields(id)), [("sow.command", b"sow_delete")]
        if kind < 0.82:
            value = self._message(chance.choice(IDS), self._fields(id))
            return key, value[: chance.randrange(1, len(value))], []
        if kind < 0.84:
            return key, self._message(2, self._fields(id)), [("sow.fields", b"/q")]
        return super()._content(id) if kind < 0.96 else (key, json.dumps({"id": id}).encode(), [])

    def _body(self, id: str, *, whole: bool) -> bytes:
        """A body of the other topics is a message that was serialized, or plain JSON."""
        if self._chance.random() < 0.2:
            return super()._body(id, whole=whole)
        return self._message(USUAL_ID if whole else DELTA_ID, self._fields(id))

    def _fields(self, id: str) -> dict[str, Any]:
        chance = self._chance
        return {
            "id": id,
            "q": chance.randint(0, 9),
            "r": chance.choice("nm"),
            "more": {chance.choice("ab"): chance.randint(0, 2)},
            "note": chance.choice("xyz"),
            "level": chance.randint(0, 3),
        }

    def _message(self, schema_id: int, fields: Mapping[str, Any]) -> bytes:
        """Return a message under a schema, of the fields that it has."""
        if schema_id not in self._writers or schema_id == STRANGE_ID:
            return frame("confluent", self._definition.reader.type, schema_id, b"\2a")  # type: ignore[union-attr]
        writer = self._writers[schema_id]
        known = {"quantity": fields.get("q", 0), **fields}
        if schema_id == INCOMPATIBLE_ID:
            known["q"] = "5"
        if "note" in known:
            known["remark"] = known["note"]
        codec = codec_of(writer)
        body = {name: value for name, value in known.items() if name in _names(writer)}
        return frame("confluent", writer.type, schema_id, codec.write(orjson.dumps(body)))


@cache
def _names(schema: Schema) -> frozenset[str]:
    """Return the names of a record's fields."""
    described = codec_of(schema).described()
    record = described["$defs"]["Order"] if "$ref" in described else described
    return frozenset(record["properties"])


class SchemaPlay:
    """What a topic with schemas adds to a simulation. It takes its luck from generators of its own."""

    def __init__(self, world: "Simulation", has_protobuf: bool) -> None:
        self._world = world
        self._chance = chance = world.chance_of("schemas")
        self.evolution = EVOLUTIONS[PROTOBUF if has_protobuf else AVRO]
        self.registry = PlayedRegistry(
            world.chance_of("registry"), self.evolution.writers, lambda: world.loop.time() * 1000
        )
        self.registry.on_answer = self._on_answer
        self._has_strangers = chance.random() < 0.5
        self._changes_at = chance.randint(10, 80) if chance.random() < 0.5 else None
        self.leaves_at = chance.randint(10, 120) if chance.random() < 0.5 else None
        """The step from which on all schemas are named; once they are known, the registry is away for good."""
        self._has_named_all = False

    @property
    def yaml(self) -> str:
        """What the definition has beside the rest."""
        return self.yaml_of(self.evolution.reader)

    @staticmethod
    def yaml_of(reader: Schema) -> str:
        """Return what the definition has beside the rest, with this reader schema."""
        return f", message_type: {reader.type}, reader_schema: {{text: {json.dumps(reader.text)}}}"

    @property
    def is_changing(self) -> bool:
        """Whether the reader schema of the definition is not yet that of all partitions."""
        return any(
            model.reader != self._world.topics.topics[0].reader for model in self._world.truth.typed_models
        )

    def deliver(self) -> None:
        """Let what the workers' producers have queued arrive: a `define` is appended without waiting for it."""
        for worker in self._world.workers:
            for producer in worker.producers:
                producer.deliver()

    def step(self) -> None:
        """Do what is due."""
        world, chance = self._world, self._chance
        if chance.random() < 0.2:
            self.deliver()
        if self._has_strangers and chance.random() < 0.2:
            self._write_entry(chance.choice(IDS))
        if self._changes_at is not None and world.step >= self._changes_at and self._may_change():
            self._changes_at = None
            world.trace("the definition has another reader schema")
            world.mishaps.restart_with(self.yaml_of(self.evolution.next_reader))
        if self.leaves_at is not None and world.step >= self.leaves_at:
            self._name_all()
            if self._has_strangers and chance.random() < 0.1:
                self._write_missing()
            self.leave_if_known()

    def _may_change(self) -> bool:
        """Whether each partition has state under the first reader schema, which a loss of the changes can't take."""
        world, digest = self._world, self.evolution.reader.digest
        return not world.truth.may_expire_wholly and all(
            world.broker.parts[world.definition.changes, number].held and digest in model.entries.readers
            for number, model in enumerate(world.truth.typed_models)
        )

    def _on_answer(self, id: int) -> None:
        """An owner that was replaced may have got another answer, and be first to write it."""
        world, chance = self._world, self._chance
        if not self._has_strangers or world.broker.is_calm or id == USUAL_ID or chance.random() < 0.5:
            return
        for number, model in enumerate(world.truth.typed_models):
            if id not in model.entries.writers:
                self._write(number, id, None)

    def _write_entry(self, id: int) -> None:
        """An owner that was replaced writes an entry late; it may be the first of its id."""
        world, chance = self._world, self._chance
        number = chance.randrange(world.definition.partitions)
        known = world.truth.typed_models[number].entries.writers
        if id == USUAL_ID and id not in known:
            return
        schema = chance.choice((None, *self.evolution.writers.values()) if id in known else (None,))
        if chance.random() < 0.3:
            world.broker.append((world.definition.kafka.schema_log, number), id_key(id), b"{not json", None)
        self._write(number, id, schema)

    def _write_missing(self) -> None:
        """An owner that was replaced has resolved everything, and writes it late: its successor has not read it."""
        for number, model in enumerate(self._world.truth.typed_models):
            for id in sorted({*IDS, DELTA_ID} - model.entries.writers.keys()):
                self._write(number, id, self.evolution.writers.get(id))

    def _write(self, number: int, id: int, schema: Schema | None) -> None:
        """Write an entry as an owner would that got this answer."""
        self.registry.answers.add((id, schema))
        topic = self._world.definition.kafka.schema_log
        self._world.broker.append((topic, number), id_key(id), entry_value(Resolution(schema)), None)

    def check_entry(self, written: Written) -> None:
        """An entry has what the registry has answered, or the reader schema of a definition."""
        entries = SchemaEntries()
        entries.add(written.name, written.body)
        readers = {self.evolution.reader, self.evolution.next_reader}
        hold(readers >= set(entries.readers.values()), "a reader schema that no definition has:", written)
        answers = {(id, entry.schema) for id, entry in entries.writers.items()}
        hold(self.registry.answers >= answers, "an entry that the registry never answered:", written)

    def _name_all(self) -> None:
        if not self._has_named_all:
            self._has_named_all = True
            publishers = self._world.publishers
            assert isinstance(publishers, TypedPublishers)
            publishers.name_all()

    def leave_if_known(self) -> None:
        """Let the registry be away for good once each partition has an entry of each id."""
        if not self.registry.is_gone and all(
            model.entries.writers.keys() >= {*IDS, DELTA_ID} for model in self._world.truth.typed_models
        ):
            self._world.trace("the registry is away for good")
            self.registry.is_gone = True

    def become_calm(self) -> None:
        """Let the registry answer at once, unless it is away for good."""
        self.registry.is_calm = True
        if self.leaves_at is not None:
            self._name_all()

    def finish(self) -> None:
        """Leave nothing but the log and the schemas to begin from, and no registry, in seeds that have none."""
        if self.leaves_at is not None:
            self.leave_if_known()
            hold(self.registry.is_gone, "messages were applied without an entry of their schemas")
            self._world.mishaps.lose_everything()

    def unrest(self) -> list[str]:
        """Return what is not applied yet, or not defined."""
        truth = self._world.truth
        waiting = [
            f"[{n}] waits for a schema" for n in range(self._world.definition.partitions) if truth.is_held(n)
        ]
        return waiting + (["the reader schema is not defined"] if self.is_changing else [])
