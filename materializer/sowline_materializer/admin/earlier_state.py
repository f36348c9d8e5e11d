"""Loads the records of a changes partition as they were at an earlier position."""

from collections.abc import Iterable, Sequence
from itertools import repeat

from sowline.changes.change import Change
from sowline.changes.changes_reader import Verdict, verdict
from sowline.changes.event import Event
from sowline.changes.wholeness import UNKNOWN_OFFSET, is_of
from sowline.config.topic_definition import TopicDefinition
from sowline.errors import SowlineError
from sowline.model.position import Position, before_the_log
from sowline_materializer.core.checkpoint import Checkpoint
from sowline_materializer.core.record import decode_record
from sowline_materializer.partition.changes_loader import ChangesLoader
from sowline_materializer.store.interface import DiskStore


class EarlierState(ChangesLoader):
    """Loads the events up to a position, and uses those after it as a check.

    Compaction removes a change once a newer one of the same key is older than the compaction lag. So the records at
    an earlier position can be known only while all changes after it are held, and each of them replaces what was
    loaded. Raise `changes incomplete` if that is not so: here while it loads, and in `require_exact`.
    """

    def __init__(
        self, store: DiskStore, definition: TopicDefinition, changes_id: str, position: Position
    ) -> None:
        super().__init__(store, definition, changes_id)
        self._store = store
        self._changes_id = changes_id
        self._name = definition.name
        self._position = position
        self._followed = position
        self._newest_position = before_the_log(-1)
        self._replaced: dict[bytes, bytes | None] = {}
        """The bodies before the changes after the position, by SOW key."""

    def load(self, events: Sequence[Event], offsets: Iterable[int] = repeat(UNKNOWN_OFFSET)) -> None:
        """Load the next events, in the order of the topic's offsets."""
        for event, offset in zip(events, offsets, strict=False):
            if is_of(event, self._changes_id):
                self._newest_position = max(self._newest_position, event.position)
            if verdict(event, self._position) is Verdict.DROP:
                super().load((event,), (offset,))
            else:
                self.reader.saw((event,), (offset,))
                self._follow(event)

    def _follow(self, event: Event) -> None:
        if not is_of(event, self._changes_id):
            return
        judged = verdict(event, self._followed)
        if judged is Verdict.GAP:
            raise self._moved_on()
        if judged is Verdict.TAKE:
            self._followed = event.position
            if isinstance(event, Change):
                # The first change after the position names the body at the position.
                self._replaced.setdefault(event.sow_key, event.previous)

    @property
    def is_whole(self) -> bool:
        """Whether the events include every record. They may end within a log record after the position."""
        return self.reader.is_whole

    def checkpoint(self, changes_end: int) -> Checkpoint:
        """Return a checkpoint at the position, which has nothing else of the state."""
        return Checkpoint(position=self._position, changes_end=changes_end)

    def require_exact(self) -> None:
        """Raise `changes incomplete` unless the store has the records at the position. Call it after the load."""
        if self._newest_position < self._position:
            raise SowlineError(
                "changes incomplete",
                f"expected changes of {self._name} up to {self._position}, found them up to {self._newest_position}:"
                " its changes topic was replaced. Start a materializer, wait, and verify again",
            )
        # A difference shows that compaction has removed the change that made the body at the position.
        for sow_key, previous in self._replaced.items():
            data = self._store.get(sow_key)
            if previous != (None if data is None else decode_record(data).body):
                raise self._moved_on()

    def _moved_on(self) -> SowlineError:
        return SowlineError(
            "changes incomplete",
            f"{self._name} has moved on from {self._position}, and compaction has removed changes since. Stop its"
            " publishers, wait until the view reflects all of it, and verify again",
        )
