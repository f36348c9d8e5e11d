"""What the containers of the pipelines' image run, with programs in place that tell how they were called."""

import subprocess
import zipfile
from pathlib import Path

import pyspark
import pytest

ENTRYPOINT = Path(__file__).parents[3] / "deploy" / "pipeline-entrypoint.sh"
EXECUTOR = {
    "SPARK_DRIVER_URL": "spark://driver:7078",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_EXECUTOR_MEMORY": "2g",
    "SPARK_APPLICATION_ID": "spark-1",
    "SPARK_CONF_DIR": "/opt/spark/conf",
    "SPARK_EXECUTOR_ID": "3",
    "SPARK_EXECUTOR_POD_IP": "10.0.0.7",
    "SPARK_EXECUTOR_POD_NAME": "orders-exec-3",
    "SPARK_RESOURCE_PROFILE_ID": "0",
}
"""What Spark tells the pod of an executor."""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A directory whose programs print their name and arguments, a line each; a SPARK_HOME and a JAVA_HOME."""
    for name in ("sowline", "java", "spark-submit"):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text('#!/bin/sh\nprintf "%s\\n" "${0##*/}" "$@"\n')
        program.chmod(0o755)
    return tmp_path


def called(home: Path, *arguments: str, **environment: str) -> list[str]:
    """Return what a container runs."""
    path = {"PATH": f"{home}/bin:/usr/bin:/bin", "SPARK_HOME": str(home)}
    done = subprocess.run(
        [ENTRYPOINT, *arguments], env=path | environment, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def test_sowline(home: Path) -> None:
    """Whatever Spark does not ask for is for `sowline`, also nothing and what has spaces in it."""
    assert called(home, "pipeline", "run", "my file") == ["sowline", "pipeline", "run", "my file"]
    assert called(home) == ["sowline"]


def test_driver(home: Path) -> None:
    """The driver is submitted where the pod is, with what Spark has to say."""
    given = [
        "--properties-file",
        "/opt/spark/conf/spark.properties",
        "local:///opt/pipeline.py",
        "run",
        "a b",
    ]
    assert called(home, "driver", *given, SPARK_DRIVER_BIND_ADDRESS="10.0.0.6") == [
        "spark-submit",
        "--deploy-mode",
        "client",
        "--conf",
        "spark.driver.bindAddress=10.0.0.6",
        *given,
    ]


def test_executor(home: Path) -> None:
    """The executor is a JVM that has been told all it must know, its options in their order."""
    options = {f"SPARK_JAVA_OPT_{number}": f"-Dn={number} x" for number in range(12)}
    command = called(home, "executor", **EXECUTOR, **options, SPARK_CLASSPATH="/more/*", JAVA_HOME=str(home))
    java, *rest = command
    assert java == "java"
    assert rest[:12] == list(options.values())
    assert rest[12:16] == ["-Xms2g", "-Xmx2g", "-cp", f"/opt/spark/conf:{home}/jars/*:/more/*"]
    arguments = dict(zip(rest[17::2], rest[18::2], strict=True))
    assert arguments == {
        "--driver-url": "spark://driver:7078",
        "--executor-id": "3",
        "--cores": "2",
        "--app-id": "spark-1",
        "--hostname": "10.0.0.7",
        "--resourceProfileId": "0",
        "--podName": "orders-exec-3",
    }


def test_names_are_those_of_spark(home: Path) -> None:
    """The class is in Spark's own jar, which knows each of the options and variables."""
    (jar,) = Path(pyspark.__file__).parent.glob("jars/spark-kubernetes_*.jar")
    main, *arguments = called(home, "executor", **EXECUTOR)[6 - 1 :]
    with zipfile.ZipFile(jar) as classes:
        backend = classes.read(f"{main.replace('.', '/')}$.class")
        constants = classes.read("org/apache/spark/deploy/k8s/Constants$.class")
    for option in arguments[::2]:
        assert option.encode() in backend
    for variable in (*EXECUTOR, "SPARK_JAVA_OPT_", "SPARK_CLASSPATH", "SPARK_DRIVER_BIND_ADDRESS"):
        assert variable.encode() in constants


def test_a_variable_that_is_missing_ends_it(home: Path) -> None:
    """It is named."""
    environment = {"PATH": f"{home}/bin:/usr/bin:/bin", "SPARK_HOME": str(home)}
    done = subprocess.run([ENTRYPOINT, "driver"], env=environment, capture_output=True, text=True)
    assert done.returncode != 0
    assert "SPARK_DRIVER_BIND_ADDRESS" in done.stderr
