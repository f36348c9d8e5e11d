"""The `options` of a command: words and `name=value` pairs, separated by commas."""

import re
from dataclasses import dataclass

from sowline.errors import SowlineError

_SPLIT = re.compile(r",(?![^\[]*\])")
_WORDS = ("oof", "no_sowkey", "timestamp", "reset")
_NOT_FOUND = ("fail", "reset")


@dataclass(frozen=True, slots=True)
class Options:
    """What a read may be asked to do differently; docs/wire.md describes each."""

    oof: bool = False
    no_sowkey: bool = False
    timestamp: bool = False
    reset: bool = False


def parse_options(text: str) -> Options:
    """Read an options string; raises `invalid options` for anything that is not known."""
    given: dict[str, bool] = {}
    for option in filter(None, (part.strip() for part in _SPLIT.split(text))):
        name, equals, value = option.partition("=")
        if option in _WORDS:
            given[option] = True
        elif equals and name == "bookmark_not_found" and value in _NOT_FOUND:
            given["reset"] = value == "reset"
        else:
            known = ", ".join((*_WORDS, "bookmark_not_found=fail|reset"))
            raise SowlineError("invalid options", f"expected any of {known}, got {option[:100]!r}")
    return Options(**given)
