"""The `sowline` command."""

from sowline.cli.command import CliGroup, main

__all__ = ["CliGroup", "main"]
