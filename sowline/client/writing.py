"""The writing methods of the asynchronous client: straight to Kafka, or through the service where it must answer."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Unpack
from urllib.parse import quote

import orjson

from sowline.client.http_api import HttpClient
from sowline.client.publisher import (
    Body,
    KeyedWriteOptions,
    Publisher,
    Tagging,
    WriteOptions,
    encode,
    read_stream,
)
from sowline.config.kafka_options import kafka_config
from sowline.config.topics import Topics
from sowline.protocol.command import joined_keys, joined_tags

KEYS_BYTES_MAX = 24 * 1024
"""The SOW keys in one request, percent-encoded: they go into its URL."""
KEY_OVERHEAD = 9
"""The quotes and the comma of one of them, percent-encoded."""

NDJSON = "application/x-ndjson"
POSTED = ("correlation", "expiration")
"""Metadata that goes with a delta as a parameter of its request."""


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

    async def publish(self, topic: str, data: Body, **writing: Unpack[KeyedWriteOptions]) -> None:
        """Insert the record, or replace it whole; `flush` waits until Kafka has it."""
        (await self.publisher()).publish(topic, data, **writing)

    async def delta_publish(self, topic: str, data: Body, **writing: Unpack[KeyedWriteOptions]) -> None:
        """Merge the fields into the record that the key fields in `data`, or the `key`, name."""
        (await self.publisher()).delta_publish(topic, data, **writing)

    async def delta(
        self, topic: str, key: str, delta: str, *, wait: bool = False, **writing: Unpack[WriteOptions]
    ) -> str | None:
        """Apply a delta to the document with this key text.

        With `wait` it goes to the service, behind what was published before, and what became of it is returned once
        the service has applied it: `applied`, `noop` or `condition_false`.
        """
        if wait:
            [outcome] = await self._post_deltas(topic, key, [delta], writing)
            return outcome
        (await self.publisher()).delta(topic, key, delta, **writing)
        return None

    async def deltas(
        self, topic: str, key: str, stream: str, *, wait: bool = False, **writing: Unpack[WriteOptions]
    ) -> list[str]:
        """Apply each delta of a stream to a document, in order; all are checked before one is written.

        With `wait` the outcome of each is returned, as by `delta`; without, nothing.
        """
        if wait:
            texts = [text.decode() for text in read_stream(stream, writing)]
            return await self._post_deltas(topic, key, texts, writing)
        (await self.publisher()).deltas(topic, key, stream, **writing)
        return []

    async def _post_deltas(
        self, topic: str, key: str, deltas: Sequence[str], writing: WriteOptions
    ) -> list[str]:
        """Have the service write deltas to a document; return what became of each."""
        await self.flush()
        given = {name: str(value) for name, value in writing.items() if name in POSTED and value is not None}
        own = {name: value for name, value in writing.items() if name not in POSTED and value}
        lines = [orjson.dumps({"key": key, "delta": delta, **own}) for delta in deltas]
        answer = await self._http.post(
            topic, "delta", {**given, "ack": "processed"}, b"\n".join(lines), NDJSON
        )
        return list(answer["each"])

    async def sow_delete(
        self,
        topic: str,
        *,
        filter: str | None = None,
        keys: Sequence[str] | None = None,
        data: Body | None = None,
        key: str | None = None,
        **tagging: Unpack[Tagging],
    ) -> int:
        """Delete the records that a filter (`1=1`: every one), SOW keys or `data` select; exactly one of them.

        On a topic whose keys publishers give, a `key` names the record, and `data` may come with it. What was
        published before comes before it. Returns how many records are gone, once the service has
        applied it; the topic may be a pattern.
        """
        await self.flush()
        tags, change_id = joined_tags(tagging.get("tags", ())), tagging.get("change_id")
        tagged = {"tags": tags or "", "change_id": change_id or ""}
        if keys is not None and not (filter or data or key):
            posts = [self._post_delete(topic, {"keys": part, **tagged}) for part in _portions(keys)]
            return sum([await post for post in posts])
        selected = {"filter": filter or "", "keys": joined_keys(keys or ()), "sow_key": key or "", **tagged}
        return await self._post_delete(topic, selected, None if data is None else encode(data))

    async def _post_delete(self, topic: str, given: Mapping[str, str], body: bytes | None = None) -> int:
        selectors = {name: text for name, text in given.items() if text}
        answer = await self._http.post(topic, "sow_delete", {**selectors, "ack": "processed"}, body)
        return int(answer["records_deleted"])

    async def flush(self) -> None:
        """Wait until Kafka has everything that was published; raises `not written`."""
        if self._publisher is not None:
            await asyncio.to_thread(self._publisher.flush)

    async def publisher(self) -> Publisher:
        """Return the client's publisher, made from the service's answer about its topics at first use."""
        if self._publisher is None:
            answer = await self._http.topics()
            config = kafka_config(self._kafka or answer["kafka"], self._kafka_options)
            self._publisher = Publisher(config, topics_of(answer), publisher=self._publisher_id)
        return self._publisher


def _portions(keys: Sequence[str]) -> list[str]:
    """Return SOW keys as texts, none longer than fits a URL; no keys as one that is empty."""
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


def topics_of(answer: dict[str, Any]) -> Topics:
    """Return the definitions that a service's answer to `/v1/topics` describes."""
    return Topics.model_validate({"topics": [_definition_of(topic) for topic in answer["topics"]]})


def _definition_of(topic: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of a topic's definition decides how its commands are written."""
    given = {name: topic[name] for name in ("name", "message_type", "log", "partitions", "record_bytes_max")}
    if not topic["key"]:
        return given | {"sow": False}
    computed = {"preprocessing": topic["preprocessing"]} if topic["preprocessing"] else {}
    return given | {name: topic[name] for name in ("key", "key_domain", "documents")} | computed
