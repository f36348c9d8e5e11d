"""The output of the demo: a live picture in a terminal, plain lines anywhere else."""

from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich.console import Console, RenderableType
from rich.live import Live

LINES_MAX = 20
"""The lines about flights that are printed for one refresh; the others are only counted."""


class Screen:
    """Shows a picture that is drawn again at each refresh or, without a terminal, the lines since the last one."""

    def __init__(self, console: Console, picture: Callable[[], RenderableType]) -> None:
        self._console = console
        self._picture = picture
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None
        self._lines: deque[str] = deque(maxlen=LINES_MAX)
        self._came = 0

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.refresh()
        if self._live is not None:
            self._live.stop()

    def add(self, line: str) -> None:
        """Note a line; a live picture has no use for it."""
        self._lines.append(line)
        self._came += 1

    def refresh(self) -> None:
        """Show the current state."""
        if self._live is not None:
            self._live.update(self._picture(), refresh=True)
        elif self._came:
            self._print_lines()
        self._lines.clear()
        self._came = 0

    def _print_lines(self) -> None:
        left_out = self._came - len(self._lines)
        if left_out:
            self._console.print(f"… {left_out:,} more", highlight=False)
        for line in self._lines:
            self._console.print(line, highlight=False, markup=False, soft_wrap=True)
