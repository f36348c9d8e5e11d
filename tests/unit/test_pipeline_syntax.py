"""The parser for a pipeline's SQL needs PySpark and Java, and says so."""

from typing import IO

import pytest
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError

from ingest import syntax
from ingest.syntax import spark_jvm
from sowline.errors import SowlineError


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
