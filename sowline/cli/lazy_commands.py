"""Commands whose modules are imported at first use: `sowline plan` does not wait for what a client imports."""

from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module

import click


class LazyCommands(MutableMapping[str, click.Command]):
    """Commands by name, as `click.Group` takes them; a module has a command under its name with underscores."""

    def __init__(self, modules: Mapping[str, str]) -> None:
        """Take the module of each command, by the command's name."""
        self._modules = dict(modules)
        self._imported: dict[str, click.Command] = {}

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._imported:
            command: click.Command = getattr(import_module(self._modules[name]), name.replace("-", "_"))
            self._imported[name] = command
        return self._imported[name]

    def __setitem__(self, name: str, command: click.Command) -> None:
        self._modules[name] = ""
        self._imported[name] = command

    def __delitem__(self, name: str) -> None:
        del self._modules[name]
        self._imported.pop(name, None)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)
