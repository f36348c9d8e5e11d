"""Key generators: your own code decides which record a message belongs to.

A generator is installed as an entry point of the group `sowline.key_generators`; `topics.yaml` names it:
`key: {generator: name, options: {…}}`. The entry point is a class, or any callable, that takes the options and
returns a `KeyGenerator`. `docs/key-generators.md` has a worked example.

A generator must be deterministic: the same record, options and `Appended` give the same key text in every process, on
every replay of the log. Change `version` whenever the same input may give another key. It is part of the topic's
definition, so that a partition refuses to continue with keys that it would not have made.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, NamedTuple, Protocol

from sowline.errors import SowlineError

GROUP = "sowline.key_generators"
"""The group of entry points in which generators are installed."""

Options = Mapping[str, Any]
"""The options as they stand in `topics.yaml`: every value is a text, a list or a mapping of texts."""


class Appended(NamedTuple):
    """Where and when a message was first appended to the log; `time` is log time in ms since 1970."""

    time: int
    partition: int
    offset: int


class KeyGenerator(Protocol):
    """The object that an entry point returns for a topic's options.

    A generator that depends on when or where a message was appended has an attribute `uses_append` that is true. Only
    such a one is given an `Appended`, and then publishers can't know a key before the message is on the log.
    """

    version: str
    """The version of the algorithm, not of the package."""

    def key(self, record: dict[str, Any], appended: Appended | None) -> str:
        """Return the key text of a message: 1 to 255 bytes of UTF-8 without control characters.

        `record` is the parsed message, with its preprocessed fields; it is a copy. An exception refuses the message
        (`key generator failed`): it becomes a dead letter with the exception's text.
        """


Factory = Callable[[Options], KeyGenerator]


def load_generator(name: str, options: Options) -> KeyGenerator:
    """Return the generator with that name for a topic's options.

    Raises `bad configuration` where none is installed, where it can't be loaded, or where it refuses its options.
    """
    try:
        generator = _factory(name)(dict(options))
        version = generator.version
    except SowlineError:
        raise
    except Exception as error:
        raise _bad(
            f"the key generator {name} refuses its options: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(version, str) or not version:
        raise _bad(f"expected the key generator {name} to have a version, a text, got {version!r}")
    return generator


@lru_cache(maxsize=64)
def _factory(name: str) -> Factory:
    found = _installed(name)
    try:
        factory: Factory = found.load()
    except Exception as error:
        raise _bad(f"the key generator {name} ({found.value}) can't be loaded: {error}") from error
    return factory


def _installed(name: str) -> EntryPoint:
    group = entry_points(group=GROUP)
    values = {point.value: point for point in group if point.name == name}
    if not values:
        known = ", ".join(sorted(group.names)) or "none"
        raise _bad(
            f"expected an installed key generator ({known}), got {name!r}: install the package that has it,"
            f" as an entry point of the group {GROUP}"
        )
    if len(values) > 1:
        raise _bad(f"expected one key generator {name!r}, got {' and '.join(sorted(values))}: uninstall one")
    return next(iter(values.values()))


def _bad(message: str) -> SowlineError:
    return SowlineError("bad configuration", message)
