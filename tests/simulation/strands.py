"""Threads of which one runs at a time, until it hands back by itself: so that a seed decides who comes when."""

import threading
from collections.abc import Callable
from typing import Any, ClassVar


class Died(BaseException):
    """The process that a strand belongs to is no more."""


class Strand:
    """One blocking thread of a process that is played. It runs while the simulation waits in `resume`."""

    current: "Strand | None" = None

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._mine, self._theirs = threading.Lock(), threading.Lock()
        self._mine.acquire()
        self._theirs.acquire()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._is_started = self._is_dying = False
        self._error: BaseException | None = None
        self.ended = False

    @property
    def ident(self) -> int | None:
        """How Python names its thread."""
        return self._thread.ident

    def _run(self) -> None:
        self._mine.acquire()
        try:
            if not self._is_dying:
                self._work()
        except Died:
            pass
        except BaseException as error:
            self._error = error
        self.ended = True
        self._theirs.release()

    def resume(self) -> None:
        """Let it run until it pauses or ends; raises what it ended with."""
        if self.ended:
            return
        if not self._is_started:
            self._is_started = True
            self._thread.start()
        Strand.current = self
        self._mine.release()
        self._theirs.acquire()
        Strand.current = None
        if self.ended:
            self._thread.join()
        if self._error is not None:
            raise self._error

    def pause(self) -> None:
        """Hand back to the simulation; called in the strand. Raises `Died` where it is not to go on."""
        if self._is_dying:
            raise Died
        self._theirs.release()
        self._mine.acquire()
        if self._is_dying:
            raise Died

    def kill(self) -> None:
        """End it where it stands."""
        self._is_dying = True
        if self._is_started:
            self.resume()
        self.ended = True


def pause() -> None:
    """Let others run, if it is a strand that asks."""
    if Strand.current is not None:
        Strand.current.pause()


class Event:
    """Stands in for `threading.Event`: who waits, lets others run."""

    def __init__(self) -> None:
        self._is_set = False

    def is_set(self) -> bool:
        """Tell whether it is set."""
        return self._is_set

    def set(self) -> None:
        """Set it."""
        self._is_set = True

    def clear(self) -> None:
        """Take that back."""
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        """Let others run, once."""
        if not self._is_set:
            pause()
        return self._is_set


class Thread:
    """Stands in for `threading.Thread`: a strand that the simulation takes over."""

    started: ClassVar[list[Strand]] = []
    """Those that nobody has taken over yet."""

    def __init__(self, target: Callable[[], None], **_: Any) -> None:
        self._strand = Strand(target)

    def start(self) -> None:
        """Nothing yet: the simulation says when it runs."""
        Thread.started.append(self._strand)

    def join(self, timeout: float | None = None) -> None:
        """Nothing: the simulation ends it."""
