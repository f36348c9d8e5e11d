"""`sowline pipeline submit`: run the pipeline of a file on a cluster, with PySpark's `spark-submit`.

The driver runs here, with Sowline. Executors need only Spark, and for message types with schemas Sowline, too; the
Kafka connector is sent to them.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

import click

from sowline.cli.help import cli_command
from sowline.errors import SowlineError
from sowline.runtime.jars import spark_connector_jars
from sowline.runtime.java import find_java
from sowline.version import installing

APPLICATION = Path(str(files("sowline_ingest").joinpath("__main__.py")))
"""The program that `spark-submit` runs; its arguments are those of `sowline pipeline`."""

LOG_SETTINGS = Path(str(files("sowline").joinpath("spark", "log4j2.properties")))
"""Settings for the logs of Spark's JVMs: they report errors only."""


@cli_command(examples=("sowline pipeline submit orders.yaml -- --master spark://head:7077",))
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("spark_options", nargs=-1, type=click.UNPROCESSED)
@click.option("--once", is_flag=True, help="Stop after writing the available input.")
@click.option("--rows-per-second", type=float, help="Maximum rows per second; overrides FILE.")
@click.option("--kafka", help="Kafka's bootstrap servers (SOWLINE_KAFKA).")
def submit(file: Path, spark_options: Sequence[str], **run_options: object) -> None:
    """Run the pipeline of a FILE on a cluster: `submit FILE -- --master spark://host:7077`.

    Everything after `--` is passed to spark-submit. The other options are those of `run`, except for `--wait`.
    """
    command = submit_command(file, _arguments(run_options), spark_options)
    # Only the driver needs Python, and Sowline is here.
    os.execve(command[0], command, {"PYSPARK_DRIVER_PYTHON": sys.executable, **os.environ})


def submit_command(file: Path, run_options: Sequence[str], spark_options: Sequence[str]) -> list[str]:
    """Return the command line of `spark-submit`; if an option is given twice, spark-submit takes the last.

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
    """Return the options of the command line that were given, in their written form."""
    arguments = []
    for name, value in options.items():
        if value is not None and value is not False:
            arguments += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    return arguments


def _spark_submit() -> str:
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        raise SowlineError("no pyspark", f"expected PySpark: install it with {installing('spark')}")
    return str(Path(found.origin).parent / "bin" / "spark-submit")
