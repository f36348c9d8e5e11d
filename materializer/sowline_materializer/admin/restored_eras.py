"""The eras in which a restored state continues. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sowline.model.position import Position
from sowline_materializer.core.checkpoint import Checkpoint


def in_their_eras(
    checkpoints: Sequence[Checkpoint], log_id: str, last_era: int, log_starts: Mapping[int, int]
) -> list[Checkpoint]:
    """Return the checkpoints of a topic's partitions from which a restored state continues.

    `last_era` is the last era that is known of the log from before it was dropped, or restored. A partition continues
    in its own era if the log is still that of the backup, and the era is after the last one. Otherwise it begins an
    era that was never used. Bookmarks of other eras, also those of the backup's own, may stand for changes that the
    restored state does not have: none of them is valid in the new era (test_no_bookmark_of_an_earlier_life_is_valid).
    """
    # A partition that finds nothing begins in the era after the last one. Its owner may have kept a store of it,
    # which must not count as one of the restored state (test_a_backup_begins_an_era_over_another_log).
    begun = max(last_era + 1, *(one.position.era for one in checkpoints)) + 1
    return [
        one
        if one.log_id == log_id and one.position.era > last_era
        else _in_era(one, begun, log_id, log_starts[number])
        for number, one in enumerate(checkpoints)
    ]


def _in_era(checkpoint: Checkpoint, era: int, log_id: str, log_start: int) -> Checkpoint:
    """Return a checkpoint at the beginning of an era in which no earlier position counts."""
    is_same = checkpoint.log_id == log_id
    offset = checkpoint.next_offset if is_same else log_start
    begun = checkpoint.new_era(log_id, offset)
    # The index distinguishes it from the position before the log, after which the log's changes are all that there
    # are. A client that starts there would miss the restored records.
    position = Position(era, offset - 1, 1)
    origins = checkpoint.origins if is_same else begun.origins
    return replace(begun, position=position, last_change=position, origins=origins)
