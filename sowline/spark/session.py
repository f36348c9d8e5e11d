"""The Spark session of a job."""

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from sowline.runtime.jars import spark_connector_jars
from sowline.runtime.java import find_java

LOCAL_CORES = 2
_LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")


def spark_session(name: str, conf: Mapping[str, str] | None = None) -> SparkSession:
    """Return the Spark session of a job, created if there is none; `conf` overrides all settings.

    Under `spark-submit`, the session takes master, memory and connector from there; otherwise it is a small local
    one. `conf` has settings by Spark's names: `{"spark.driver.memory": "2g"}`.
    """
    if not _is_submitted():
        # Spark starts the first `python3` of the PATH for what runs in Python, and that may lack Sowline
        # (test_python_of_a_local_session).
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    for key, value in spark_settings(conf).items():
        builder = builder.config(key, value)
    # PySpark logs each of its errors with Java's stack trace, also those that it raises and that we report in a line.
    for logger in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(logger).disabled = True
    session = builder.getOrCreate()
    _remove_artifacts_directory(session)
    return session


def _remove_artifacts_directory(session: SparkSession) -> None:
    """Remove the empty directory `artifacts` that Spark 4.0 makes in the directory where a job is started.

    Spark makes it with its first query, for artifacts of Spark Connect, and leaves it there. Asking for its name
    makes it now; Spark makes it again in the rare case that a file is added to the session.
    """
    jvm: Any = session._jvm
    try:
        manager = getattr(getattr(jvm.org.apache.spark.sql.artifact, "ArtifactManager$"), "MODULE$")
        directory = Path(manager.artifactRootDirectory().toString())
    except (Py4JError, TypeError):  # another version of Spark
        return
    # Another job may have its own in the same parent, or the user files.
    with suppress(OSError):
        directory.rmdir()
        directory.parent.rmdir()


def spark_settings(conf: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the settings of `spark_session`; some of them take effect only when the JVM starts."""
    settings = {
        "spark.sql.session.timeZone": "UTC",
        # An idle stream looks for new input every 10 ms by default, and takes a quarter of a core for that.
        "spark.sql.streaming.pollingDelay": "100ms",
    }
    if not _is_submitted():
        settings |= _local_settings()
    return settings | dict(conf or {})


def _is_submitted() -> bool:
    """Whether `spark-submit` has started this process."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _local_settings() -> dict[str, str]:
    find_java()  # Spark will find the same one; an unsuitable one gives a sentence here instead of a trace there
    return {
        "spark.master": f"local[{LOCAL_CORES}]",
        "spark.jars": ",".join(str(jar) for jar in spark_connector_jars()),
        "spark.driver.memory": "1g",
        # The machine's own name may resolve to an address that nothing listens on.
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOG_SETTINGS.as_uri()}",
        "spark.sql.shuffle.partitions": str(LOCAL_CORES),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
