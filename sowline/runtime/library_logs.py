"""Writes messages of libraries and of Python itself to a service's log, in the log's format.

Without this module, uvicorn, websockets, asyncio, librdkafka, warnings and uncaught exceptions write plain text
between the lines of JSON, which a log collector can't parse.
"""

import logging
import sys
import threading
from types import TracebackType
from typing import TYPE_CHECKING

from sowline.lazy_log import log

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

LIBRDKAFKA = "librdkafka"
"""The logger of the Kafka client. It logs almost nothing unless its options `log_level` and `debug` are set."""

SYSLOG_LEVELS = (
    *[logging.CRITICAL] * 3,
    logging.ERROR,
    logging.WARNING,
    *[logging.INFO] * 2,
    logging.DEBUG,
)
"""The levels of Python's logging by those of syslog, which the Kafka client has."""

_LEVELS = (logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL)


class LibraryLines(logging.Handler):
    """Writes records of Python's logging as the event `library message`, with `logger` and `message`."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line, with the traceback if there is one. Never raise."""
        try:
            message = record.getMessage()
        except Exception:  # the arguments do not match the format
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
    # The client's own options select its lines: Python's default level would drop those that `debug` requests.
    logging.getLogger(LIBRDKAFKA).setLevel(logging.DEBUG)
    logging.captureWarnings(True)


def take_uncaught() -> None:
    """Write uncaught exceptions to the log, from all threads and from destructors."""
    sys.excepthook = _of_main
    threading.excepthook = _of_thread
    sys.unraisablehook = _unraisable


def _of_main(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    log.critical("uncaught exception", thread="MainThread", exc_info=error)


def _of_thread(given: threading.ExceptHookArgs) -> None:
    if given.exc_type is SystemExit:  # a normal way to end a thread; Python's hook ignores it, too
        return
    name = "" if given.thread is None else given.thread.name
    log.critical("uncaught exception", thread=name, exc_info=given.exc_value or True)


def _unraisable(given: "UnraisableHookArgs") -> None:
    log.error(
        "exception ignored",
        where=f"{given.err_msg or 'Exception ignored in'}: {given.object!r}",
        exc_info=given.exc_value or True,
    )
