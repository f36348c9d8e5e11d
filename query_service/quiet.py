"""When a client is to be told where its subscription stands: where no message has told it for a while. Pure."""

from query_service.asking import Places

TICKS = 4
"""Looks in a row at which nothing was told, before something is to be said."""


class Quiet:
    """Looks at one subscription, again and again."""

    def __init__(self) -> None:
        self._ticks = 0
        self._said: Places = {}

    def look(self, was_told: bool, places: Places) -> bool:
        """Tell whether to say where it stands; `was_told` says whether a message was sent since the last look."""
        self._ticks = 0 if was_told else self._ticks + 1
        if self._ticks < TICKS or places == self._said:
            return False
        self._ticks = 0
        self._said = places
        return True
