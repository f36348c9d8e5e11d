"""The rules for a topic's keys: from fields of the body, from the publisher, or from a key generator.

All services and clients use a topic's rule to get the key text of a command and its SOW key, and to check that a text
is a valid key. `docs/kafka.md` specifies the rules.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, Literal

import orjson

from sowline.commands.command import Command, LogRecord
from sowline.commands.key_generator import Appended, KeyGenerator, Options, load_generator
from sowline.errors import SowlineError
from sowline.model.body import read_object, write_body
from sowline.model.key import (
    check_header_key,
    check_key_text,
    check_supplied,
    key_text,
    sow_key,
    stored_key_text,
)

Document = dict[str, Any]
Source = Literal["kafka_key", "header"]
AppendedOf = Callable[[LogRecord, Command], Appended]
"""Returns when and where a log record was first appended."""


class KeyRule(ABC):
    """The rule for the keys of one topic. Immutable; rules with the same definition are equal."""

    paths: tuple[tuple[str, ...], ...] = ()
    """The key fields in the body, each as its steps; empty if keys do not come from the body."""
    takes_header = False
    """Whether keys are in the header `sow.key`."""
    is_supplied = False
    """Whether publishers give the keys."""
    needs_append = False
    """Whether a key depends on when and where a message was appended."""

    @abstractmethod
    def published(self, document: Document, record: LogRecord, command: Command, appended: AppendedOf) -> str:
        """Return the key text of the record that a log message is for; raise SowlineError to refuse the message."""

    def named(self, record: LogRecord, command: Command) -> str:
        """Return the key text that a command without a body names; raise `key missing` or `bad key`."""
        text = decoded_key(record.key or b"")
        if not text:
            raise SowlineError(
                "key missing", "expected a body or a Kafka key that names the record to delete, got neither"
            )
        return text

    @abstractmethod
    def given(self, document: Document, key: str | None) -> str | None:
        """Return the key text of a message that is not on the log yet; `key` is the publisher's key, if any.

        Return None if the key is known only once the message is on the log. Raise `key missing`, `bad key`, or
        `bad request` for a `key` in a topic whose publishers must not give one.
        """

    @abstractmethod
    def check(self, text: str) -> None:
        """Raise `key missing` or `bad key` if a text can't be a key of this topic."""

    @abstractmethod
    def sow_key(self, text: str) -> bytes:
        """Return the SOW key of a key text."""

    @abstractmethod
    def text_of(self, sow_key: bytes, body: bytes) -> str:
        """Return the key text of a stored record with this SOW key and body."""


class FieldKeys(KeyRule):
    """Keys from fields of the body. The SOW key is a hash of `domain_prefix` and the key text."""

    def __init__(self, paths: tuple[tuple[str, ...], ...], domain_prefix: bytes) -> None:
        self.paths = paths
        self._domain_prefix = domain_prefix
        # Each record is looked up by its SOW key: the partial saves a Python call for each.
        self.sow_key = partial(sow_key, domain_prefix)  # type: ignore[method-assign]

    def published(self, document: Document, record: LogRecord, command: Command, appended: AppendedOf) -> str:
        """Return the text of the key fields."""
        return key_text(document, self.paths)

    def given(self, document: Document, key: str | None) -> str | None:
        """Return the text of the key fields; raise `bad request` if a `key` is given too."""
        if key is not None:
            names = ", ".join("/" + "/".join(path) for path in self.paths)
            raise SowlineError(
                "bad request", f"expected no SOW key: the topic makes its keys from {names}, got {key[:60]!r}"
            )
        return key_text(document, self.paths)

    def check(self, text: str) -> None:
        """Raise if no values of the key fields give this text."""
        check_key_text(text, self.paths)

    def sow_key(self, text: str) -> bytes:
        """Return the hash of the text, in decimal digits."""
        return sow_key(self._domain_prefix, text)

    def text_of(self, sow_key: bytes, body: bytes) -> str:
        """Return the text of the key fields of the stored body."""
        return stored_key_text(read_object(body), self.paths)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FieldKeys) and self._content == other._content

    def __hash__(self) -> int:
        return hash(self._content)

    @property
    def _content(self) -> tuple[object, ...]:
        return self.paths, self._domain_prefix


class _OwnKeys(KeyRule):
    """Keys that do not come from fields: the key text is the SOW key."""

    def sow_key(self, text: str) -> bytes:
        """Return the text itself, as UTF-8."""
        try:
            return text.encode()
        except UnicodeEncodeError as error:
            raise SowlineError("bad key", f"expected a key in valid UTF-8: {error}") from None

    def named(self, record: LogRecord, command: Command) -> str:
        """Return the Kafka key if it is a valid key."""
        return check_supplied(super().named(record, command))

    def text_of(self, sow_key: bytes, body: bytes) -> str:
        """Return the SOW key as text."""
        return sow_key.decode()

    def check(self, text: str) -> None:
        """Raise if the text is not a valid key."""
        check_supplied(text)


class SuppliedKeys(_OwnKeys):
    """Keys given by publishers, as the record's Kafka key or in its header `sow.key`."""

    is_supplied = True

    def __init__(self, source: Source) -> None:
        self._source = source
        self.takes_header = source == "header"

    def published(self, document: Document, record: LogRecord, command: Command, appended: AppendedOf) -> str:
        """Return the key that the message was sent with."""
        if not self.takes_header:
            return self._checked(decoded_key(record.key or b""))
        return self._checked(command.key or "")

    def named(self, record: LogRecord, command: Command) -> str:
        """Return the header's key if there is one, else the Kafka key."""
        return self._checked(command.key or decoded_key(record.key or b""))

    def given(self, document: Document, key: str | None) -> str | None:
        """Return the key that the publisher gives."""
        return self._checked(key or "")

    def check(self, text: str) -> None:
        """Raise if the text is not a valid key for this source."""
        self._checked(text)

    def _checked(self, text: str) -> str:
        if not text:
            where = "in the header sow.key" if self.takes_header else "as the Kafka key"
            raise SowlineError(
                "key missing",
                f"expected a SOW key from the publisher, {where} (through the APIs as sow_key), got none",
            )
        return check_header_key(text) if self.takes_header else check_supplied(text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SuppliedKeys) and self._source == other._source

    def __hash__(self) -> int:
        return hash(self._source)


class GeneratedKeys(_OwnKeys):
    """Keys made by an installed key generator.

    The generator is loaded at the first use, which raises `bad configuration` if it can't be loaded.
    """

    def __init__(self, name: str, options: Options, version: str = "") -> None:
        self._name = name
        self._options = options
        self._version = version

    @cached_property
    def generator(self) -> KeyGenerator:
        """The generator; raise `bad configuration` if none of this name and version is installed."""
        generator = load_generator(self._name, self._options)
        if self._version and generator.version != self._version:
            raise SowlineError(
                "bad configuration",
                f"expected version {self._version} of the key generator {self._name}, got {generator.version}",
            )
        return generator

    @property
    def needs_append(self) -> bool:  # type: ignore[override]
        """Whether a key depends on when and where a message was appended."""
        return bool(getattr(self.generator, "uses_append", False))

    def published(self, document: Document, record: LogRecord, command: Command, appended: AppendedOf) -> str:
        """Return the key that the generator makes from the message."""
        return self._made(document, appended(record, command) if self.needs_append else None)

    def given(self, document: Document, key: str | None) -> str | None:
        """Return the key that the generator makes; None if it is not installed here or needs an `Appended`."""
        if key is not None:
            raise SowlineError(
                "bad request",
                f"expected no SOW key: the generator {self._name} makes the topic's keys, got {key[:60]!r}",
            )
        # A client need not have the generator, or may have another version of it, which makes other keys. The owner
        # of the partition determines the key (test_a_generator_of_another_version_leaves_keys_unknown).
        try:
            if self.needs_append:
                return None
        except SowlineError:
            return None
        return self._made(document, None)

    def _made(self, document: Document, appended: Appended | None) -> str:
        # A generator that changes its argument must not change the document that is applied afterwards
        # (test_a_generator_makes_keys).
        record = orjson.loads(write_body(document))
        try:
            # The code is not ours. One message that it can't handle must become a dead letter, and not stop the
            # partition (test_a_generator_that_makes_none).
            text = self.generator.key(record, appended)
        except Exception as error:
            raise SowlineError(
                "key generator failed",
                f"expected a key from the generator {self._name}, got {type(error).__name__}: {error}",
            ) from error
        # Its type is only what the author of the generator promised.
        if not isinstance(text, str) or not text:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise SowlineError(
                "bad key", f"expected a text from the key generator {self._name}, got {text!r:.60}"
            )
        return check_supplied(text)

    def __reduce__(self) -> tuple[type["GeneratedKeys"], tuple[str, Options, str]]:
        # Without the loaded generator: its code need not support pickling, and the other process has to check the
        # version that is installed there.
        return GeneratedKeys, (self._name, self._options, self._version)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GeneratedKeys) and self.__reduce__() == other.__reduce__()

    def __hash__(self) -> int:
        # The options are a dict, which has no hash.
        return hash((self._name, self._version))


def decoded_key(key: bytes) -> str:
    """Return a Kafka key as text; raise `bad key` if it is not UTF-8."""
    try:
        return key.decode()
    except UnicodeDecodeError as error:
        raise SowlineError("bad key", f"expected UTF-8 in the Kafka key, got {key[:60]!r}") from error
