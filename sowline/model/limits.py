"""A topic's expiration, limits, reader schema and template: what may change in its definition while it has state."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal, Self

import orjson

from sowline.errors import SowlineError
from sowline.model.json_parts import Part

MIB: Final = 1024 * 1024
HEADROOM_BYTES: Final = 64 * 1024

LIFETIME_MS_MAX: Final = 10_000_000_000_000
"""About 300 years: expiry times in ms stay well within 64 bits."""

DISABLED: Final = "disabled"
ENABLED: Final = "enabled"

Expiration = Literal["disabled", "enabled"] | int
"""Whether records expire: `disabled`, `enabled` (only records whose message has a lifetime), or the default lifetime
in ms."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Expiration, limits, reader schema and template of a topic. Durations are in ms of log time; `records_max` is
    for all partitions. `schema` is the digest of the reader schema; None if the message type has none. `template` is
    the template of documents as JSON, in the order of the file; None if it has no fields. `is_template_changed` is
    whether a `define` set it: earlier versions can't apply that one.
    """

    expiration: Expiration = "disabled"
    record_bytes_max: int = MIB
    repeat_window: int = 7 * 86_400_000
    records_max: int | None = None
    schema: str | None = None
    template: str | None = None
    is_template_changed: bool = field(default=False, compare=False)

    @property
    def log_bytes_max(self) -> int:
        """The largest Kafka record of the log. It must also fit a body that is refused as too large, with headers."""
        return 3 * self.record_bytes_max + HEADROOM_BYTES

    @property
    def may_expire(self) -> bool:
        """Whether records of the topic can expire."""
        return self.expiration != DISABLED

    def due(self, time: int, seconds: float | None) -> int | None:
        """Return when a record written at `time` expires, in ms; None if never.

        `seconds` is the record's lifetime: None for the topic's default, 0 for no expiration.
        """
        if seconds is not None:
            return time + round(seconds * 1000) if seconds else None
        return time + self.expiration if isinstance(self.expiration, int) else None

    def share(self, partitions: int) -> int | None:
        """Return the maximum number of records in one partition, rounded up; None if there is no limit."""
        # Rounded down, ten records in three partitions would be nine, and a new key would be refused before the topic
        # is full (test_each_partition_has_its_share_rounded_up).
        return None if self.records_max is None else -(-self.records_max // partitions)

    def differing(self, other: Self) -> list[str]:
        """Return the fields in which the limits differ, by their names in `topics.yaml`."""
        names = [name for name in _NAMES if getattr(self, name) != getattr(other, name)]
        return ["reader_schema" if name == "schema" else name for name in names]

    def fields(self) -> dict[str, Any]:
        """Return the fields by name, ready for JSON."""
        # Versions that know no schemas or templates must still read the limits of topics without one.
        named = {name: getattr(self, name) for name in _NAMES}
        return {name: value for name, value in named.items() if value is not None or name not in _OPTIONAL}

    @classmethod
    def read(cls, given: Mapping[str, Any] | Part) -> Self:
        """Return the limits from the fields that `fields` returned; raise ValueError if they are invalid."""
        if not isinstance(given, Mapping) or {*given, *_OPTIONAL} != set(_NAMES):
            raise ValueError(f"expected {', '.join(_NAMES)}, got {str(given)[:200]}")
        limits = cls(**given)
        wrong = [name for name, value in given.items() if not _is_fit(name, value)]
        if wrong:
            raise ValueError(f"expected a limit in {wrong[0]}, got {str(given[wrong[0]])[:60]}")
        return limits


_OPTIONAL: Final = ("schema", "template")
_NAMES: Final = tuple(one.name for one in fields(Limits) if one.compare)


def _is_fit(name: str, value: Any) -> bool:
    if value is None:
        return name == "records_max"
    if isinstance(value, str):
        if name == "template":
            return isinstance(orjson.loads(value), dict)
        return name == "schema" or (name == "expiration" and value in (DISABLED, ENABLED))
    return (
        name not in _OPTIONAL and type(value) is int and (name != "repeat_window") <= value <= LIFETIME_MS_MAX
    )


def define_value(was: Limits, now: Limits) -> bytes:
    """Return the body of a `define` command. It names the template only if that changes."""
    sides = {"was": was.fields(), "now": now.fields()}
    if was.template == now.template:
        for named in sides.values():
            named.pop("template", None)
    return orjson.dumps(sides)


def names_template(was: Limits, now: Limits) -> bool:
    """Return whether a `define` with these limits changes the template, and not only other limits."""
    return (was.template, now.template) != (None, None)


def read_define(value: bytes | None) -> tuple[Limits, Limits]:
    """Return the limits before and after a `define` command; raise `bad definition`."""
    try:
        given: Part = orjson.loads(value or b"")
        if not isinstance(given, dict) or set(given) != {"was", "now"}:
            raise ValueError('expected {"was": …, "now": …}, got other fields')
        return Limits.read(given["was"]), Limits.read(given["now"])
    except ValueError as error:
        raise SowlineError(
            "bad definition", f"expected the limits before and after the change: {error}"
        ) from error
