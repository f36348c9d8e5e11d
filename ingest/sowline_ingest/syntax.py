"""Checks the SQL of a pipeline's file with Spark's own parser, without a Spark session.

The parser runs in the JVM that a session would use. If there is none yet, it is started here; a session that this
process creates later uses the same JVM.
"""

import os
import re
import tempfile
from collections.abc import Iterable, Mapping
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sowline.commands.pipeline_row import SOURCE
from sowline.config.yaml_file import Problem, YamlFile, YamlFileError
from sowline.errors import SowlineError
from sowline.runtime.java import find_java
from sowline.version import installing
from sowline_ingest.definition import Pipeline, Statement, open_pipeline

SQL_CHARACTERS_MAX = 32_768
"""The maximum length of one expression, query or schema, in characters."""
SQL_LEVELS_MAX = 200
"""The maximum nesting of brackets, including those of types (`array<…>`). Parsing time grows fast with each level."""

_EXPECTED = {
    "expression": "a Spark SQL expression",
    "query": "one query, such as SELECT …",
    "schema": "columns as DDL, such as id BIGINT, name STRING",
}
ERROR_CODE = re.compile(r"^\s*\[[A-Z0-9_.]+\]\s*")
"""The code that begins a message of Spark; it adds nothing to the message."""
_LOCATION_SUFFIX = re.compile(r"\s*(?:SQLSTATE: \w+)?\s*(?:\(line \d+, pos \d+\))?\s*$")
_LOG_CHARACTERS_MAX = 2000
_TOKEN = re.compile(
    r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`|--[^\n]*|/\*.*?\*/"""
    r"""|(?P<opening>[(\[])|\b(?:array|map|struct)\s*(?P<type><)|(?P<closing>[)\]>])""",
    re.DOTALL | re.IGNORECASE,
)
"""Brackets, and tokens whose brackets don't count: strings, names and comments. Elsewhere `<` and `>`
are comparisons.
"""
_OPENING = {")": "(", "]": "[", ">": "<"}


def checked_pipeline(path: Path, environment: Mapping[str, str]) -> Pipeline:
    """Read the file of a pipeline and its SQL; raise `bad configuration` with every problem found.

    The SQL is checked once everything else is right.
    """
    declaration = open_pipeline(path, environment)
    pipeline = declaration.read(Pipeline)
    if problems := syntax_problems(pipeline, declaration):
        raise YamlFileError(problems)
    return pipeline


def syntax_problems(
    pipeline: Pipeline, declaration: YamlFile, conf: Mapping[str, str] | None = None
) -> list[Problem]:
    """Return the errors that Spark's parser finds in the SQL of a pipeline, or the reason why it can't run."""
    statements = list(pipeline.statements())
    # Before the parser gets any text: for some it would take too long, or never end.
    if beyond := _found(_beyond(statement, declaration) for statement in statements):
        return beyond
    parser = spark_jvm(conf).org.apache.spark.sql.execution.SparkSqlParser()
    return _found(_problem(parser, statement, declaration) for statement in statements)


def _found(problems: Iterable[Problem | None]) -> list[Problem]:
    return [problem for problem in problems if problem is not None]


def spark_jvm(conf: Mapping[str, str] | None = None) -> Any:
    """Return the JVM of this process as Py4J shows it; start one if there is none.

    `conf` has Spark's settings. Settings that take effect when a JVM starts (`spark.driver.memory`, `spark.jars`, …)
    must be given here, because a session that is created later uses this JVM. Without settings the JVM is for the
    parser only, and logs nothing. Under `spark-submit` a JVM with the settings of that command exists already. Raises
    SowlineError `no java` or `no pyspark`.
    """
    if find_spec("pyspark") is None:
        raise SowlineError("no pyspark", f"expected PySpark: install it with {installing('spark')}")
    from pyspark import SparkContext

    if SparkContext._gateway is None:
        if "PYSPARK_GATEWAY_PORT" not in os.environ:
            find_java()
        SparkContext._ensure_initialized(gateway=_launched(_SILENT if conf is None else conf, conf is None))
    return SparkContext._jvm


_SILENT = {
    "spark.driver.memory": "512m",
    "spark.driver.extraJavaOptions": "-Dlog4j2.configurationFile="
    + Path(str(files("sowline").joinpath("spark", "log4j2.properties"))).as_uri(),
}


def _launched(conf: Mapping[str, str], silent: bool) -> Any:
    from pyspark import SparkConf
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    settings = SparkConf(loadDefaults=False).setAll(list(conf.items()))
    # A JVM that does not start says the reason only on its standard error (test_a_jvm_that_does_not_start).
    with tempfile.TemporaryFile() as log:
        try:
            return launch_gateway(settings, {"stderr": log} if silent else None)  # type: ignore[no-untyped-call]
        except PySparkRuntimeError as error:
            log.seek(0)
            message = log.read()[-_LOG_CHARACTERS_MAX:].decode(errors="replace").strip()
            raise SowlineError(
                "no java", f"expected Spark's JVM to start, but it ended: {message or 'see above'}"
            ) from error


def _beyond(statement: Statement, declaration: YamlFile) -> Problem | None:
    """Return the problem of a text that the parser would take too long for, or never finish."""
    text = statement.text
    if len(text) > SQL_CHARACTERS_MAX:
        reason = f"expected SQL of at most {SQL_CHARACTERS_MAX} characters, got {len(text)}"
        return declaration.problem(statement.location, reason)
    too_deep = _too_deep(text)
    if too_deep is None:
        return None
    line = text.count("\n", 0, too_deep) + 1
    location = _location(text, line, too_deep - text.rfind("\n", 0, too_deep))
    reason = f"expected SQL of at most {SQL_LEVELS_MAX} brackets in each other, got more ({location})"
    return declaration.problem(statement.location, reason, line)


def _too_deep(text: str) -> int | None:
    """Return the position of the bracket that is nested too deep; None if there is none."""
    within: list[str] = []
    for token in _TOKEN.finditer(text):
        if token["closing"] and within and within[-1] == _OPENING[token["closing"]]:
            within.pop()
        elif opening := token["opening"] or token["type"]:
            within.append(opening)
            if len(within) > SQL_LEVELS_MAX:
                return token.end() - 1
    return None


def _problem(parser: Any, statement: Statement, declaration: YamlFile) -> Problem | None:
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
    from pyspark.errors.exceptions.captured import CapturedException

    line = 1
    try:
        message = _unfit(parser, statement)
    except Py4JJavaError as error:
        line, message = _complaint(error.java_exception, statement.text)
    except CapturedException as error:  # The process has created a session already.
        line, message = _complaint(error._origin, statement.text)
    if message is None:
        return None
    return declaration.problem(statement.location, f"expected {_EXPECTED[statement.kind]}: {message}", line)


def _unfit(parser: Any, statement: Statement) -> str | None:
    if statement.kind == "expression":
        return _unfit_expression(parser.parseExpression(statement.text))
    if statement.kind == "schema":
        return _unfit_columns(parser.parseTableSchema(statement.text))
    parser.parseQuery(statement.text)
    return None


def _unfit_expression(expression: Any) -> str | None:
    """Return why an expression that a SELECT list accepts can't stand for one value."""
    kind = expression.getClass().getSimpleName()
    if kind in ("Alias", "MultiAlias"):
        return "got one with its own name after it"
    return "got *" if kind.startswith("UnresolvedStar") else None


def _unfit_columns(schema: Any) -> str | None:
    seen: set[str] = set()
    for name in schema.fieldNames():
        if name.lower() in seen:
            return f"got {name} twice"
        if name.lower() == SOURCE:
            return f"got {SOURCE}, by which rows are known again"
        seen.add(name.lower())
    return None


def _complaint(error: Any, text: str) -> tuple[int, str]:
    """Return the line of the text, and the parser's message with the position, without its codes and the text."""
    message = str(error.getMessage() or error.getClass().getSimpleName()).partition("\n== SQL")[0]
    message = " ".join(_LOCATION_SUFFIX.sub("", ERROR_CODE.sub("", message)).split()).removesuffix(".")
    message = message[:1].lower() + message[1:]
    if error.getClass().getSimpleName() != "ParseException" or error.startPosition().isEmpty():
        return 1, message
    line, column = error.line().get(), error.startPosition().get() + 1
    return line, f"{message} ({_location(text, line, column)})"


def _location(text: str, line: int, column: int) -> str:
    return f"line {line}, column {column}" if "\n" in text else f"column {column}"
