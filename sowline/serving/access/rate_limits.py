"""Limits the commands per second of each user. Commands above the limit are read later, or refused. Pure."""

from collections import OrderedDict

BURST_SECONDS = 1.0
"""Seconds of unused rate that a user may use at once."""

USERS_MAX = 10_000


class UserRate:
    """The recent commands of one user; times are of a monotonic clock, in seconds."""

    def __init__(self, per_second: float, now: float) -> None:
        self._per_second = per_second
        self._free = per_second * BURST_SECONDS
        self._at = now

    def owed(self, now: float) -> float:
        """Return how many seconds the user must wait before the next command."""
        return max(0.0, -self._free_at(now) / self._per_second)

    def take(self, commands: int, now: float) -> float:
        """Count commands; return how many seconds the user must wait before the next one."""
        self._free, self._at = self._free_at(now) - commands, now
        return self.owed(now)

    def _free_at(self, now: float) -> float:
        return min(self._per_second * BURST_SECONDS, self._free + (now - self._at) * self._per_second)


class Rates:
    """The rates of all users. 0 for `per_second` is no limit."""

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._rates: OrderedDict[str, UserRate] = OrderedDict()
        self.slowed = 0
        """The number of times that a user had to wait."""

    def take(self, user: str, commands: int, now: float) -> float:
        """Count commands of a user; return how many seconds the user must wait before the next one."""
        if not self._per_second:
            return 0.0
        rate = self._rates.pop(user, None) or UserRate(self._per_second, now)
        self._rates[user] = rate
        # Each address that sends a request gets an entry. The one that was idle for longest can go: by now it may use
        # its whole rate again.
        if len(self._rates) > USERS_MAX:
            self._rates.popitem(last=False)
        owed = rate.take(commands, now)
        self.slowed += owed > 0
        return owed

    def owed(self, user: str, now: float) -> float:
        """Return how many seconds a user must wait before the next command."""
        rate = self._rates.get(user)
        return 0.0 if rate is None else rate.owed(now)
