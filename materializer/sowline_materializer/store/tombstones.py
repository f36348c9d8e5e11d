"""The deleted records that a partition remembers for their publishers' numbers, until it may forget them."""

from array import array
from collections.abc import Iterable
from typing import Final

from sowline_materializer.core.step import Records

SPARE_MAX: Final = 4096
"""Finished entries, which still take their 16 bytes until they are half of all."""

NUMBER_MAX: Final = 2**64 - 1
NUMBER_DIGITS_MAX: Final = 20


class Tombstones:
    """Deleted records as (log time in ms, SOW key), in the order of their deletion.

    A SOW key that is a hash takes 16 bytes with its time; one from a publisher or a generator takes about 150 more.
    """

    def __init__(self, oldest_first: Iterable[tuple[int, bytes]]) -> None:
        self._times, self._keys = array("q"), array("Q")
        self._done = 0
        self._removed = 0
        self._texts: dict[int, bytes] = {}
        """Keys that are not decimal numbers of 64 bits, by the number of entries before them."""
        for time, key in oldest_first:
            self.add(time, key)

    def __len__(self) -> int:
        """Return the number of deleted records."""
        return len(self._times) - self._done

    def add(self, time: int, key: bytes) -> None:
        """Add a record that was just deleted."""
        number = _number(key)
        if number is None:
            self._texts[self._removed + len(self._times)] = key
        assert number is None or b"%d" % number == key, "a key that is kept as a number reads back"
        self._times.append(time)
        self._keys.append(number or 0)

    def forget(self, view: Records, since: int) -> None:
        """Remove the records whose numbers are from before `since`: nothing depends on them now."""
        while self and self._times[self._done] < since:
            assert self._done < len(self._keys), "there is an entry for each time"
            text = self._texts.pop(self._removed + self._done, None)
            key = b"%d" % self._keys[self._done] if text is None else text
            self._done += 1
            # The record may have come back, or was deleted again: then a later entry forgets it
            # (test_a_record_that_came_back_is_not_cleared).
            record = view.get(key)
            if record is not None and record.is_forgettable and record.time < since:
                view.put(key, None)
        if self._done > max(SPARE_MAX, len(self)):
            del self._times[: self._done], self._keys[: self._done]
            self._removed += self._done
            self._done = 0
            assert len(self._times) == len(self._keys), "there is a key for each time"


def _number(key: bytes) -> int | None:
    """Return the number that a SOW key spells; None if it is not a decimal number of 64 bits in its only spelling."""
    # Another spelling is another key: as a number, 007 would come back as 7 (test_keys_that_are_no_numbers).
    if not key.isdigit() or len(key) > NUMBER_DIGITS_MAX or (key[:1] == b"0" and key != b"0"):
        return None
    number = int(key)
    return number if number <= NUMBER_MAX else None
