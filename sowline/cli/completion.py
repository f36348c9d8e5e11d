"""What a shell may complete beside commands and options: the names of topics."""

import os
from pathlib import Path

import click

from sowline.cli.door import USUAL_URL, Door, door_of
from sowline.cli.web import get, served_topics
from sowline.errors import SowlineError


def complete_topic(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the topics that begin so: those of the query service, or of `topics.yaml` where none answers."""
    url = context.params.get("url") or os.environ.get("SOWLINE_URL") or USUAL_URL
    door = door_of(context.params)
    return sorted(name for name in _served(str(url), door) or _defined() if name.startswith(incomplete))


def _served(url: str, door: Door) -> list[str]:
    try:
        return [one["name"] for one in served_topics(get(f"{url.rstrip('/')}/v1/topics", door)) or ()]
    except SowlineError:
        return []


def _defined() -> list[str]:
    from sowline.settings import Settings
    from sowline.topics import load_topics

    path = Path(os.environ.get("SOWLINE_CONFIG") or Settings.model_fields["config"].default)
    try:
        return [topic.name for topic in load_topics(path).topics]
    except SowlineError:
        return []


topic_argument = click.argument("topic", shell_complete=complete_topic)
"""The argument TOPIC of a command."""
