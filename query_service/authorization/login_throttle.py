"""Who fails to log on again and again, from one address, is answered later each time. Pure."""

from collections import OrderedDict
from typing import NamedTuple

FREE = 3
"""So many failures are answered at once."""

FIRST_SECONDS = 0.1
SECONDS_MAX = 5.0
FORGET_SECONDS = 60.0
"""After so long without a failure an address starts again at zero."""

ADDRESSES_MAX = 10_000


class _Failures(NamedTuple):
    times: int
    last: float


class LoginThrottle:
    """Counts recent failed logons of each address; times are of a monotonic clock, in seconds."""

    def __init__(self) -> None:
        self._failures: OrderedDict[str, _Failures] = OrderedDict()

    def failed(self, address: str, now: float) -> float:
        """Note a failure; return after how many seconds to answer it. A client that succeeds is not slowed."""
        before = self._failures.pop(address, None)
        count = before.times + 1 if before is not None and now - before.last < FORGET_SECONDS else 1
        self._failures[address] = _Failures(count, now)
        if len(self._failures) > ADDRESSES_MAX:
            self._failures.popitem(last=False)
        if count <= FREE:
            return 0.0
        return min(SECONDS_MAX, FIRST_SECONDS * 2.0 ** min(count - FREE - 1, 10))
