"""The parser for a pipeline's SQL needs PySpark and Java, and is not asked about what has no end of brackets."""

from pathlib import Path
from typing import IO

import pytest
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError

from sowline.config.yaml_file import YamlFileError
from sowline.errors import SowlineError
from sowline_ingest import syntax
from sowline_ingest.syntax import SQL_CHARACTERS_MAX, SQL_LEVELS_MAX, checked_pipeline, spark_jvm

PIPELINE = """\
name: orders
topic: orders
sources:
  raw: {kafka: raw.orders, format: json, schema: SCHEMA}
key: [id]
checkpoint: var/orders
"""
NESTED = SQL_LEVELS_MAX * "(" + "1" + SQL_LEVELS_MAX * ")"


@pytest.fixture(autouse=True)
def no_jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if this process had none."""
    monkeypatch.setattr(SparkContext, "_gateway", None)
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)


def test_without_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentence says what to install."""
    monkeypatch.setattr(syntax, "find_spec", lambda name: None)
    with pytest.raises(SowlineError, match=r"pip install 'sowline\[spark\]'") as error:
        spark_jvm()
    assert error.value.reason == "no pyspark"


def test_without_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentence says which Java is expected."""
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(SowlineError, match="expected Java 17 or 21") as error:
        spark_jvm()
    assert error.value.reason == "no java"


def test_a_jvm_that_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it said on its way out is told."""

    def ended(conf: SparkConf, popen_kwargs: dict[str, IO[bytes]]) -> None:
        popen_kwargs["stderr"].write(b"no room\n")
        raise PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})

    monkeypatch.setattr("pyspark.java_gateway.launch_gateway", ended)
    with pytest.raises(SowlineError, match=r"JVM to start, but it ended: no room$") as error:
        spark_jvm()
    assert error.value.reason == "no java"


def check(path: Path, added: str = "", schema: str = "id BIGINT") -> None:
    """Look at the SQL of a file with these lines in addition, and with this schema."""
    (path / "my.yaml").write_text(PIPELINE.replace("SCHEMA", f'"{schema}"') + added)
    checked_pipeline(path / "my.yaml", {})


def beyond(path: Path, added: str = "", schema: str = "id BIGINT") -> list[str]:
    """Return what is wrong with such a file, which the parser is not asked about."""
    with pytest.raises(YamlFileError) as error:
        check(path, added, schema)
    return [str(problem).removeprefix(f"{path}/my.yaml, ") for problem in error.value.problems]


@pytest.mark.parametrize(
    ("added", "line", "where", "location"),
    [
        (f"body: f{'(' * 15_000}1{')' * 15_000}", 7, "body", "column 202"),
        (f"body: f{'(' * 20_000}", 7, "body", "column 202"),
        (f"body: ({NESTED})", 7, "body", "column 201"),
        (f"body: '[{NESTED}]'", 7, "body", "column 201"),
        (f"command: 1 + a[{NESTED}]", 7, "command", "column 206"),
        (f"body: CAST({'array<' * 200}INT{'>' * 200})", 7, "body", "column 1205"),
        (f"checks:\n- expect: |\n    a <\n    ({NESTED})", 10, "checks.0.expect", "line 2, column 201"),
        (f"transforms:\n- select: SELECT ({NESTED}) FROM raw", 8, "transforms.0.select", "column 208"),
    ],
)
def test_sql_that_is_nested_too_deep(
    tmp_path: Path, added: str, line: int, where: str, location: str
) -> None:
    """It is refused with its location, before a parser sees it."""
    message = f"expected SQL of at most {SQL_LEVELS_MAX} brackets in each other, got more ({location})"
    assert beyond(tmp_path, added) == [f"line {line}: {where}: {message}"]


def test_types_that_are_nested_too_deep(tmp_path: Path) -> None:
    """Those of a schema have brackets of their own."""
    types = 67 * "array<MAP <INT, STRUCT<a: " + "INT" + 67 * ">>>"
    (message,) = beyond(tmp_path, schema=f"a {types}")
    assert message.startswith(
        f"line 4: sources.raw.schema: expected SQL of at most {SQL_LEVELS_MAX} brackets"
    )


def test_sql_that_is_too_long(tmp_path: Path) -> None:
    """So is what has more characters than anybody writes; all such texts are reported at once."""
    text = "a + " * (SQL_CHARACTERS_MAX // 4)
    message = f"expected SQL of at most {SQL_CHARACTERS_MAX} characters, got {SQL_CHARACTERS_MAX + 1}"
    assert beyond(tmp_path, f"body: {text}a\nexpiration: {text}a") == [
        f"line 7: body: {message}",
        f"line 8: expiration: {message}",
    ]


@pytest.mark.parametrize(
    "text",
    [
        NESTED,
        f"{NESTED} + {NESTED}",
        f"{'(a[1]) + ' * 300}1",
        f"concat('{'(' * 300}', `{'[' * 300}`)",
        rf"'it\'s {'(' * 300}' + 'it''s {'(' * 300}'",
        f'"it\'s {"(" * 300}"',
        f"a /* don't {'(' * 300} */ + b -- {'(' * 300}",
        f"{'a < 1 AND b <> c AND ' * 300}true",
        f"{'f(x -> x > 1) AND ' * 300}true",
        f"{'CAST(a AS ARRAY<INT>) = b AND ' * 300}true",
        ("a + " * (SQL_CHARACTERS_MAX // 4))[:-3],
    ],
)
def test_other_sql_is_the_parsers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str) -> None:
    """Brackets side by side, and in texts, names and comments, are no levels; nor is what compares."""
    monkeypatch.setattr(syntax, "find_spec", lambda name: None)
    with pytest.raises(SowlineError) as error:
        check(tmp_path, f"body: |\n  {text}\n")
    assert error.value.reason == "no pyspark"
