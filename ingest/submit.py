"""`sowline pipeline submit`: run the pipeline of a file on a cluster, with the `spark-submit` that PySpark has.

The driver is here, with Sowline; executors need Spark alone, and are sent the Kafka connector.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

import click

from sowline.errors import SowlineError
from sowline.runtime.jars import spark_connector_jars
from sowline.runtime.java import find_java

APPLICATION = Path(str(files("ingest").joinpath("__main__.py")))
"""What `spark-submit` runs; its arguments are those of `sowline pipeline`."""

LOG_SETTINGS = Path(str(files("sowline").joinpath("spark", "log4j2.properties")))
"""Settings for the logs of Spark's JVMs: they say what went wrong, and nothing else."""


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("spark_options", nargs=-1, type=click.UNPROCESSED)
@click.option("--once", is_flag=True, help="Stop after writing the available input.")
@click.option("--rows-per-second", type=float, help="Maximum rows per second; overrides FILE.")
@click.option("--kafka", help="Kafka's bootstrap servers (SOWLINE_KAFKA).")
def submit(file: Path, spark_options: Sequence[str], **run_options: object) -> None:
    """Run the pipeline of a FILE on a cluster: `submit FILE -- --master spark://host:7077`.

    What comes after `--` is given to spark-submit as it is. The rest is as with `run`, which this becomes.
    """
    command = submit_command(file, _arguments(run_options), spark_options)
    # Python is where Sowline is; executors have no use for one.
    os.execve(command[0], command, {"PYSPARK_DRIVER_PYTHON": sys.executable, **os.environ})


def submit_command(file: Path, run_options: Sequence[str], spark_options: Sequence[str]) -> list[str]:
    """Return the call of `spark-submit`; where an option is there twice, it takes the last.

    Raises SowlineError `no java`, `no pyspark` or `no jars`.
    """
    spark_submit = _spark_submit()
    find_java()
    ours = {
        "--jars": ",".join(map(str, spark_connector_jars())),
        "--driver-java-options": f"-Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()}",
    }
    before = [word for option in ours.items() for word in option]
    return [spark_submit, *before, *spark_options, str(APPLICATION), "run", str(file), *run_options]


def _arguments(options: Mapping[str, object]) -> list[str]:
    """Return options of the command line, those that were given, as they are written there."""
    arguments = []
    for name, value in options.items():
        if value is not None and value is not False:
            arguments += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    return arguments


def _spark_submit() -> str:
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        raise SowlineError("no pyspark", "expected PySpark: install it with pip install 'sowline[spark]'")
    return str(Path(found.origin).parent / "bin" / "spark-submit")
