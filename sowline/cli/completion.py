"""Shell completion of the names of topics."""

import os
from pathlib import Path

import click

from sowline.cli.connection import USUAL_URL, ConnectionOptions, connection_of
from sowline.cli.http import get, served_topics
from sowline.errors import SowlineError


def complete_topic(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the topics with this prefix: those of the query service, or of `topics.yaml` if no service answers."""
    url = context.params.get("url") or os.environ.get("SOWLINE_URL") or USUAL_URL
    connection = connection_of(context.params)
    return sorted(name for name in _served(str(url), connection) or _defined() if name.startswith(incomplete))


def _served(url: str, connection: ConnectionOptions) -> list[str]:
    try:
        return [one["name"] for one in served_topics(get(f"{url.rstrip('/')}/v1/topics", connection)) or ()]
    # An error would be printed in the middle of the line that is being typed.
    except SowlineError:
        return []


def _defined() -> list[str]:
    from sowline.config.settings import Settings
    from sowline.config.topics import load_topics

    path = Path(os.environ.get("SOWLINE_CONFIG") or Settings.model_fields["config"].default)
    try:
        return [topic.name for topic in load_topics(path).topics]
    except SowlineError:
        return []


topic_argument = click.argument("topic", shell_complete=complete_topic)
"""The argument TOPIC of a command."""
