"""The examples of docs/message-formats.md: they are run against the codecs, and one over real services."""

from pathlib import Path
from typing import Any, NamedTuple

import bson
import msgspec
import orjson
import pytest
import yaml
from bson.codec_options import CodecOptions, DatetimeConversion
from markdown_it import MarkdownIt

from sowline.codecs.schema import MessagePayload
from sowline.config.topic_definition import TopicDefinition, define_topic
from tests.docs.pages import blocks_of
from tests.docs.reader import Reader, Running, system_of_pages
from tests.integration.services import ROOT

PAGE = "docs/message-formats.md"
TEST = "tests/docs/test_message_formats.py::test_the_example"
MILLISECONDS = 1_795_696_496_789
BSON_DATE: CodecOptions[dict[str, Any]] = CodecOptions(datetime_conversion=DatetimeConversion.DATETIME_MS)


class Section(NamedTuple):
    """The blocks of a section: its topic, and the others by their languages, in their order."""

    definition: TopicDefinition
    blocks: dict[str, list[str]]

    def read(self, message: bytes) -> Any:
        """Return the record of a message."""
        codec, reader = self.definition.codec, self.definition.reader
        assert codec is not None
        assert reader is not None
        return orjson.loads(codec.read(MessagePayload(message), reader))


def section(title: str) -> Section:
    """Return a section of the page."""
    tokens = MarkdownIt().parse((ROOT / PAGE).read_text())
    heads = [at for at, token in enumerate(tokens) if token.type == "heading_open" and token.tag == "h2"]
    (start,) = (at for at in heads if tokens[at + 1].content == title)
    end = next((at for at in heads if at > start), len(tokens))
    blocks: dict[str, list[str]] = {}
    for token in tokens[start:end]:
        if token.type == "fence":
            blocks.setdefault(token.info, []).append(token.content)
    ((topic,),) = (yaml.safe_load(text)["topics"] for text in blocks["yaml"])
    return Section(define_topic(**topic), blocks)


def test_fix() -> None:
    """A message with a group; the same in NVFIX."""
    found = section("FIX and NVFIX")
    (fix, nvfix), (record, other) = found.blocks[""], map(orjson.loads, found.blocks["json"])
    assert found.read(fix.strip().encode()) == record
    of_names = found.definition.declared.model_copy(update={"message_type": "nvfix"})
    assert (
        Section(define_topic(**of_names.model_dump(by_alias=True, exclude_unset=True)), {}).read(
            nvfix.strip().encode()
        )
        == other
    )


def test_xml() -> None:
    """A message with attributes, a list and a namespace, and one with mixed content."""
    found = section("XML")
    record, note = map(orjson.loads, found.blocks["json"])
    assert found.read(found.blocks["xml"][0].encode()) == record
    assert found.read(b"<Note>Buy <b>now</b>, please</Note>") == note


def test_messagepack() -> None:
    """As msgspec writes it; a timestamp is an extension."""
    found = section("MessagePack")
    at = msgspec.msgpack.Ext(-1, (789_000_000 << 34 | MILLISECONDS // 1000).to_bytes(8, "big"))
    given = {"symbol": "IBM", "price": 101.5, "at": at, "sig": b"\0\1"}
    assert found.read(msgspec.msgpack.encode(given)) == orjson.loads(found.blocks["json"][0])


def test_bson() -> None:
    """As pymongo writes it."""
    found = section("BSON")
    given = {"id": 7, "at": bson.DatetimeMS(MILLISECONDS), "amount": bson.Decimal128("12.30")}
    assert found.read(bson.encode(given, codec_options=BSON_DATE)) == orjson.loads(found.blocks["json"][0])


@pytest.mark.parametrize("type", ["composite-local", "composite-global"])
def test_composite(type: str) -> None:
    """The two parts of the page, under each type."""
    found = section("Composite messages")
    rows = [line for line in (ROOT / PAGE).read_text().splitlines() if line.startswith(f"| `{type}` | `{{")]
    definition = found.definition.declared.model_dump(by_alias=True, exclude_unset=True) | {
        "message_type": type
    }
    if type == "composite-global":
        definition["key"] = ["/id"]
    parts = (b'{"id": 1, "title": "a"}', b"PDF")
    message = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    record = Section(define_topic(**definition), {}).read(message)
    (row,) = rows
    assert record == orjson.loads(row.split("`")[3])


def test_the_example(kafka: str, tmp_path: Path) -> None:
    """What the page writes to a topic of FIX is read as it shows."""
    topics = next(block.text for block in blocks_of(PAGE) if block.language == "yaml")
    reading = tmp_path / "reading"
    reading.mkdir()
    with system_of_pages(kafka, tmp_path, yaml.safe_load(topics)["topics"]) as made:
        services = [made.service(module).start() for module in ("materializer", "query_service")]
        for service in services:
            service.wait_ready()
        Reader(PAGE, Running(made, services[1].url), reading, TEST).read()
