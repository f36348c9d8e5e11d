"""Portions of a command over many records: each step changes as many of them as it may hold. Pure.

A delete by filter is such a command, and a `define` with another template of documents. All changes of a portion but
the command's last one say that more follow (`last`), so readers show the command as a whole.
"""

from collections.abc import Iterable
from typing import Final, Generic, NamedTuple, TypeVar

from sowline.model.limits import MIB
from sowline_materializer.core.batch_state import BatchState, Target
from sowline_materializer.core.errors import NeedsOwnSteps

PORTION_CHANGES_MAX: Final = 5000
PORTION_BYTES_MAX: Final = 16 * MIB
"""How many records, and bytes of bodies, one step changes. Each takes about three times its bytes until Kafka has its
change: in one step, a delete of a million records of 1 kB took gigabytes."""


AnyTarget = TypeVar("AnyTarget", bound=Target)


class SelectedTargets(NamedTuple, Generic[AnyTarget]):
    """The records that one step changes, and whether they are the last ones of the command."""

    targets: list[AnyTarget]
    is_last: bool


def portion(targets: Iterable[AnyTarget], state: BatchState) -> SelectedTargets[AnyTarget]:
    """Return the next records to change, as many as one step may; raise `NeedsOwnSteps` among other log records."""
    taken, size = list[AnyTarget](), 0
    for target in targets:
        # Only a further record shows that the portion is not the last one. The last one has the outcome.
        if len(taken) >= PORTION_CHANGES_MAX or size >= PORTION_BYTES_MAX:
            # The step would also hold the changes of the records around it, and could not end before its last change.
            if not state.is_alone:
                raise NeedsOwnSteps(state.offset)
            return SelectedTargets(taken, is_last=False)
        taken.append(target)
        size += len(target.previous or b"")
    return SelectedTargets(taken, is_last=True)
