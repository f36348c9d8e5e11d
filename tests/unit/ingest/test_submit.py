"""`submit`: which `spark-submit` is called, and with what."""

import os
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import sowline_ingest.submit
from sowline.cli.connection import ConnectionOptions
from sowline.errors import SowlineError
from sowline_ingest.__main__ import run
from sowline_ingest.submit import APPLICATION, submit, submit_command

Call = tuple[list[str], dict[str, str]]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Call]:
    """What would take the place of this process."""
    seen: list[Call] = []
    monkeypatch.setattr(sowline_ingest.submit, "find_java", lambda: Path("/java"))
    monkeypatch.setattr(
        sowline_ingest.submit, "spark_connector_jars", lambda: [Path("/jars/a.jar"), Path("/jars/b.jar")]
    )
    monkeypatch.setattr(os, "execve", lambda path, command, environment: seen.append((command, environment)))
    return seen


def test_what_is_called(calls: list[Call]) -> None:
    """PySpark's own `spark-submit`: the jars, what comes after `--`, the application, and `run` with its options."""
    given = ["a.yaml", "--once", "--kafka", "k:9092", "--", "--master", "yarn", "--conf", "a=b"]
    assert CliRunner().invoke(submit, given).exit_code == 0
    ((command, _),) = calls
    assert Path(command[0]).parts[-3:] == ("pyspark", "bin", "spark-submit")
    assert os.access(command[0], os.X_OK)
    assert command[1:4:2] == ["--jars", "--driver-java-options"]
    assert command[2] == "/jars/a.jar,/jars/b.jar"
    assert command[5:9] == ["--master", "yarn", "--conf", "a=b"]
    assert command[9:] == [str(APPLICATION), "run", "a.yaml", "--once", "--kafka", "k:9092"]


def test_log_settings_are_there(calls: list[Call]) -> None:
    """The driver's log is as quiet as that of a local pipeline."""
    option = submit_command(Path("a.yaml"), [], [])[4]
    name, _, url = option.partition("=file://")
    assert name == "-Dlog4j2.configurationFile"
    assert Path(url).is_file()


@pytest.mark.parametrize(("has", "is_then"), [(None, sys.executable), ("/python", "/python")])
def test_python_of_the_driver(
    has: str | None, is_then: str, calls: list[Call], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the one that runs this, where nothing else is asked for."""
    monkeypatch.delenv("PYSPARK_DRIVER_PYTHON", raising=False)
    if has:
        monkeypatch.setenv("PYSPARK_DRIVER_PYTHON", has)
    CliRunner().invoke(submit, ["a.yaml"])
    ((_, environment),) = calls
    assert environment["PYSPARK_DRIVER_PYTHON"] == is_then


def test_options_are_those_of_run() -> None:
    """None is missing but `--wait` and the options of its connection, and each says the same."""
    options = {one.name: one.to_info_dict() for one in submit.params if one.name != "spark_options"}
    waiting = {"wait", "url", "_token", *ConnectionOptions.__dataclass_fields__}
    assert options == {one.name: one.to_info_dict() for one in run.params if one.name not in waiting}


def test_options_for_spark_come_after_the_dashes(calls: list[Call]) -> None:
    """One that is not ours is refused before them."""
    refused = CliRunner().invoke(submit, ["a.yaml", "--master", "yarn"])
    assert refused.exit_code == 2
    assert "No such option '--master'" in refused.stderr or "No such option: --master" in refused.stderr
    assert calls == []


def test_no_pyspark(calls: list[Call], monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said how to install it."""
    monkeypatch.setattr(sowline_ingest.submit, "find_spec", lambda _: None)
    with pytest.raises(SowlineError, match=r"sowline\[spark\]") as refused:
        submit_command(Path("a.yaml"), [], [])
    assert refused.value.reason == "no pyspark"
