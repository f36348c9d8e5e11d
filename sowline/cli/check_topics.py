"""The topics of `sowline check` in a running `sowline up`: added to its file before a check, removed after it."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click
import yaml

from sowline.check.topics import WorkloadTopics
from sowline.cli.connection import ConnectionOptions
from sowline.cli.definitions import WAIT_SECONDS, replace_file, require_applied
from sowline.cli.drop import kept_directories, require_gone
from sowline.config.settings import read_settings
from sowline.config.topics import Topics, load_topics
from sowline.config.yaml_entries import with_entries, without_entries
from sowline.errors import SowlineError
from sowline.kafka.admin import Cluster
from sowline.kafka.leftovers import Leftovers
from sowline.runtime.running_stack import RunningStack, running_stacks


@contextmanager
def checked_topics(topics: WorkloadTopics, url: str, connection: ConnectionOptions) -> Iterator[None]:
    """Add the topics that a running `sowline up` at a URL lacks, for the time of the block.

    At other URLs, nothing is added: how their services get their file is not known here.
    """
    stack = next((one for one in running_stacks() if one.url == url), None)
    if stack is None or not (added := StackTopics(stack, topics, connection)).names:
        yield
        return
    click.echo(f"sowline: adding {', '.join(added.names)} to {stack.config} during the check", err=True)
    added.add()
    try:
        yield
    finally:
        added.remove()


FANOUTS: Final = "fanouts"


class StackTopics:
    """The definitions that a running `sowline up` lacks for a check."""

    def __init__(self, stack: RunningStack, topics: WorkloadTopics, connection: ConnectionOptions) -> None:
        self._stack = stack
        self._config = Path(stack.config)
        self._connection = connection
        definitions = yaml.safe_load(topics.definitions)
        self._topics = Topics.model_validate(definitions)
        running = load_topics(self._config)
        names = {topic.name for topic in running.topics}
        others = {FANOUTS: {fanout.name for fanout in running.fanouts}}
        missing = {
            kind: [one for one in entries if one["name"] not in others.get(kind, names)]
            for kind, entries in definitions.items()
        }
        self._lists = {kind: entries for kind, entries in missing.items() if entries}
        self._parts: Sequence[str] = ()

    @property
    def names(self) -> list[str]:
        """What is added."""
        return [entry["name"] for entries in self._lists.values() for entry in entries]

    def add(self) -> None:
        """Write them into the file, and wait until all services run by it; raise `topic in use` without a change.

        A Kafka topic with a name of theirs has records of somebody else, which the check would delete.
        """
        text, self._parts = with_entries(self._config.read_text(), self._lists)
        settings = read_settings(config=self._stack.config, kafka=self._stack.kafka)
        there = set(Cluster(settings.kafka_client).topic_names())
        own = {kafka for one in self._topics.topics if one.name in self.names for kafka in one.kafka.names}
        own |= {one.output for one in self._topics.fanouts if one.name in self.names}
        if used := sorted(there & own):
            raise SowlineError(
                "topic in use",
                f"expected no Kafka topic of the checker, found {', '.join(used)}: choose another --prefix",
            )
        try:
            self._apply(text)
        except BaseException:
            self.remove()
            raise

    def remove(self) -> None:
        """Take them out of the file, wait until no service has them, and delete what they have left."""
        # The user may have changed the rest of the file meanwhile.
        self._apply(without_entries(self._config.read_text(), self._parts))
        settings = read_settings(
            config=self._stack.config, kafka=self._stack.kafka, data_dir=self._stack.data_dir
        )
        topics = load_topics(self._config)
        for kind, entries in reversed(self._lists.items()):
            for name in reversed([entry["name"] for entry in entries]):
                is_fanout = kind == FANOUTS
                require_gone(name, is_fanout, self._stack.urls, self._connection)
                if is_fanout:
                    Leftovers.of_fanout(settings, name).delete(settings, with_log=False)
                    continue
                directories = kept_directories(settings, name, None)
                Leftovers.of_topic(settings, topics, name, None).delete(settings, with_log=True)
                for directory in directories:
                    shutil.rmtree(directory)

    def _apply(self, text: str) -> None:
        replace_file(self._config, text.encode())
        require_applied(self._stack.urls, load_topics(self._config), WAIT_SECONDS, self._connection)
