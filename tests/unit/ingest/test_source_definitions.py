"""The sources of a pipeline in its file: what they may be, and what is refused."""

from pathlib import Path

import pytest

from sowline.codecs.schema import Schema
from tests.unit.ingest.definitions import LEAST, WHOLE, read, with_source, wrong


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("{format: json, schema: a INT}", "raw: expected either kafka or directory, got none of the two"),
        ("{kafka: k, directory: d, format: json, schema: a INT}", "got both"),
        (
            "{kafka: k, format: csv, schema: a INT}",
            (
                "expected json or debezium or avro or protobuf or json-schema or fix or nvfix or xml or msgpack or"
                " bson or binary or composite-local or composite-global as the format of a Kafka topic"
            ),
        ),
        ("{directory: d, format: debezium, schema: a INT}", "expected json or csv or parquet as the format"),
        ("{kafka: k, format: orc, schema: a INT}", "raw.format: expected 'json', 'csv', 'parquet'"),
        ("{directory: d, format: xml, schema: a INT}", "expected json or csv or parquet as the format"),
        ("{kafka: k/l, format: json, schema: a INT}", "raw.kafka: expected a Kafka topic"),
        ("{kafka: k, format: json}", "raw.schema: expected the columns of json as DDL, got nothing"),
        ("{kafka: k, format: debezium}", "raw.schema: expected the columns of debezium as DDL, got nothing"),
        (
            "{directory: d, format: json, schema: a INT, header: true}",
            "raw.header: expected this option only for csv",
        ),
        ("{directory: d, format: csv, schema: a INT, header: maybe}", "raw.header: "),
        (
            "{directory: d, format: parquet, options: {PATH: x}}",
            "raw.options: expected directory in place of",
        ),
        (
            "{directory: d, format: csv, schema: a INT, options: {lineSep: x}}",
            "raw.options: expected lines that end with LF or CR LF in place of the option lineSep",
        ),
        (
            "{directory: d, format: json, schema: a INT, options: {Encoding: cp1252}}",
            "raw.options: expected UTF-8 or ISO-8859-1 as the encoding, got cp1252: convert the files first",
        ),
        (
            "{kafka: k, format: json, schema: a INT, unavailable_value_placeholder: x}",
            "expected unavailable_value_placeholder only for debezium, but json is not",
        ),
        (
            "{kafka: k, format: debezium, schema: a INT, unavailable_value_placeholder: 'hex:0'}",
            "expected pairs of hexadecimal digits after hex:, got hex:0",
        ),
        (
            "{kafka: k, format: json, schema: a INT, options: {subscribe: x}}",
            "expected kafka in place of the",
        ),
        (
            "{directory: d, format: csv, schema: a INT, options: {header: true}}",
            "expected header in place of",
        ),
        ("{kafka: k, format: json, schema: a INT, options: {kafka.bootstrap.servers: h}}", "SOWLINE_KAFKA"),
        ("{directory: d, format: json, schema: a INT, options: {wholetext: true}}", "the pipeline sets it"),
        ("{kafka: k, format: json, schema: a INT, options: {includeHeaders: true}}", "the pipeline sets it"),
        ("{kafka: k, format: json, ddl: a INT}", "raw.ddl: expected a known field"),
        (
            "{kafka: k, format: json, schema: a INT, framing: none}",
            "expected avro or protobuf or json-schema as the format with framing",
        ),
        (
            "{kafka: k, format: avro, subject: s, schema: a INT}",
            "raw.schema: expected no columns of avro as DDL",
        ),
        ("{kafka: k, format: avro}", "expected either reader_schema or subject with avro, got none of"),
        (
            "{kafka: k, format: protobuf, subject: s, reader_schema: {text: x}}",
            "expected either reader_schema or subject with protobuf, got both",
        ),
        ("{kafka: k, format: avro, reader_schema: {file: none.avsc}}", "a schema in the file none.avsc"),
        ("{directory: d, format: avro, subject: s}", "json or csv or parquet as the format of a directory"),
        ("{kafka: k, format: fix}", "raw.schema: expected the columns of fix as DDL, got nothing"),
        (
            "{kafka: k, format: fix, schema: a INT, framing: none}",
            "expected avro or protobuf or json-schema as the format with framing",
        ),
        (
            "{kafka: k, format: json, schema: a INT, message_format: {}}",
            "or composite-global as the format with message_format, got json",
        ),
        (
            "{kafka: k, format: bson, schema: a INT, message_format: {separator: '|'}}",
            "expected no options with message type bson, got separator",
        ),
        (
            "{kafka: k, format: composite-local, schema: a INT}",
            "expected parts with message type composite-local, got none",
        ),
    ],
)
def test_a_source_is_refused_what_it_can_not_be(source: str, message: str, tmp_path: Path) -> None:
    """A topic or a directory, in a format that it can have, with the options that are left to the user."""
    found = wrong(with_source(source), tmp_path)
    assert all(one.startswith("line 4: sources.raw") for one in found)
    assert any(message in one for one in found)


@pytest.mark.parametrize(
    "source",
    [
        "{kafka: k, format: json, schema: a INT, options: {failOnDataLoss: false, kafka.security.protocol: SSL}}",
        "{kafka: k, format: debezium, schema: a INT}",
        "{directory: d, format: parquet}",
        "{directory: d, format: parquet, schema: a INT}",
        "{directory: d, format: csv, schema: a INT, header: yes}",
        "{directory: d, format: json, schema: a INT, options: {maxFilesPerTrigger: 1}}",
    ],
)
def test_what_a_source_may_be(source: str, tmp_path: Path) -> None:
    """Every format where it can be, and all options that the pipeline does not need itself."""
    assert list(read(with_source(source), tmp_path).sources) == ["raw"]


@pytest.mark.parametrize("transforms", ["", "transforms:\n- where: a\n- select: SELECT 1\n"])
def test_several_sources_are_brought_together_first(transforms: str, tmp_path: Path) -> None:
    """Without a select it would not be said which rows are meant."""
    two = LEAST.replace("key:", "  b: {directory: d, format: parquet}\nkey:") + transforms
    (message,) = wrong(two, tmp_path)
    assert (
        "transforms: expected a select first, which makes the rows of raw and b those of one table" in message
    )
    assert len(read(WHOLE, tmp_path, DROPS="d").sources) == 2


def test_a_source_of_messages_with_schemas(tmp_path: Path) -> None:
    """The reader schema is in a file beside the pipeline's, or in a registry, which frames need in any case."""
    (tmp_path / "order.avsc").write_text('"string"')
    fields = "kafka: k, format: avro"
    of_file = f"{{{fields}, framing: none, reader_schema: {{file: order.avsc}}}}"
    source = read(with_source(of_file), tmp_path).sources["raw"]
    assert source.reader_schema is not None
    assert source.reader_schema.schema_of("avro") == Schema("avro", '"string"')
    assert (source.message_type, source.needs_registry) == ("avro", False)
    framed = read(with_source(of_file.replace("none", "apicurio")), tmp_path)
    of_subject = read(with_source(f"{{{fields}, framing: none, subject: orders-value}}"), tmp_path)
    assert framed.sources["raw"].needs_registry
    assert of_subject.sources["raw"].needs_registry
    assert list(of_subject.statements()) == []


def test_a_source_of_messages_without_schemas(tmp_path: Path) -> None:
    """It has the options of its format, and its columns as DDL: no schema names them."""
    fields = "kafka: k, schema: '`55` STRING, `453` ARRAY<STRUCT<`448`: STRING>>'"
    options = "{separator: '|', groups: {453: [448, 447]}}"
    declared = with_source(f"{{{fields}, format: nvfix, message_format: {options}}}")
    source = read(declared, tmp_path).sources["raw"]
    assert source.format_options == Schema("nvfix", '{"groups":{"453":["448","447"]},"separator":"|"}')
    assert (source.message_type, source.needs_registry) == (None, False)
    assert [one.kind for one in read(declared, tmp_path).statements()] == ["schema"]
    plain = read(with_source(f"{{{fields}, format: msgpack}}"), tmp_path).sources["raw"]
    assert plain.format_options == Schema("msgpack", "{}")
    part = "{type: fix, format: {names: {55: Symbol}}}"
    of_parts = f"{{{fields}, format: composite-global, message_format: {{parts: [{part}]}}}}"
    assert read(with_source(of_parts), tmp_path).sources["raw"].format_options == Schema(
        "composite-global", '{"parts":[{"format":{"names":{"55":"Symbol"}},"type":"fix"}]}'
    )
    assert (
        read(with_source("{kafka: k, format: json, schema: a INT}"), tmp_path).sources["raw"].format_options
        is None
    )
