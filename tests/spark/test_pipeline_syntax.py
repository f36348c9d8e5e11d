"""The SQL of a pipeline's file, looked at by Spark's parser before there is a session."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sowline.config.yaml_file import YamlFileError
from sowline_ingest.syntax import checked_pipeline, spark_jvm
from tests.docs.pages import blocks_of
from tests.unit.ingest.definitions import LEAST

FIRST_THE_FILE = """\
import json, sys
from pathlib import Path
from sowline_ingest.definition import Pipeline, open_pipeline
from sowline_ingest.syntax import syntax_problems
from sowline.spark.session import spark_session, spark_settings

CONF = {"spark.driver.memory": "600m"}
declaration = open_pipeline(Path(sys.argv[1]), {})
problems = syntax_problems(declaration.read(Pipeline), declaration, spark_settings(CONF))
lines = [problem.line for problem in problems]
session = spark_session("after", CONF | {"spark.sql.shuffle.partitions": "3"})
bytes_max = session.sparkContext._jvm.java.lang.Runtime.getRuntime().maxMemory()
shuffle = session.conf.get("spark.sql.shuffle.partitions")
print(json.dumps([lines, bytes_max >> 20, shuffle]))
"""


def wrong(text: str, path: Path) -> list[str]:
    """Return what is wrong with the SQL of a file that has this text."""
    (path / "my.yaml").write_text(text)
    with pytest.raises(YamlFileError) as error:
        checked_pipeline(path / "my.yaml", {})
    return [str(one).removeprefix(f"{path}/my.yaml, ") for one in error.value.problems]


@pytest.mark.parametrize(
    ("added", "messages"),
    [
        (
            "body: qty *",
            "line 7: body: expected a Spark SQL expression: syntax error at or near end of input",
        ),
        ("body: qty *", "(column 6)"),
        (
            "body: cast(a AS foo)",
            'body: expected a Spark SQL expression: unsupported data type "FOO" (column 11)',
        ),
        ("body: qty price", "expected a Spark SQL expression: got one with its own name after it"),
        ("body: '*'", "expected a Spark SQL expression: got *"),
        ("body: r.*", "expected a Spark SQL expression: got *"),
        ("body: a /* so", "found an unclosed bracketed comment"),
        ("body: SELECT 1", "syntax error at or near '1'"),
        ("expiration: 60 60", "line 7: expiration: expected a Spark SQL expression"),
        ("correlation: a b c", "line 7: correlation: expected a Spark SQL expression"),
        ("command: CASE WHEN x", "line 7: command: expected a Spark SQL expression"),
        ("checks: [{expect: qty >}]", "line 7: checks.0.expect: expected a Spark SQL expression"),
        ("transforms:\n- where: (a", "line 8: transforms.0.where: expected a Spark SQL expression"),
        (
            "transforms:\n- columns: {b: a}\n- columns:\n    b: a\n    c: a +",
            "line 11: transforms.1.columns.c: ",
        ),
        (
            "transforms:\n- select: DROP TABLE x",
            "line 8: transforms.0.select: expected one query, such as SELECT",
        ),
        ("transforms:\n- select: DROP TABLE x", "syntax error at or near 'DROP' (column 1)"),
        ("transforms:\n- select: INSERT INTO x SELECT 1", "expected one query, such as SELECT"),
        ("transforms:\n- select: WITH a AS (SELECT 1) INSERT INTO b SELECT * FROM a", "near 'INSERT'"),
        ("transforms:\n- select: SELECT 1; SELECT 2", "expected one query, such as SELECT"),
        (
            "transforms:\n- select: |\n    SELECT a\n    FROM b c d\n",
            "line 10: transforms.0.select: expected one",
        ),
        (
            "transforms:\n- select: |\n\n    SELECT a\n    FROM b c d\n",
            "line 11: transforms.0.select: expected",
        ),
        (
            "tables:\n  t: {directory: d, format: csv, schema: a}",
            "line 8: tables.t.schema: expected columns as DDL",
        ),
        ("tables:\n  t: {directory: d, format: csv, schema: a IT}", 'unsupported data type "IT"'),
        ("tables:\n  t: {directory: d, format: csv, schema: 'a INT, A INT'}", "got A twice"),
        ("tables:\n  t: {directory: d, format: csv, schema: _source INT}", "by which rows are known again"),
    ],
)
@pytest.mark.usefixtures("spark")
def test_sql_that_does_not_parse_is_reported_with_its_line(added: str, messages: str, tmp_path: Path) -> None:
    """By the parser's own sentence, in one line, without its codes."""
    (problem,) = wrong(f"{LEAST}{added}\n", tmp_path)
    assert messages in problem
    assert "SQLSTATE" not in problem
    assert "\n" not in problem


@pytest.mark.usefixtures("spark")
def test_all_problems_are_reported_at_once(tmp_path: Path) -> None:
    """One for each text that does not parse, in the order of their lines."""
    text = f"{LEAST}body: a b c\nchecks: [{{expect: a >}}]\ncommand: lower(\n".replace(
        "id BIGINT", "id BIGNT"
    )
    assert [messages.split(":")[0] for messages in wrong(text, tmp_path)] == [
        "line 4",
        "line 7",
        "line 8",
        "line 9",
    ]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT *, count(*) OVER (PARTITION BY a) AS n FROM rows",
        "WITH a AS (SELECT 1) SELECT * FROM a",
        "VALUES (1, 2)",
        "FROM rows SELECT a",
        "TABLE rows",
        "(SELECT a FROM rows) UNION ALL SELECT b FROM t",
        "SELECT /*+ BROADCAST(t) */ * FROM rows -- so\n    JOIN t USING (a)",
    ],
)
@pytest.mark.usefixtures("spark")
def test_every_form_of_a_query_will_do(query: str, tmp_path: Path) -> None:
    """Whatever Spark takes for one."""
    (tmp_path / "my.yaml").write_text(f"{LEAST}transforms:\n- select: |\n    {query}\n")
    assert checked_pipeline(tmp_path / "my.yaml", {}).name == "orders"


def test_a_session_that_is_there_has_the_parser(spark: SparkSession) -> None:
    """No second JVM is started."""
    assert spark_jvm({"spark.driver.memory": "600m"}) is spark.sparkContext._jvm


def test_a_session_after_the_parser_is_in_its_jvm(tmp_path: Path) -> None:
    """What counts from the start of a JVM was said to the parser; all else is the session's."""
    (tmp_path / "my.yaml").write_text(f"{LEAST}body: a b c\n")
    command = [sys.executable, "-c", FIRST_THE_FILE, str(tmp_path / "my.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    lines, heap_mebibytes, shuffle = json.loads(done.stdout)
    assert (lines, shuffle) == ([7], "3")
    # The serial collector keeps a part of the heap for itself.
    assert 500 < heap_mebibytes <= 600


def test_validate_starts_a_parser_that_says_nothing_else(tmp_path: Path) -> None:
    """One line for a good file; for a bad one, one for each problem."""
    (tmp_path / "good.yaml").write_text(LEAST)
    command = [sys.executable, "-m", "sowline_ingest", "validate", "good.yaml"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_")}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout, done.stderr) == (0, "good.yaml: ok\n", "")


def test_what_the_page_shows(spark: SparkSession, tmp_path: Path) -> None:
    """The file at the top of docs/pipeline-file.md is one, and two slips in it are told as they are there."""
    blocks = blocks_of("docs/pipeline-file.md")
    file = next(block.text for block in blocks if block.language == "yaml")
    (shown,) = (block.text for block in blocks if block.language == "text")
    (tmp_path / "orders.yaml").write_text(file)
    assert checked_pipeline(tmp_path / "orders.yaml", {}).name == "orders"
    slipped = file.replace("id BIGINT", "id BIGNT").replace("qty * price", "qty *")
    rows = [line.removeprefix("orders.yaml, ") for line in shown.splitlines()]
    assert wrong(slipped, tmp_path) == rows
