"""A partition that recovery has opened."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

from sowline.model.position import Position
from sowline_materializer.core.checkpoint import Checkpoint
from sowline_materializer.partition.state_reset import StateReset
from sowline_materializer.store.interface import Store

S_co = TypeVar("S_co", bound=Store, covariant=True)


@dataclass(frozen=True, slots=True)
class OpenedPartition(Generic[S_co]):
    """An opened partition: its store, its checkpoint, and `emitted_to`, the newest position in the changes.

    With `state_reset` it is not open yet: first the ends of all its records must be written, and its store emptied. A
    previous owner that died may have emitted more than the store has. The checkpoint is then before `emitted_to`, and
    the events after it are in the changes from the offset `tail_start` on. `tombstones` are the deleted records that
    the store remembers, as (log time in ms, SOW key), oldest first; None if they are not known.
    """

    store: S_co
    checkpoint: Checkpoint
    emitted_to: Position
    state_reset: StateReset | None = None
    tail_start: int = 0
    tombstones: Sequence[tuple[int, bytes]] | None = None


@contextmanager
def closed_on_failure(store: Store) -> Iterator[None]:
    """Close a store if the block fails, so that a second try can open it."""
    try:
        yield
    except BaseException:
        store.close()
        raise
