"""The positions that a client has seen: no later answer on its connection goes behind them. Pure."""

from collections.abc import Iterable, Mapping

from sowline.model.bookmark import Positions, parse_bookmark


class SeenPositions:
    """By log, the newest position of each partition that a connection was sent."""

    def __init__(self) -> None:
        self._positions: dict[str, Positions] = {}

    def note(self, positions: Mapping[str, Positions]) -> None:
        """Note the positions of an answer about the current records."""
        self._positions = newest(self._positions, positions)

    def floor(self, logs: Iterable[str], at_least: str = "") -> dict[str, Positions]:
        """Return the positions of these logs that an answer must have reached, including those of `at_least`.

        Raise `invalid bookmark` if `at_least` is no bookmark of positions.
        """
        seen = {log: self._positions[log] for log in logs if log in self._positions}
        return newest(seen, parse_bookmark(at_least)) if at_least else seen


def newest(one: Mapping[str, Positions], other: Mapping[str, Positions]) -> dict[str, Positions]:
    """Return the newer position of each partition."""
    logs = {**dict.fromkeys(one), **dict.fromkeys(other)}
    found: dict[str, Positions] = {}
    for log in logs:
        held = dict(one.get(log, {}))
        for number, position in other.get(log, {}).items():
            held[number] = max(position, held.get(number, position))
        found[log] = held
    return found
