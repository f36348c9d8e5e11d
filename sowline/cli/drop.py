"""`sowline drop`: deletes what a definition has left in Kafka and on disk after it was removed from `topics.yaml`."""

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from sowline.cli.connection import STACK_SETTINGS, ConnectionOptions, report, used_stack, with_connection
from sowline.cli.definitions import ask_all
from sowline.cli.help import cli_command
from sowline.config.kafka_names import KafkaNames, default_log
from sowline.config.settings import Settings, read_settings
from sowline.config.topics import load_topics
from sowline.errors import SowlineError
from sowline.kafka.leftovers import Leftovers

PATH = click.Path(path_type=Path)


@cli_command(examples=("sowline drop orders", "sowline drop orders --keep-log --yes"))
@click.argument("name")
@click.option("--fanout", is_flag=True, help="NAME is that of a fanout.")
@click.option("--log", help="The topic's log, if its definition named one.")
@click.option("--keep-log", is_flag=True, help="Keep the log: the commands that clients published.")
@click.option("--config", type=PATH, help="The file of topics (SOWLINE_CONFIG).")
@click.option("--kafka", "-k", help="Kafka's bootstrap servers (SOWLINE_KAFKA).")
@click.option("--data-dir", type=PATH, help="Where the materializer keeps state (SOWLINE_DATA_DIR).")
@click.option(
    "--url", "-u", "urls", multiple=True, help="A service that must not have it any more; repeatable."
)
@click.option("--yes", "-y", is_flag=True, help="Do not ask first; required without a terminal.")
@with_connection
def drop(
    name: str,
    fanout: bool,
    log: str | None,
    keep_log: bool,
    urls: tuple[str, ...],
    yes: bool,
    connection: ConnectionOptions,
    **given: Any,
) -> None:
    """Delete what the topic, view or fanout NAME has left, after it was removed from the file of topics.

    It first lists the Kafka topics, the consumer group and the directories that it will delete. The local state of
    materializers on other machines stays.
    """
    settings, urls = _settings(given, urls)
    topics = load_topics(settings.config)
    defined = [one.name for one in (topics.fanouts if fanout else topics.topics)]
    if name in defined:
        raise SowlineError(
            "topic in use",
            f"expected a name that {settings.config} no longer defines, got {name!r}: remove it there first",
        )
    if urls:
        require_gone(name, fanout, urls, connection)
    if fanout:
        left, directories = Leftovers.of_fanout(settings, name), list[Path]()
    else:
        left = Leftovers.of_topic(settings, topics, name, log)
        directories = kept_directories(settings, name, log)
    log_topics = [left.log] if left.log and not keep_log else []
    deleted = [
        *(f"Kafka topic {one}" for one in left.topics),
        *(f"Kafka topic {one}, which has all commands that clients published" for one in log_topics),
        *(f"consumer group {one}" for one in left.groups),
        *(f"directory {one}" for one in directories),
    ]
    if not deleted:
        click.echo(f"nothing is left of {name}")
        return
    click.echo("\n".join(deleted))
    _confirm(yes, len(deleted))
    left.delete(settings, with_log=not keep_log)
    for directory in directories:
        shutil.rmtree(directory)
    click.echo(f"deleted: {name}")


def _settings(given: dict[str, Any], urls: tuple[str, ...]) -> tuple[Settings, tuple[str, ...]]:
    """Return the settings that were given, or those of the running `sowline up` and its services."""
    found = {name: str(value) for name, value in given.items() if value is not None}
    if not found and not STACK_SETTINGS & os.environ.keys() and (stack := used_stack()) is not None:
        report(stack)
        found = {"config": stack.config, "kafka": stack.kafka, "data_dir": stack.data_dir}
        urls = urls or stack.urls
    return read_settings(**found), urls


def require_gone(name: str, fanout: bool, urls: Sequence[str], connection: ConnectionOptions) -> None:
    """Raise `topic in use` if a service still runs by a definition of this name."""
    services = ask_all(urls, connection)
    having = [one.url for one in services if (fanout, name) in {found.key for found in one.described}]
    if having:
        raise SowlineError(
            "topic in use",
            f"expected services that have left {name!r} behind, but {', '.join(having)} still has it",
        )


def kept_directories(settings: Settings, name: str, log: str | None) -> list[Path]:
    """Return the directories on this machine in which materializers have kept the topic's state."""
    logs = [log] if log else [default_log(name), KafkaNames.of_view(name).log]
    return [path for one in logs if (path := settings.data_dir / one).is_dir()]


def _confirm(yes: bool, count: int) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise SowlineError("bad request", "expected --yes without a terminal: nothing was deleted")
    click.confirm(f"Delete these {count}? They can't be restored.", abort=True, err=True)
