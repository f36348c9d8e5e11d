"""The request of a query or subscription, and the commands that send it. No I/O."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Any, TypedDict

from sowline.errors import SowlineError
from sowline.model.bookmark_range import (
    BookmarkRange,
    Given,
    bookmark_text,
    parse_bookmark_range,
    range_text,
    split_range,
)
from sowline.model.select import Select
from sowline.wire.options import Options, options_text, parse_options


class Selecting(TypedDict, total=False):
    """The options of a subscription besides its topic; a replacement has them too."""

    filter: str
    condition: str
    options: str
    batch_size: int
    order_by: str
    top_n: int | None
    skip_n: int | None
    sow_keys: Sequence[str]


class Fresh(TypedDict, total=False):
    """How fresh the answer of a read must be: at least a bookmark, and at most a duration such as `500ms` behind."""

    at_least: str
    max_staleness: str


class Reading(Selecting, Fresh, total=False):
    """The parameters of a query or subscription besides its topic; docs/client.md describes each."""

    bookmark: Given
    up_to: str | datetime


@dataclass(frozen=True)
class Ask:
    """The request of a stream."""

    command: str
    topic: str
    filter: str = ""
    options: str = ""
    bookmark: Given = ""
    up_to: str | datetime = ""
    batch_size: int = 10
    order_by: str = ""
    top_n: int | None = None
    skip_n: int | None = None
    sow_keys: Sequence[str] = ()
    condition: str = ""
    at_least: str = ""
    max_staleness: str = ""

    @property
    def is_query(self) -> bool:
        """Whether it ends with its group."""
        return self.command == "sow"

    @property
    def is_window(self) -> bool:
        """Whether it is a page or groups, and not the changes of single records."""
        # By the text: options that only a newer service knows are read as none, and groups among them would go on as
        # single records.
        return self.skip_n is not None or "projection=" in self.options

    @property
    def has_no_group(self) -> bool:
        """Whether only changes follow: from now on, or after a bookmark at which the caller has the records."""
        return not self.is_query and (not self.command.startswith("sow") or self.bookmark_range.is_return)

    @property
    def bookmark_range(self) -> BookmarkRange:
        """Its start and end; raises `invalid bookmark`."""
        return parse_bookmark_range(bookmark_text(self.bookmark), bookmark_text(self.up_to))

    @property
    def has_end(self) -> bool:
        """Whether a subscription has an end."""
        return not self.is_query and self.bookmark_range.end is not None

    @property
    def is_paused(self) -> bool:
        """Whether the subscription begins paused."""
        return _options_of(self.options).pause

    @property
    def select(self) -> Select | None:
        """The fields that it selects."""
        return _options_of(self.options).select

    def paused(self, is_paused: bool) -> "Ask":
        """Return the request with or without the option `pause`."""
        if is_paused is self.is_paused:
            return self
        assert not (is_paused and self.is_query), "a query is never paused"
        return replace(self, options=options_text(replace(_options_of(self.options), pause=is_paused)))

    def replaced(self, changes: Mapping[str, Any]) -> "Ask":
        """Return the request with changes. Everything else stays as it is, but it does not begin paused."""
        # A replacement continues from the position of the old subscription: a service refuses it with a bookmark
        # (test_what_is_refused_changes_nothing).
        replaced = replace(self, **{"bookmark": "", **changes})
        return replaced if "options" in changes else replaced.paused(False)

    def afresh(self, end: str) -> "Ask":
        """Return the request for the current group and the changes after it, with the same end."""
        assert not self.is_query, "a query does not continue: it is run again"
        command = f"sow_and_{self.command.removeprefix('sow_and_')}"
        return replace(self._once_begun, command=command, bookmark="", up_to=end or self.up_to)

    def going_on(self, bookmark: str, end: str) -> "Ask":
        """Return the request that continues after a bookmark, with the same end; `end` is that end, if known."""
        assert not self.is_query, "a query does not continue: it is run again"
        command = self.command if self.is_window else self.command.removeprefix("sow_and_")
        # Until the service has reported the end, keep the range: without it, the subscription would never end.
        given = None if end else split_range(bookmark_text(self.bookmark))
        if given is not None:
            bookmark = range_text(bookmark, given)
        return replace(self._once_begun, command=command, bookmark=bookmark, up_to=end or self.up_to)

    @property
    def _once_begun(self) -> "Ask":
        """The request without demands on freshness: they apply to the start, and must not end a stream that
        reconnects.
        """
        return replace(self, at_least="", max_staleness="")

    def request(self, id: str) -> dict[str, Any]:
        """Return the command in the form that is sent."""
        fields = {
            "command": self.command,
            "command_id": id,
            "topic": self.topic,
            "filter": self.filter,
            "condition": self.condition,
            "options": self.options,
            "bookmark": bookmark_text(self.bookmark),
            "up_to": bookmark_text(self.up_to),
            "batch_size": self.batch_size,
            "order_by": self.order_by,
            "top_n": self.top_n,
            "skip_n": self.skip_n,
            "sow_keys": list(self.sow_keys),
            "at_least": self.at_least,
            "max_staleness": self.max_staleness,
            "ack_type": "processed,completed",
        }
        return {name: value for name, value in fields.items() if value not in ("", None, [])}

    def replacement_request(self, id: str, command_id: str) -> dict[str, Any]:
        """Return the command that replaces the subscription with this id by this request."""
        options = f"replace,{self.options}".rstrip(",")
        return self.request(command_id) | {"sub_id": id, "query_id": id, "options": options}


@lru_cache(maxsize=256)
def _options_of(options: str) -> Options:
    try:
        return parse_options(options)
    except SowlineError:  # options of a newer service
        return Options()
