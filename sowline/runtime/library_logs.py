"""Reports of libraries and of Python itself, as lines of a service's log.

Without this, uvicorn, websockets, asyncio, librdkafka, warnings and uncaught exceptions write bare lines of text
between lines of JSON, and a collector of logs can't read those.
"""

import logging
import sys
import threading
from types import TracebackType
from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

log = structlog.get_logger()

LIBRDKAFKA = "librdkafka"
"""The logger of the Kafka client; it logs next to nothing unless its options `log_level` and `debug` say so."""

_LEVELS = (logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL)


class LibraryLines(logging.Handler):
    """Passes records of Python's logging on as the event `library message`, with `logger` and `message`."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line, with the traceback if there is one. Raises nothing."""
        try:
            message = record.getMessage()
        except Exception:  # its arguments do not fit its text
            message = f"{record.msg} {record.args}"
        level = max((level for level in _LEVELS if level <= record.levelno), default=logging.INFO)
        log.log(
            level, "library message", logger=record.name, message=message.strip(), exc_info=record.exc_info
        )


def take_library_logs() -> None:
    """Write warnings and errors of Python's logging, and Python's warnings, to the log. May be called again."""
    root = logging.getLogger()
    if not any(isinstance(handler, LibraryLines) for handler in root.handlers):
        root.addHandler(LibraryLines())
    logging.getLogger(LIBRDKAFKA).setLevel(logging.DEBUG)
    logging.captureWarnings(True)


def take_uncaught() -> None:
    """Write exceptions that nothing has caught to the log, of every thread and of destructors."""
    sys.excepthook = _of_main
    threading.excepthook = _of_thread
    sys.unraisablehook = _unraisable


def _of_main(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    log.critical("uncaught exception", thread="MainThread", exc_info=error)


def _of_thread(given: threading.ExceptHookArgs) -> None:
    if given.exc_type is SystemExit:  # the usual way to end a thread, as Python's own hook has it
        return
    name = "" if given.thread is None else given.thread.name
    log.critical("uncaught exception", thread=name, exc_info=given.exc_value or True)


def _unraisable(given: "UnraisableHookArgs") -> None:
    log.error(
        "exception ignored",
        where=f"{given.err_msg or 'Exception ignored in'}: {given.object!r}",
        exc_info=given.exc_value or True,
    )
