"""The positions that a client was sent: by one subscription, or over its whole connection. Pure."""

from collections.abc import Iterable, Mapping

from sowline.model.bookmark import Positions, PositionsByLog

NONE: PositionsByLog = {}
"""No positions; nothing is added to it."""


class SentPositions:
    """By log, the position of each partition in the last message of a subscription."""

    def __init__(self) -> None:
        self._positions: PositionsByLog = {}

    def note(self, positions: Mapping[str, Positions]) -> None:
        """Note the positions of a message."""
        for log, held in positions.items():
            self._positions.setdefault(log, {}).update(held)

    @property
    def positions(self) -> PositionsByLog:
        """The positions by log."""
        return self._positions


class SeenPositions:
    """By log, the newest position of each partition that a connection was sent: no later answer is older."""

    def __init__(self) -> None:
        self._positions: PositionsByLog = {}
        self._followed: dict[int, tuple[PositionsByLog, int]] = {}
        """Positions of streams that send the client everything, each with its number of subscriptions."""

    def note(self, positions: Mapping[str, Positions]) -> None:
        """Note the positions of an answer about the current records, or of a live message."""
        _advance(self._positions, positions)

    def follow(self, positions: PositionsByLog) -> None:
        """Count these positions as sent until `unfollow`; a stream advances them."""
        # By identity: the stream keeps changing this dict.
        _, times = self._followed.get(id(positions), (positions, 0))
        self._followed[id(positions)] = positions, times + 1

    def unfollow(self, positions: PositionsByLog) -> None:
        """Keep positions as they are now."""
        # First: afterwards nothing would know what the client was sent through the stream.
        self.note(positions)
        _, times = self._followed.pop(id(positions))
        if times > 1:
            self._followed[id(positions)] = positions, times - 1

    def _note_followed(self) -> None:
        # Only when asked: a stream advances far more often than its clients send commands.
        for positions, _ in self._followed.values():
            self.note(positions)

    def is_ahead_of(self, positions: Mapping[str, Positions]) -> bool:
        """Whether the client was sent a newer position of a partition than the one among these."""
        self._note_followed()
        return any(
            position < self._positions.get(log, {}).get(number, position)
            for log, held in positions.items()
            for number, position in held.items()
        )

    def floor(self, logs: Iterable[str], at_least: PositionsByLog = NONE) -> PositionsByLog:
        """Return the positions of these logs that an answer must have reached, including those of `at_least`."""
        self._note_followed()
        seen = {log: self._positions[log] for log in logs if log in self._positions}
        return newest(seen, at_least) if at_least else seen


def newest(one: Mapping[str, Positions], other: Mapping[str, Positions]) -> PositionsByLog:
    """Return the newer position of each partition."""
    found = {log: dict(held) for log, held in one.items()}
    _advance(found, other)
    return found


def _advance(positions: PositionsByLog, others: Mapping[str, Positions]) -> None:
    """Replace positions by others that are newer, and add those of other partitions."""
    for log, held in others.items():
        mine = positions.setdefault(log, {})
        for number, position in held.items():
            mine[number] = max(position, mine.get(number, position))
