"""The commands that the owner of a partition appends to its log by itself: changed limits, and expiries.

They are applied only when they return from the log, like all commands. A replay therefore meets them in the same
order, and a stale owner does no harm.
"""

from collections.abc import Iterable
from typing import NamedTuple

from sowline.commands.command import DEFINE, EXPIRE, Headers, LogRecord, read_command
from sowline.errors import SowlineError
from sowline.model.limits import define_value
from sowline_materializer.core.expiry import ExpirySchedule
from sowline_materializer.partition.partition import Partition

_DEFINE: Headers = [("sow.command", DEFINE.encode())]


class Append(NamedTuple):
    """A record to append to the partition's log."""

    key: bytes | None
    value: bytes | None
    headers: Headers


class OwnerCommands:
    """The owner's own commands in one partition's log. They begin once the log is applied up to its end."""

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self._caught_up = False
        self._definition: bytes | None = None
        self._is_defined = False
        self.expiring = ExpirySchedule()

    def caught_up(self) -> None:
        """Note that the log's end was reached."""
        self._caught_up = True

    def appends(self, now: int) -> list[Append]:
        """Return the commands to append at `now`, in ms of this worker's clock, and count them as pending."""
        # Until the log is applied to its end, an update that postpones an expiry, or the `define` of an earlier
        # start, may still be ahead. Asking now would append commands that have no effect, again at each start
        # (test_nothing_is_appended_before_the_log_is_applied).
        if not self._caught_up:
            return []
        # The limits first: with `expiration: disabled` in a new `topics.yaml`, records would otherwise expire under
        # the old definition (test_a_changed_definition_is_appended_before_anything_expires).
        if not self._is_defined and (appends := self._define()) is not None:
            return appends
        due = self.expiring.next_portion(self._partition.due(self.expiring.log_time(now)), now)
        return [Append(one.key_text.encode(), None, _expire_headers(str(one.position))) for one in due]

    def _define(self) -> list[Append] | None:
        """Append the limits of `topics.yaml` once, if the state has others; nothing expires before that."""
        # One append at each start. Two workers with different files would otherwise answer each other's `define`
        # without end (test_owners_who_disagree_do_not_append_for_ever).
        if self._definition is not None:
            return []
        was, now = self._partition.checkpoint.limits, self._partition.definition.limits
        if was == now:
            self._is_defined = True
            return None
        assert not self._is_defined, "the limits are appended once"
        self._definition = define_value(was, now)
        return [Append(None, self._definition, _DEFINE)]

    def applied(self, others: Iterable[LogRecord], log_time: int, now: int) -> None:
        """Note that log records up to a log time were applied at `now`; `others` are those of a step."""
        for record in others:
            if record.headers and (record.value is None or not self._is_defined):
                self._resolve(record, now)
        self.expiring.saw(log_time, now)

    def _resolve(self, record: LogRecord, now: int) -> None:
        try:
            command = read_command(record.headers)
        # Any producer may write to the log. A malformed command is a dead letter already, and changes nothing here
        # (test_a_command_of_a_stranger_teaches_nothing).
        except SowlineError:
            return
        if command.command == DEFINE and record.value == self._definition:
            self._is_defined = True
        elif command.command == EXPIRE and command.guard is not None:
            text = (record.key or b"").decode(errors="replace")
            self.expiring.applied(text, command.guard, record.time, now)


def _expire_headers(guard: str) -> Headers:
    return [("sow.command", EXPIRE.encode()), ("sow.guard", guard.encode())]
