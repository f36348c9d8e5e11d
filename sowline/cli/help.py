"""Help texts: commands in groups, each with an example, and the connection options described once."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import click

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
"""Settings of a group of commands; the width is that of help texts on a wide terminal, in characters."""

SENTENCE_MAX = 200
"""Characters of a command's first sentence, which a list of commands shows whole."""

_NAMES_MAX = 20


def is_utf8(text: str) -> bool:
    """Tell whether a text of the command line had no other bytes than those of UTF-8."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def not_utf8(found: bytes) -> str:
    """Return the error for bytes that are not UTF-8."""
    return f"expected text in UTF-8, got {found[:60]!r}"


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for pair in value.items():
            yield from _texts(pair)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _texts(one)


class ConnectionOption(click.Option):
    """An option that many commands share. Their help names it; that of `sowline` describes it."""


class HelpCommand(click.Command):
    """A command with examples in its help; they are shell commands that can be entered as they are."""

    def __init__(self, *given: Any, examples: Sequence[str] = (), **named: Any) -> None:
        super().__init__(*given, **named)
        self.examples = tuple(examples)

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; refuse bytes in them that are not UTF-8, except in the names of files."""
        left = super().parse_args(context, args)
        for parameter in self.get_params(context):
            if not isinstance(parameter.type, click.Path | click.File):
                for text in _texts(context.params.get(parameter.name or "")):
                    if not is_utf8(text):
                        raise click.BadParameter(not_utf8(os.fsencode(text)), context, parameter)
        return left

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the command's own options, and only the names of those for the connection."""
        own, shared = [], []
        for parameter in self.get_params(context):
            if isinstance(parameter, ConnectionOption):
                shared.append(parameter.opts[0])
            elif isinstance(parameter, click.Option) and (record := parameter.get_help_record(context)):
                own.append(record)
        with formatter.section("Options"):
            formatter.write_dl(own)
        if shared:
            with formatter.section("Connection options, see `sowline --help`"):
                formatter.write_text(", ".join(shared))

    def format_epilog(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples."""
        if self.examples:
            with formatter.section("Examples" if len(self.examples) > 1 else "Example"):
                for example in self.examples:
                    formatter.write(f"{'':{formatter.current_indent}}{example}\n")


class HelpGroup(click.Group):
    """Commands that its help lists under headings, in the order given, and the connection options."""

    command_class = HelpCommand

    def __init__(
        self,
        *given: Any,
        headings: Mapping[str, Iterable[str]] = MappingProxyType({}),
        connection: Sequence[click.Parameter] = (),
        **named: Any,
    ) -> None:
        super().__init__(*given, **named)
        self._headings = headings
        """The names of the commands below each heading; empty where there is one for all of them."""
        self.connection = list(connection)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands below their headings, and then the connection options."""
        for heading, names in (self._headings or {"Commands": self.commands}).items():
            with formatter.section(heading):
                formatter.write_dl(
                    [(name, self.commands[name].get_short_help_str(SENTENCE_MAX)) for name in names],
                    col_max=_NAMES_MAX,
                )
        records = [option.get_help_record(context) for option in self.connection]
        if records:
            with formatter.section("Connection options, of commands that send requests to services"):
                formatter.write_dl([record for record in records if record is not None])


def cli_command(
    name: str | None = None, *, examples: Sequence[str], **settings: Any
) -> Callable[[Callable[..., Any]], HelpCommand]:
    """Return a decorator that makes a function a command; the settings are those of `click.command`."""
    return click.command(name, cls=HelpCommand, examples=examples, **settings)
