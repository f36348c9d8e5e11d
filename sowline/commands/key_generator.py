"""Key generators: installed code that decides which record a message belongs to.

Install a generator as an entry point of the group `sowline.key_generators`, and name it in `topics.yaml`:
`key: {generator: name, options: {…}}`. The entry point is a class, or any callable, that takes the options and
returns a `KeyGenerator`. `docs/key-generators.md` has a worked example.

A generator must be deterministic: the same record, options and `Appended` give the same key text in every process and
on every replay of the log. Change `version` whenever the same input may give another key. The version is part of the
topic's definition: a partition whose keys another version made refuses to continue.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, NamedTuple, Protocol

from sowline.errors import SowlineError

GROUP = "sowline.key_generators"
"""The group of entry points in which generators are installed."""

Options = Mapping[str, Any]
"""The options from `topics.yaml`: every value is a string, a list of strings or a mapping of strings."""


class Appended(NamedTuple):
    """Where and when a message was first appended to the log; `time` is log time in ms since 1970."""

    time: int
    partition: int
    offset: int


class KeyGenerator(Protocol):
    """The object that an entry point returns for a topic's options.

    A generator whose keys depend on when or where a message was appended sets the attribute `uses_append` to True.
    Only such a generator gets an `Appended`. Publishers then don't know a key until the message is on the log.
    """

    version: str
    """The version of the algorithm, not of the package."""

    def key(self, record: dict[str, Any], appended: Appended | None) -> str:
        """Return the key text of a message: 1 to 255 bytes of UTF-8 without control characters.

        `record` is a copy of the parsed message, preprocessed fields included. If the method raises, the message is
        refused with `key generator failed` and becomes a dead letter with the exception's text.
        """
        ...


Factory = Callable[[Options], KeyGenerator]


def load_generator(name: str, options: Options) -> KeyGenerator:
    """Return the generator with this name, made for a topic's options.

    Raise `bad configuration` if it is not installed, can't be loaded, or refuses its options.
    """
    try:
        # A copy: the topic's digest is made of the options, and would change with what a generator does to its own.
        generator = _factory(name)(dict(options))
        version = generator.version
    # `_factory` has given the reason already.
    except SowlineError:
        raise
    except Exception as error:
        raise _bad(
            f"expected options that the key generator {name} accepts, got {type(error).__name__}: {error}"
        ) from error
    # Its type is only what its author promised.
    if not isinstance(version, str) or not version:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise _bad(f"expected a version, a non-empty text, of the key generator {name}, got {version!r}")
    return generator


# To find an entry point, Python reads the metadata of every installed package. A failure is not cached: the package
# may be installed later.
@lru_cache(maxsize=64)
def _factory(name: str) -> Factory:
    found = _installed(name)
    try:
        factory: Factory = found.load()
    except Exception as error:
        raise _bad(f"expected to load the key generator {name} from {found.value}, got: {error}") from error
    return factory


def _installed(name: str) -> EntryPoint:
    group = entry_points(group=GROUP)
    # A package that is on the path twice has the same entry point twice: that is one generator.
    values = {point.value: point for point in group if point.name == name}
    if not values:
        known = ", ".join(sorted(group.names)) or "none"
        raise _bad(
            f"expected an installed key generator ({known}), got {name!r}: install the package that has it,"
            f" as an entry point of the group {GROUP}"
        )
    # With the first one taken, the order of the path would decide which keys records get
    # (test_two_packages_with_one_name_are_refused).
    if len(values) > 1:
        raise _bad(f"expected one key generator {name!r}, got {' and '.join(sorted(values))}: uninstall one")
    return next(iter(values.values()))


def _bad(message: str) -> SowlineError:
    return SowlineError("bad configuration", message)
