"""The format number of state, changes and backups, and the error for a number that this version does not know.

Data without a format number has format 1. Format 2 only renames fields: `head` is now `checkpoint` in stored state,
and `said_in` is now `emitted_in` in changes. Format 3 has templates of documents that a `define` has changed.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from sowline.errors import SowlineError
from sowline.model.limits import Limits
from sowline.version import __version__

FORMAT: Final = 2
"""The format that this version writes, until a template has changed."""

TEMPLATE_FORMAT: Final = 3
"""The format of state and progress events since a `define` changed the template, and of the changes that it made.

A version that knows less must not continue from them: it would refuse that `define` when it applies the log
(test_a_version_that_knows_no_templates_refuses_the_state).
"""

FIRST_FORMAT: Final = 1
"""The format of data without a number. This version reads it and never writes it."""

BY: Final = __version__
"""The version of Sowline that is written next to the format number."""


class UnknownFormat(SowlineError):
    """Raised for data in a format that this version does not know. The data is left unchanged."""

    def __init__(self, what: str, number: Any, by: Any) -> None:
        writer = f"Sowline {by}" if isinstance(by, str) else "another version of Sowline"
        super().__init__(
            "unknown format",
            f"expected {what} of format {FIRST_FORMAT} to {TEMPLATE_FORMAT}, got one of format {number!r:.40},"
            f" written by {writer:.60}. It is left unchanged: run that version or a newer one; this is Sowline {BY}",
        )


def format_of(limits: Limits) -> int:
    """Return the format of data with these limits."""
    return TEMPLATE_FORMAT if limits.is_template_changed else FORMAT


def stored_limits(limits: Limits) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the limits as they are stored, and the fields that are stored next to them."""
    fields = limits.fields()
    # Versions that know no templates refuse limits with one, and ignore what is next to them. While both versions
    # work, they read the same state (test_a_template_that_has_not_changed_is_no_obstacle).
    if limits.is_template_changed or limits.template is None:
        return fields, {}
    return fields, {"template": fields.pop("template")}


def read_limits(given: Any, extra: Mapping[str, Any]) -> Limits:
    """Return the limits from what `stored_limits` returned; `extra` has their format, too. Raise ValueError."""
    template = extra.get("template")
    limits = Limits.read(given if template is None else {**given, "template": template})
    return replace(limits, is_template_changed=extra.get("format") == TEMPLATE_FORMAT)


def require_format(what: str, number: Any, by: Any) -> None:
    """Raise `unknown format` unless this version reads format `number`; the error describes the data as `what`."""
    # In Python, True equals 1: a damaged number would count as the first format.
    if type(number) is not int or number not in (FIRST_FORMAT, FORMAT, TEMPLATE_FORMAT):
        raise UnknownFormat(what, number, by)
