"""The writing methods of the asynchronous client: straight to Kafka, or through the service to get an outcome."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Unpack
from urllib.parse import quote

import orjson

from sowline.client.http_api import HttpClient
from sowline.client.publisher import Publisher, encode, read_stream
from sowline.client.write_options import (
    Body,
    DeltaWriteOptions,
    KeyedWriteOptions,
    OnDelivery,
    Tagging,
    WriteOptions,
)
from sowline.commands.command import joined_keys, joined_tags
from sowline.config.declared_topic import JSON, DeclaredTopic
from sowline.config.kafka_options import kafka_config
from sowline.config.topic_definition import TopicDefinition
from sowline.config.topics import DescribedTopics, Topics
from sowline.config.views import ComputedTopic
from sowline.errors import SowlineError
from sowline.model.bookmark import EPOCH, Positions, format_bookmark, parse_bookmark
from sowline.wire.media_types import NATIVE

KEYS_BYTES_MAX = 24 * 1024
"""The SOW keys in one request, percent-encoded: they go into its URL."""
KEY_OVERHEAD = 9
"""The quotes and the comma of one key, percent-encoded."""

NDJSON = "application/x-ndjson"
POSTED = ("correlation", "expiration")
"""Metadata that is sent with a delta as a parameter of its request."""


LINES_MAX = 1000
LINES_BYTES_MAX = 1 << 20
"""The limits of one request of `publish_all`; a larger record is sent alone."""


class Written(NamedTuple):
    """The outcomes of commands that a client waited for; `effect` is the bookmark from which all are visible."""

    commands: int
    outcomes: dict[str, int]
    effect: str


class Writing:
    """Commands: publishes, deltas and deletes."""

    _http: HttpClient

    def __init__(
        self, kafka: str | None, kafka_options: Mapping[str, str] | None, publisher: str | None
    ) -> None:
        self._kafka = kafka
        self._kafka_options = kafka_options
        self._publisher_id = publisher
        self._publisher: Publisher | None = None
        self._effects: dict[str, Positions] = {}

    async def publish(
        self,
        topic: str,
        data: Body,
        *,
        wait: bool = False,
        on_delivery: OnDelivery | None = None,
        **writing: Unpack[KeyedWriteOptions],
    ) -> str | None:
        """Insert the record, or replace it whole; `flush` waits for Kafka, and `on_delivery` gets the report.

        With `wait`, the record goes to the service, after everything that was published before. Once the record is
        visible there, the bookmark of its effect is returned: reads with it as `at_least` see the record at any
        service. A refused record raises its reason.
        """
        if wait:
            _check_no_report(on_delivery)
            return await self._post_record(topic, "publish", data, writing)
        await self._write(topic, lambda one: one.publish(topic, data, on_delivery=on_delivery, **writing))
        return None

    async def delta_publish(
        self,
        topic: str,
        data: Body,
        *,
        wait: bool = False,
        on_delivery: OnDelivery | None = None,
        **writing: Unpack[DeltaWriteOptions],
    ) -> str | None:
        """Merge the fields into the record with this `key`, or with the key fields in `data`.

        `wait` and `on_delivery` work as in `publish`.
        """
        if wait:
            _check_no_report(on_delivery)
            fields = writing.get("fields", ())
            return await self._post_record(topic, "delta_publish", data, writing, fields)
        await self._write(
            topic, lambda one: one.delta_publish(topic, data, on_delivery=on_delivery, **writing)
        )
        return None

    @property
    def effect(self) -> str:
        """The bookmark of the effects of all writes that this client has waited for; empty if there are none.

        A read with it as `at_least` sees these writes, from any client and at any service.
        """
        return format_bookmark(self._effects) if self._effects else ""

    async def publish_all(
        self,
        topic: str,
        records: Iterable[Body],
        *,
        delta: bool = False,
        **writing: Unpack[KeyedWriteOptions],
    ) -> Written:
        """Have the service write the records, or `delta` publishes, in order; wait until all are visible there.

        With a `key`, all bodies belong to that record. The first record that is refused raises its reason; the
        records before it are written.
        """
        # Earlier records go to Kafka directly, and could otherwise arrive after those that the service writes.
        await self.flush()
        outcomes: Counter[str] = Counter()
        effects: dict[str, Positions] = {}
        commands = 0
        command = "delta_publish" if delta else "publish"
        key, encoded = writing.get("key"), map(encode, records)
        # A request that names the key has a single record.
        requests, media_type = (encoded, "") if key is not None else (_in_requests(encoded), NDJSON)
        for bodies in requests:
            answer = await self._post(topic, command, bodies, writing, media_type, {"sow_key": key or ""})
            commands += answer["commands"]
            outcomes.update(answer["outcomes"])
            _lay_over(effects, answer["effect"])
        return Written(commands, dict(outcomes), format_bookmark(effects) if effects else "")

    async def _post_record(
        self, topic: str, command: str, data: Body, writing: KeyedWriteOptions, fields: Sequence[str] = ()
    ) -> str:
        """Have the service write a record, and wait for its effect."""
        await self.flush()
        own = {"sow_key": writing.get("key") or "", "fields": ",".join(fields)}
        answer = await self._post(topic, command, encode(data), writing, _type_of(data), own)
        return str(answer["effect"])

    async def _post(
        self,
        topic: str,
        command: str,
        body: bytes,
        writing: WriteOptions,
        content_type: str,
        own: Mapping[str, str] = MappingProxyType({}),
    ) -> dict[str, Any]:
        given = {name: str(value) for name, value in writing.items() if name in POSTED and value is not None}
        named = {name: text for name, text in {**_tagged(writing), **own}.items() if text}
        answer = await self._http.post(
            topic, command, {**given, **named, "ack": "processed"}, body, content_type
        )
        self._note_effect(answer)
        return answer

    def _note_effect(self, answer: Mapping[str, Any]) -> None:
        _lay_over(self._effects, answer["effect"])

    async def delta(
        self,
        topic: str,
        key: str,
        delta: str,
        *,
        wait: bool = False,
        on_delivery: OnDelivery | None = None,
        **writing: Unpack[WriteOptions],
    ) -> str | None:
        """Apply a delta to the document with this key text.

        With `wait`, the delta goes to the service, after everything that was published before. Once the service has
        applied it, the outcome is returned: `applied`, `noop` or `condition_false`. Without `wait`, `on_delivery`
        gets Kafka's report.
        """
        if wait:
            _check_no_report(on_delivery)
            [outcome] = await self._post_deltas(topic, key, [delta], writing)
            return outcome
        await self._write(topic, lambda one: one.delta(topic, key, delta, on_delivery=on_delivery, **writing))
        return None

    async def deltas(
        self,
        topic: str,
        key: str,
        stream: str,
        *,
        wait: bool = False,
        on_delivery: OnDelivery | None = None,
        **writing: Unpack[WriteOptions],
    ) -> list[str]:
        """Apply each delta of a stream to a document, in order; all are checked before one is written.

        With `wait`, returns the outcome of each, as `delta` does; otherwise an empty list. `on_delivery` is called
        for each.
        """
        if wait:
            _check_no_report(on_delivery)
            texts = [text.decode() for text in read_stream(stream, writing)]
            return await self._post_deltas(topic, key, texts, writing)
        await self._write(
            topic, lambda one: one.deltas(topic, key, stream, on_delivery=on_delivery, **writing)
        )
        return []

    async def _post_deltas(
        self, topic: str, key: str, deltas: Sequence[str], writing: WriteOptions
    ) -> list[str]:
        """Have the service write deltas to a document; return the outcome of each."""
        await self.flush()
        given = {name: str(value) for name, value in writing.items() if name in POSTED and value is not None}
        own = {name: value for name, value in writing.items() if name not in POSTED and value}
        lines = [orjson.dumps({"key": key, "delta": delta, **own}) for delta in deltas]
        answer = await self._http.post(
            topic, "delta", {**given, "ack": "processed"}, b"\n".join(lines), NDJSON
        )
        self._note_effect(answer)
        return list(answer["each"])

    async def sow_delete(
        self,
        topic: str,
        *,
        filter: str | None = None,
        keys: Sequence[str] | None = None,
        data: Body | None = None,
        key: str | None = None,
        correlation: str | None = None,
        **tagging: Unpack[Tagging],
    ) -> int:
        """Delete the records that a filter (`1=1`: every one), SOW keys or `data` select; exactly one of them.

        On a topic whose publishers give keys, a `key` names the record, and `data` is optional. It takes effect after
        everything that was published before. Returns how many records were deleted, once the service has applied it.
        The topic may be a pattern. Subscribers get `correlation` with each record that goes.
        """
        await self.flush()
        tagged = _tagged(tagging) | ({} if correlation is None else {"correlation": correlation})
        if keys is not None and not (filter or data or key):
            return sum([await self._post_delete(topic, {"keys": part, **tagged}) for part in _portions(keys)])
        selected = {"filter": filter or "", "keys": joined_keys(keys or ()), "sow_key": key or "", **tagged}
        return await self._post_delete(topic, selected, data)

    async def _post_delete(self, topic: str, given: Mapping[str, str], data: Body | None = None) -> int:
        selectors = {name: text for name, text in given.items() if text}
        body = None if data is None else encode(data)
        answer = await self._http.post(
            topic, "sow_delete", {**selectors, "ack": "processed"}, body, _type_of(data)
        )
        self._note_effect(answer)
        return int(answer["records_deleted"])

    async def flush(self) -> None:
        """Wait until Kafka has everything that was published; raises `not written`."""
        self._http.check_open()
        await self._flush()

    async def _flush(self) -> None:
        if self._publisher is not None:
            # The thread goes on if this caller is cancelled: a failure that it raised would be lost, and the next
            # flush would report success (test_a_flush_that_is_given_up_takes_no_failure).
            flush = self._publisher.begin_flush()
            await asyncio.to_thread(flush.wait)
            flush.check()

    async def publisher(self, topic: str) -> Publisher:
        """Return the client's publisher; it knows this topic, unless the service doesn't.

        Created at first use. A topic that it doesn't know may have been defined since, so the service is asked again
        (test_a_connected_client_writes_to_a_new_topic).
        """
        if self._publisher is None or topic not in self._publisher:
            return await self._redefined_publisher()
        return self._publisher

    async def _redefined_publisher(self) -> Publisher:
        """Return the client's publisher, which knows the topics as they are now."""
        answer = await self._http.topics()
        # Another first write may have made it meanwhile: with a second one of the same id, commands of one would
        # count as repeats of the other's.
        if self._publisher is None:
            config = kafka_config(self._kafka or answer["kafka"], self._kafka_options)
            self._publisher = Publisher(config, topics_of(answer), publisher=self._publisher_id)
        else:
            self._publisher.redefine(topics_of(answer))
        return self._publisher

    async def _write(self, topic: str, write: Callable[[Publisher], None]) -> None:
        """Have the publisher write; if a record is too large, by the limit that the topic has now."""
        try:
            await self._write_once(self.publisher(topic), write)
        except SowlineError as error:
            if error.reason != "too large":
                raise
            # The limit may have been raised since the publisher read it: nothing was written yet, for the check comes
            # first (test_a_connected_client_writes_by_a_raised_limit).
            await self._write_once(self._redefined_publisher(), write)

    async def _write_once(self, publisher: Awaitable[Publisher], write: Callable[[Publisher], None]) -> None:
        # Looked at after the wait for the publisher: the client may have been closed meanwhile.
        writer = await publisher
        self._http.check_open()
        write(writer)


def _check_no_report(on_delivery: OnDelivery | None) -> None:
    if on_delivery is not None:
        raise SowlineError(
            "bad request",
            "expected wait or on_delivery, got both: a write that is waited for needs no report",
        )


def _type_of(data: Body | None) -> str:
    """Return the media type of a body; empty for JSON."""
    return NATIVE if isinstance(data, bytes) else ""


def _tagged(tagging: Tagging) -> dict[str, str]:
    """Return tags and change id as parameters of a request; empty if there are none."""
    return {"tags": joined_tags(tagging.get("tags", ())) or "", "change_id": tagging.get("change_id") or ""}


def _lay_over(effects: dict[str, Positions], bookmark: str) -> None:
    """Move the positions forward to those of a bookmark, where they are newer."""
    for log, positions in parse_bookmark(bookmark).items() if bookmark != EPOCH else ():
        known = effects.setdefault(log, {})
        for partition, position in positions.items():
            known[partition] = max(position, known.get(partition, position))


def _in_requests(bodies: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the records as the bodies of requests, one record per line."""
    lines: list[bytes] = []
    size = 0
    for body in bodies:
        # A line break in JSON always separates tokens, like a blank.
        line = body.replace(b"\n", b" ").replace(b"\r", b" ")
        if lines and (len(lines) == LINES_MAX or size + len(line) > LINES_BYTES_MAX):
            yield b"\n".join(lines)
            lines, size = [], 0
        lines.append(line)
        size += len(line) + 1
    if lines:
        yield b"\n".join(lines)


def _portions(keys: Sequence[str]) -> list[str]:
    """Return SOW keys as texts, none longer than fits into a URL; one empty text for no keys."""
    portions: list[list[str]] = [[]]
    size = 0
    for key in keys:
        length = len(quote(key, safe="")) + KEY_OVERHEAD
        if size + length > KEYS_BYTES_MAX and portions[-1]:
            portions.append([])
            size = 0
        portions[-1].append(key)
        size += length
    return [joined_keys(portion) for portion in portions]


def topics_of(answer: dict[str, Any]) -> DescribedTopics:
    """Return the definitions of topics that can be written, from a service's answer to `/v1/topics`."""
    topics = [topic for topic in answer["topics"] if not _has_hidden_schema(topic)]
    read = Topics.model_validate({"topics": [_definition_of(topic) for topic in topics]})
    views = [described.get("view") for described in topics]
    return DescribedTopics(tuple(map(_described, read.declared, views)))


def _described(topic: DeclaredTopic, view: Mapping[str, Any] | None) -> TopicDefinition:
    computed = (
        None if view is None else ComputedTopic.model_validate({"name": topic.name, "from": view["from"]})
    )
    return TopicDefinition.of(topic, computed)


def _has_hidden_schema(topic: Mapping[str, Any]) -> bool:
    # The schema is hidden from users who may not read all fields. They can't write this topic, and the others must
    # not fail with it (test_a_topic_with_a_hidden_schema_is_left_out).
    is_typed = topic["message_type"] != JSON
    return is_typed and topic["reader_schema"] is None and topic["message_format"] is None


def _definition_of(topic: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts of a topic's definition that decide how its commands are written."""
    typed: tuple[str, ...] = ()
    if topic["message_type"] != JSON:
        typed = ("message_format",) if topic["reader_schema"] is None else ("reader_schema", "framing")
    common = ("name", "message_type", "log", "partitions", "record_bytes_max", *typed)
    given = {name: topic[name] for name in common}
    if not topic["key"]:
        return given | {"sow": False}
    computed = {"preprocessing": topic["preprocessing"]} if topic["preprocessing"] else {}
    return given | {name: topic[name] for name in ("key", "key_domain", "documents")} | computed
