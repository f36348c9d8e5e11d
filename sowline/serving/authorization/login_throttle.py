"""Slows down repeated failures to log on: each further failure from an address is answered later. Pure."""

from collections import OrderedDict
from typing import NamedTuple

FREE = 3
"""The number of failures that are answered at once."""

FIRST_SECONDS = 0.1
SECONDS_MAX = 5.0
FORGET_SECONDS = 60.0
"""Seconds without a failure after which the count of an address starts again at zero."""

ADDRESSES_MAX = 10_000


class _Failures(NamedTuple):
    times: int
    last: float


class LoginThrottle:
    """Counts recent failed logons of each address; times are of a monotonic clock, in seconds."""

    def __init__(self) -> None:
        self._failures: OrderedDict[str, _Failures] = OrderedDict()

    def note_failure(self, address: str, now: float) -> float:
        """Count a failure; return the seconds to wait before answering. A client that succeeds does not wait."""
        before = self._failures.pop(address, None)
        count = before.times + 1 if before is not None and now - before.last < FORGET_SECONDS else 1
        self._failures[address] = _Failures(count, now)
        # An attacker may have any number of IPv6 addresses: their counts must not fill the memory
        # (test_no_more_addresses_than_so_many).
        if len(self._failures) > ADDRESSES_MAX:
            self._failures.popitem(last=False)
        if count <= FREE:
            return 0.0
        # The exponent is limited, too: 2.0 to the power of 1024 raises OverflowError, and an address that has failed
        # so often would get an error of the service.
        return min(SECONDS_MAX, FIRST_SECONDS * 2.0 ** min(count - FREE - 1, 10))
