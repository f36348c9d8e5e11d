"""What happens in a simulated world, written down line by line: the newest lines tell why a seed fails."""

from collections import deque
from collections.abc import Callable, MutableMapping
from typing import Any, Final

import structlog

LINES_MAX: Final = 240


class Trace:
    """The newest lines of a world; `at` returns its step, and its time in ms since it began."""

    def __init__(self, at: Callable[[], tuple[int, int]]) -> None:
        self._at = at
        self._lines: deque[tuple[Any, ...]] = deque(maxlen=LINES_MAX)
        self.events: list[dict[str, Any]] | None = None
        """What the models replay (`tests.simulation.events`); None if nobody wants it."""

    def __call__(self, *what: object) -> None:
        """Write down what happens."""
        self._lines.append((*self._at(), *what))

    def note(self, event: str, **fields: object) -> None:
        """Note an event for the models."""
        if self.events is not None:
            self.events.append({"event": event, **fields})

    def lines(self) -> list[str]:
        """Return what was written down last."""
        return [f"{step:4} {ms:7} ms  " + " ".join(map(str, what)) for step, ms, *what in self._lines]

    def note_log(self, logger: object, method: str, event: MutableMapping[str, Any]) -> str:
        """Write down what a service logs: a processor of structlog."""
        self("  logs", *(f"{name}={value}" for name, value in event.items()))
        raise structlog.DropEvent
