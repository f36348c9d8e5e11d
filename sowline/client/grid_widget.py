"""The widget that shows a view in a notebook, over the custom messages of anywidget. The extra `notebook` has it.

Records travel in messages alone: what is in the traits of a widget, notebooks save.
"""

import logging
import threading
import time
from contextlib import ExitStack
from importlib.resources import files
from typing import Any

import anywidget

from sowline.client.displays import Displays
from sowline.client.local_view import LocalView

_FILES = files("sowline.client")

log = logging.getLogger("sowline")


class GridWidget(anywidget.AnyWidget):
    """A live grid of a view: it enters the view, and closes it when it is closed or no output shows it any more."""

    _esm = (_FILES / "grid.js").read_text()
    _css = (_FILES / "grid.css").read_text()

    def __init__(self, view: LocalView) -> None:
        self._view = view
        self._entered = ExitStack()
        self._lock = threading.Lock()
        self._displays = Displays()
        self._woken = threading.Event()
        self._is_closed = threading.Event()
        self._waits_for_step = False
        with ExitStack() as entering:
            entering.enter_context(view)
            super().__init__()
            self._entered = entering.pop_all()
        self.on_msg(self._receive)
        self.comm.on_close(lambda message: self.close())
        self._follow_close(self.comm)
        threading.Thread(target=self._push, name="sowline-widget", daemon=True).start()

    def _follow_close(self, comm: Any) -> None:
        """Close with the comm: marimo closes it with its cell, without a message to `on_close`."""
        close_comm = comm.close

        def close(*values: Any, **named: Any) -> None:
            close_comm(*values, **named)
            if not self._is_closed.is_set():
                self.close()

        comm.close = close

    def __repr__(self) -> str:
        """Return what notebooks save as the text of an output."""
        return f"<{type(self).__name__} of {self._view._topic}>"

    def close(self) -> None:
        """Remove the grid from all outputs, and end its subscription; the records of the view stay readable."""
        self._is_closed.set()
        self._woken.set()
        with self._lock:  # `send` would find half of a closed widget
            super().close()
        self._entered.close()

    def _receive(self, widget: object, content: object, buffers: object) -> None:
        with self._lock:
            self._displays.take(content, time.monotonic())
        self._woken.set()

    def _push(self) -> None:
        """Send what has changed, until the widget is closed."""
        try:
            while not self._is_closed.is_set():
                with self._lock:
                    timeout_seconds = self._displays.due_seconds(time.monotonic())
                self._woken.wait(timeout_seconds)
                self._woken.clear()
                # Whatever else happens in this pause goes into the same batches.
                if self._is_closed.wait(self._displays.pause_seconds(time.monotonic())):
                    return
                self._watch_next_step()
                with self._lock:
                    self._send_batches()
                    is_over = self._displays.drop_silent(time.monotonic())
                if is_over:
                    self.close()
        except Exception:
            log.exception("%r can no longer be kept up to date", self)
            self.close()

    def _watch_next_step(self) -> None:
        """Let the next step of the view wake the thread: one of those that are not in the next batches yet."""
        if not self._waits_for_step and self._view.error is None:
            self._waits_for_step = True
            self._view.wake_after(self._view.rows(0, 0).steps, self._note_step)

    def _note_step(self) -> None:
        self._waits_for_step = False
        self._woken.set()

    def _send_batches(self) -> None:
        batches: list[dict[str, Any]] = []
        if not self._is_closed.is_set():
            batches = self._displays.batches(time.monotonic(), self._view.rows)
        if batches:
            self.send({"batches": batches})
