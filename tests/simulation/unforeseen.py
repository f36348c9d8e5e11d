"""Log records that the materializer's version can't apply: it raises what nobody foresaw, until it is mended."""

from contextlib import AbstractContextManager
from random import Random
from typing import TYPE_CHECKING
from unittest.mock import patch

from sowline.commands.command import LogRecord
from sowline_materializer.core.batch_state import BatchState
from tests.simulation.truth import hold

if TYPE_CHECKING:
    from tests.simulation.services import Worker

MENDED_SHARE = 0.2
"""How often an operator who looks has a version that has the fault mended."""


class Unforeseen:
    """The records that can't be applied, by partition and offset."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._records: set[tuple[int, int]] = set()
        self._mended: set[tuple[int, int]] = set()

    def arm(self, partition: int, end: int) -> None:
        """Let one of the next records of a partition be one that can't be applied."""
        self._records.add((partition, end + self._chance.randint(0, 2)))

    def patch(self) -> AbstractContextManager[object]:
        """Return what lets the materializer fail. Records that its native core applies do not."""
        records, before = self._records, BatchState.begin

        def begin(state: BatchState, record: LogRecord) -> None:
            if (state.partition, record.offset) in records:
                raise RuntimeError("nobody foresaw this")
            before(state, record)

        return patch.object(BatchState, "begin", begin)

    def is_mended(self, worker: "Worker", *, at_once: bool) -> bool:
        """Look at what a worker says; return whether it is to be restarted, with the fault mended.

        A worker that another has replaced may still stand at a record that is mended by now (seed 20407).
        """
        whys = [(number, why) for (_, number), why in worker.stopped().items() if "a fault of Sowline" in why]
        for number, why in whys:
            hold(
                any(
                    why.startswith(_at(offset))
                    for partition, offset in self._records | self._mended
                    if partition == number
                ),
                worker.name,
                number,
                "does not say which record it can't apply:",
                why,
            )
        if not whys or not (at_once or self._chance.random() < MENDED_SHARE):
            return False
        mended = {one for one in self._records if one[0] in dict(whys)}
        self._records -= mended
        self._mended |= mended
        return True


def _at(offset: int) -> str:
    return f"expected to apply the log record at offset {offset}, got RuntimeError: nobody foresaw this."
