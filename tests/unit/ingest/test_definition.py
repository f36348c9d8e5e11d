"""The file of a pipeline: what it may say, what is filled in, and where it is wrong."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from sowline.errors import SowlineError
from sowline_ingest.definition import Statement, load_pipeline, open_pipeline
from tests.unit.ingest.definitions import LEAST, WHOLE, read, with_source, wrong


def test_a_pipeline_needs_a_source_a_key_and_a_checkpoint(tmp_path: Path) -> None:
    """All else has a default: rows are published as they come."""
    pipeline = read(LEAST, tmp_path)
    assert (pipeline.log_topic, pipeline.dead_topic) == ("orders", "orders.dead")
    assert (pipeline.transforms, pipeline.checks, pipeline.tables) == ((), (), {})
    assert (pipeline.command, pipeline.command_expression, pipeline.rows_per_second) == (None, None, None)
    assert list(pipeline.statements()) == [Statement(("sources", "raw", "schema"), "schema", "id BIGINT")]


def test_everything_that_a_file_may_say(tmp_path: Path) -> None:
    """Each field is read as what it means."""
    pipeline = read(WHOLE, tmp_path, DROPS="/drops")
    assert (pipeline.log_topic, pipeline.dead_topic) == ("orders.v1", "orders.v1.dead")
    drops = pipeline.sources["drops"]
    assert (drops.directory, drops.header, drops.ddl) == ("/drops/orders", True, "id BIGINT")
    assert [step.columns for step in pipeline.transforms][1] == {"total": "qty * price", "one": "1"}
    assert pipeline.transforms[3].drop == ("secret",)
    assert [check.message for check in pipeline.checks] == ["a quantity is above zero", "total > 0"]
    assert (pipeline.key, pipeline.expiration, pipeline.rows_per_second) == (("id",), "60", 20000.0)
    assert pipeline.command == pipeline.command_expression
    assert pipeline.checkpoint == "var/orders"


def test_options_are_the_texts_that_stand_there(tmp_path: Path) -> None:
    """A number keeps its zeros, and NO is no truth value."""
    pipeline = read(WHOLE, tmp_path, DROPS="/drops")
    assert pipeline.sources["raw"].options == {"maxOffsetsPerTrigger": "1000"}
    assert pipeline.sources["drops"].options == {"nullValue": "NO"}
    assert pipeline.kafka_options == {"security.protocol": "SASL_SSL", "max.block.ms": "007"}


def test_every_text_for_sql_is_named_with_its_location(tmp_path: Path) -> None:
    """Anyone who parses them can say where they stand."""
    found = [(one.location, one.kind) for one in read(WHOLE, tmp_path, DROPS="d").statements()]
    assert found == [
        (("sources", "raw", "schema"), "schema"),
        (("sources", "drops", "schema"), "schema"),
        (("tables", "regions", "schema"), "schema"),
        (("transforms", 0, "select"), "query"),
        (("transforms", 1, "columns", "total"), "expression"),
        (("transforms", 1, "columns", "one"), "expression"),
        (("transforms", 2, "where"), "expression"),
        (("checks", 0, "expect"), "expression"),
        (("checks", 1, "expect"), "expression"),
        (("command",), "expression"),
        (("body",), "expression"),
        (("expiration",), "expression"),
        (("correlation",), "expression"),
    ]


def test_a_line_of_a_text_that_keeps_its_lines_is_known(tmp_path: Path) -> None:
    """What is wrong in the second line of a query is in that line of the file; else in the line it begins in."""
    (tmp_path / "my.yaml").write_text(WHOLE)
    declaration = open_pipeline(tmp_path / "my.yaml", {})
    assert declaration.problem(("transforms", 0, "select"), "so", line=2).line == 13
    assert declaration.problem(("transforms", 2, "where"), "so", line=2).line == 15


@pytest.mark.parametrize("command", ["publish", "delta_publish", "delta", "sow_delete"])
def test_a_command_for_all_rows(command: str, tmp_path: Path) -> None:
    """One of the four words is no expression."""
    pipeline = read(f"{LEAST}command: {command}\n", tmp_path)
    assert (pipeline.command, pipeline.command_expression) == (command, None)


@pytest.mark.parametrize("command", ["'publish'", "`op`", "if(gone, 'sow_delete', 'publish')", "r.op"])
def test_a_command_for_each_row(command: str, tmp_path: Path) -> None:
    """Anything else is an expression, also a column in backticks."""
    assert read(f'{LEAST}command: "{command}"\n', tmp_path).command_expression == command


@pytest.mark.parametrize("command", ["upsert", "sow-delete", "Publish", "\"'insert'\""])
def test_a_word_that_is_no_command_is_refused(command: str, tmp_path: Path) -> None:
    """A slip would be taken for a column, so it is told with what was expected."""
    (message,) = wrong(f"{LEAST}command: {command}\n", tmp_path)
    assert message.startswith("line 7: command: expected publish, delta_publish, delta, sow_delete or")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: name: expected this field, got nothing"),
        ("- a\n", "line 1: file: expected a mapping of fields to values"),
        (LEAST + "color: red\n", "line 7: color: expected a known field"),
        (LEAST + "name: other\n", "line 7: name: is defined twice, in line 1 and in line 7"),
        (LEAST.replace("name: orders", "name: a b"), "line 1: name: expected a name of up to 100"),
        (LEAST.replace("name: orders", f"name: {'a' * 101}"), "line 1: name: expected a name of up to 100"),
        (LEAST.replace("topic: orders", "topic: a:b"), "line 2: topic: expected a name of up to 200"),
        (LEAST + "log: a/b\n", "line 7: log: expected a Kafka topic"),
        (LEAST.replace("raw:", "rows:"), "line 4: sources.rows: expected a name of letters"),
        (LEAST.replace("raw:", "r-1:"), "line 4: sources.r-1: expected a name of letters"),
        (LEAST.replace("[id]", "[]"), "line 5: key: "),
        (LEAST.replace("[id]", "[id, id]"), "line 5: key: expected different columns, got 'id' twice"),
        (LEAST.replace("[id]", '[id, ""]'), "line 5: key.1: "),
        (LEAST.replace("checkpoint: var/orders", "checkpoint:"), "line 6: checkpoint: "),
        (LEAST + "body: ''\n", "line 7: body: "),
        (LEAST + "rows_per_second: 0\n", "line 7: rows_per_second: expected a number greater than 0"),
        (LEAST + "rows_per_second: fast\n", "got 'fast'"),
        (LEAST + "rows_per_second: inf\n", "line 7: rows_per_second: "),
        (
            LEAST + "tables:\n  Raw: {directory: d, format: parquet}\n",
            "line 7: tables: expected a name that no",
        ),
        (
            LEAST + "tables:\n  t: {directory: d, format: debezium, schema: a INT}\n",
            "line 8: tables.t.format: ",
        ),
        (
            LEAST + "tables:\n  t: {format: parquet}\n",
            "line 8: tables.t.directory: expected this field, got nothing",
        ),
        (
            LEAST + "tables:\n  t: {directory: d, format: csv}\n",
            "line 8: tables.t.schema: expected the columns",
        ),
        (LEAST + "transforms: [{}]\n", "transforms.0: expected exactly one of columns or where or drop or"),
        (LEAST + "transforms:\n- where: a\n  drop: [b]\n", "line 8: transforms.0: expected exactly one of"),
        (LEAST + "transforms:\n- columns: {}\n", "line 8: transforms.0.columns: "),
        (LEAST + "transforms:\n- drop: []\n", "line 8: transforms.0.drop: "),
        (LEAST + "transforms:\n- columns: {_Source: 1}\n", "expected a column other than _source"),
        (
            LEAST + "transforms:\n- drop: [a, _source]\n",
            "line 8: transforms.0.drop.1: expected a column other than",
        ),
        (LEAST + "checks:\n- message: so\n", "line 8: checks.0.expect: expected this field, got nothing"),
        (LEAST + "kafka_options: {bootstrap.servers: h}\n", "the pipeline does not set itself"),
        (LEAST + "kafka_options: {kafka.acks: all}\n", "expected acks, without kafka., got kafka.acks"),
        (LEAST + "kafka_options: {a: [b]}\n", "line 7: kafka_options.a: expected a text"),
    ],
)
def test_an_error_names_line_location_and_reason(text: str, message: str, tmp_path: Path) -> None:
    """The author of the file is led to the location."""
    assert message in wrong(text, tmp_path)[0]


def test_all_problems_are_reported_at_once_in_the_order_of_their_lines(tmp_path: Path) -> None:
    """Of values, of repeated names and of variables."""
    text = LEAST.replace("[id]", "[]") + 'colour: red\nbody: "${NOWHERE}"\ntopic: x\n'
    lines = [message.split(":")[0] for message in wrong(text, tmp_path)]
    assert lines == ["line 5", "line 7", "line 8", "line 9"]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("${HERE}/x", "there/x"),
        ("${HERE:-other}", "there"),
        ("${NOWHERE:-other}", "other"),
        ("${NOWHERE:-}x", "x"),
        ("${EMPTY:-other}", "other"),
        ("${EMPTY}x", "x"),
        ("a$$b$${HERE}", "a$b${HERE}"),
        ("get_json_object(a, '$.b') rlike '^c$'", "get_json_object(a, '$.b') rlike '^c$'"),
        ("${HERE}${HERE}", "therethere"),
    ],
)
def test_variables_are_replaced(written: str, value: str, tmp_path: Path) -> None:
    """By what the environment has, or by the default where that is unset or empty; two $ are one."""
    pipeline = read(f'{LEAST}body: "{written}"\n', tmp_path, HERE="there", EMPTY="")
    assert pipeline.body == value


def test_a_value_that_is_used_again_is_replaced_once(tmp_path: Path) -> None:
    """What an alias names is the value as it was read."""
    pipeline = read(f'{LEAST}body: &b "$$$${{A}}"\nexpiration: *b\n', tmp_path, A="a")
    assert (pipeline.body, pipeline.expiration) == ("$${A}", "$${A}")


def test_what_the_environment_says_is_checked_like_the_rest(tmp_path: Path) -> None:
    """A number may come from there, and the error for a wrong one names its line."""
    text = f"{LEAST}rows_per_second: ${{RATE}}\n"
    assert read(text, tmp_path, RATE="10").rows_per_second == 10
    assert wrong(text, tmp_path, RATE="ten")[0].startswith("line 7: rows_per_second: ")


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("${NOWHERE}", "expected the environment variable NOWHERE, which is not set"),
        ("${1}", "expected ${NAME} or ${NAME:-default}"),
        ("${A", "expected ${NAME} or ${NAME:-default}"),
    ],
)
def test_a_variable_that_is_not_there_is_reported_once(written: str, message: str, tmp_path: Path) -> None:
    """With the line, and without what else would be wrong with a value that nobody has given."""
    (problem,) = wrong(f'{LEAST}rows_per_second: "{written}"\n', tmp_path)
    assert problem.startswith(f"line 7: rows_per_second: {message}")


def test_fields_may_be_shared_by_a_merge(tmp_path: Path) -> None:
    """YAML's own ways to say a thing once work."""
    text = with_source("&r {kafka: a, format: json, schema: id INT}\n  two: {<<: *r, kafka: b}")
    pipeline = read(text + "transforms: [{select: SELECT 1}]\n", tmp_path)
    assert [source.kafka for source in pipeline.sources.values()] == ["a", "b"]


@pytest.mark.parametrize(
    "text", ["name: [", "a: b: c", "\t", "a: 1\n---\nb: 2\n", "? [a]\n: b\n", "a: !!timestamp 7"]
)
def test_what_is_no_yaml_is_reported_as_none(text: str, tmp_path: Path) -> None:
    """A slip in the YAML has a line, too."""
    (message,) = wrong(text, tmp_path)
    assert ": file: expected valid YAML: " in message


def test_a_missing_file_is_reported_as_missing(tmp_path: Path) -> None:
    """The error names the file that was expected."""
    with pytest.raises(SowlineError, match="expected the file of a pipeline at") as error:
        load_pipeline(tmp_path / "none.yaml", {})
    assert error.value.reason == "bad configuration"


def test_a_pipeline_does_not_change(tmp_path: Path) -> None:
    """What was read is what counts."""
    pipeline: Any = read(LEAST, tmp_path)
    with pytest.raises(ValidationError):
        pipeline.name = "other"
