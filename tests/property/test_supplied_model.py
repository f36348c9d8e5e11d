"""Keys that publishers or generators give, in the pure core against a perfect model: whatever the keys are."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar
from unittest.mock import patch

from hypothesis import strategies as st
from hypothesis.stateful import rule

from sowline.commands.command import Headers, LogRecord
from sowline.commands.key_generator import Appended
from sowline.model.key import partition_of
from tests.examples import examples
from tests.property.core_writes import bodies, encoded, ids, numbers, text_of
from tests.property.keys import NO_KEYS, header_keys, kafka_keys
from tests.property.model import Body, PartitionModel, Refused
from tests.property.supplied_model import SuppliedModel, checked
from tests.property.test_core_model import CoreAgainstModel

TEXTS = ("1", "2", "ü", "true")
"""The texts of all ids."""


@dataclass
class HeaderModel(SuppliedModel):
    """The perfect model of a topic whose records are named by the header `sow.key`."""

    headers_known: ClassVar[frozenset[str]] = PartitionModel.headers_known | {"key"}

    def _command(self, headers: dict[str, str]) -> str:
        key = headers.get("sow.key", "x")
        if not (key.isascii() and key.translate({ord(c): "x" for c in "+/=-_"}).isalnum() and len(key) < 256):
            raise Refused("bad header")
        if "sow.key" in headers and ("sow.filter" in headers or "sow.keys" in headers):
            raise Refused("bad header")
        return super()._command(headers)

    def _key(self, record: LogRecord) -> str:
        return checked((dict(record.headers or []).get("sow.key") or b"").decode())

    def _named(self, record: LogRecord) -> str:
        given = dict(record.headers or []).get("sow.key")
        return given.decode() if given else super()._named(record)


class SuppliedAgainstModel(CoreAgainstModel):
    """As with key fields; the keys have nothing to do with the bodies."""

    defined: ClassVar[dict[str, Any]] = {"key": {"from": "kafka_key"}}
    model: ClassVar[type[PartitionModel]] = SuppliedModel
    keys: ClassVar[st.SearchStrategy[str]] = kafka_keys

    def _choose_keys(self, data: st.DataObject) -> None:
        chosen = data.draw(st.lists(self.keys, min_size=len(TEXTS), max_size=len(TEXTS), unique=True))
        self.chosen = dict(zip(TEXTS, chosen, strict=True))

    def key_of(self, id: Any) -> str:
        """Return the key that stands for an id."""
        return self.chosen[text_of(id)]

    def sow_key(self, key: str) -> bytes:
        """A key that was given is the SOW key."""
        return key.encode()

    @rule(key=ids, body=bodies, slot=st.none() | numbers)
    def write_another_body(self, key: Any, body: Body, slot: int | None) -> None:
        """Publish a body whose fields say nothing of the key, or none at all."""
        body = {name: value for name, value in body.items() if name != "id"}
        self._write(self.key_of(key), encoded(body), [], None, slot)

    @rule(key=st.sampled_from(NO_KEYS), gone=st.booleans(), slot=numbers)
    def write_no_key(self, key: str, gone: bool, slot: int) -> None:
        """Write with a text that is no key."""
        self._write(key, None if gone else b'{"id":1}', [], None, slot)

    @rule(key=st.sampled_from([b"\xff", b"\xc3", b"\xed\xa0\x80"]), slot=numbers)
    def write_no_text(self, key: bytes, slot: int) -> None:
        """Write with a Kafka key that is not UTF-8."""
        self.world.write(slot % self.partitions, b'{"id":1}', key, [])


class HeaderAgainstModel(SuppliedAgainstModel):
    """Keys in the header; the Kafka key is another one, or none."""

    defined: ClassVar[dict[str, Any]] = {"key": {"from": "header"}}
    model: ClassVar[type[PartitionModel]] = HeaderModel
    keys: ClassVar[st.SearchStrategy[str]] = header_keys
    writes = 0

    def _write(
        self,
        key: str | None,
        value: bytes | None,
        headers: Headers,
        number: tuple[str, str] | None,
        misplaced: int | None,
    ) -> None:
        self.writes += 1
        is_owners = any(header == ("sow.command", b"expire") for header in headers)
        if key is None or is_owners or (value is None and self.writes % 2):
            super()._write(key, value, headers, number, misplaced)
            return
        partition = partition_of(key, self.partitions) if misplaced is None else misplaced
        headers = [*headers, ("sow.key", key.encode())]
        super()._write(("k", None)[self.writes % 2], value, headers, number, partition)


class ById:
    """A generator of keys that also tell when and where a message was appended."""

    version = "1"
    uses_append = True

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._bookmark_range = int(options["span"])

    def key(self, record: dict[str, Any], appended: Appended | None) -> str:
        """Return the id, the span of time and the partition."""
        assert appended is not None
        return f"{text_of(record['id'])}/{appended.time // self._bookmark_range}/{appended.partition % 2}"


@dataclass
class GeneratedModel(SuppliedModel):
    """The perfect model of a topic whose keys the generator above makes."""

    def _key(self, record: LogRecord) -> str:
        headers = {name: (value or b"").decode() for name, value in record.headers or []}
        time, partition = self.time, self.number
        if "sow.origin_time" in headers:
            time = int(headers["sow.origin_time"])
            partition = int(headers["sow.origin"].rpartition(":")[2].partition("@")[0])
        body = self._body(record.value or b"")
        if "id" not in body:
            raise Refused("key generator failed")
        return checked(f"{text_of(body['id'])}/{time // 40}/{partition % 2}")


class GeneratedAgainstModel(SuppliedAgainstModel):
    """Keys that depend on when and where a message was first appended: those of a forwarded copy stay the same."""

    defined: ClassVar[dict[str, Any]] = {"key": {"generator": "by-id", "options": {"span": "40"}}}
    model: ClassVar[type[PartitionModel]] = GeneratedModel

    def _choose_keys(self, data: st.DataObject) -> None:
        self.stack.enter_context(
            patch("sowline.commands.key_rule.load_generator", lambda name, options: ById(options))
        )

    def key_of(self, id: Any) -> str:
        """Return a key that the generator may have made."""
        return f"{text_of(id)}/{self.world.time // 40}/0"


for kind in (SuppliedAgainstModel, HeaderAgainstModel, GeneratedAgainstModel):
    kind.TestCase.settings = examples(120, stateful_step_count=40)
TestSuppliedAgainstModel = SuppliedAgainstModel.TestCase
TestHeaderAgainstModel = HeaderAgainstModel.TestCase
TestGeneratedAgainstModel = GeneratedAgainstModel.TestCase
