"""Collects the step that the log records of a batch make."""

from sowline.changes.change import Change
from sowline.commands.command import LogRecord
from sowline.errors import SowlineError
from sowline_materializer.core.checkpoint import Checkpoint
from sowline_materializer.core.step import DeadLetter, Step


class StepCollector:
    """Changes, outcomes and dead letters, in log order, and the news that no change reports."""

    __slots__ = ("_offset", "_unreported", "has_unreported_news", "step")

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.step = Step(checkpoint)
        self.has_unreported_news = False
        self._offset = -1
        self._unreported: Checkpoint | None = None

    def begin(self, offset: int) -> None:
        """Move to the log record at an offset."""
        assert offset > self._offset, "a batch has each log record once, in order"
        assert not self.has_unreported_news, "news is reported before the next log record"
        self._offset = offset

    def add_change(self, change: Change) -> None:
        """Append a change to the step."""
        step, changes = self.step, self.step.changes
        changes.append(change)
        step.commands[change.op] += 1
        # Only these entries end later: a deletion without numbers leaves none, and documents keep theirs.
        if change.body is None and change.numbers and change.writes is None:
            step.tombstones.append((change.partition_time, change.sow_key))
        if self._unreported is not None:
            self.report_before(len(changes) - 1)

    def report_before(self, first_change: int) -> None:
        """Note that changes may have been appended to the step from that index on, without `add_change`."""
        step = self.step
        assert 0 <= first_change <= len(step.changes), (
            "the index is one of the step's changes, or of the next one"
        )
        if self._unreported is not None and len(step.changes) > first_change:
            assert not step.unreported or step.unreported[-1][0] < first_change, (
                "at most one report before a change"
            )
            step.unreported.append((first_change, self._unreported))
            self._unreported = None

    def set_outcome(self, outcome: str) -> None:
        """Note the outcome of a log record that makes no change."""
        self.step.outcomes[str(self._offset)] = outcome

    def add_dead_letter(self, record: LogRecord, error: SowlineError) -> None:
        """Note that the log record is refused, and why."""
        assert record.offset == self._offset, "the log record that is refused is the one being applied"
        self.step.dead.append(DeadLetter(record, error.reason, error.message))
        self.set_outcome(f"dead:{error.reason}")

    def note_news(self) -> None:
        """Note that the log record changes the checkpoint, which no change event reports."""
        self.has_unreported_news = True

    def end(self, checkpoint: Checkpoint | None) -> None:
        """Finish a log record with news: unless its changes report them, the `checkpoint` is written before the next
        change.
        """
        assert self.has_unreported_news, "a log record without news is not reported"
        self.has_unreported_news = False
        self._unreported = checkpoint
