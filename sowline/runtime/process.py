"""The common parts of every service process: logs, the listening socket, and stopping on a signal."""

import gc
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from importlib import import_module
from types import FrameType

import structlog
from confluent_kafka import KafkaException

from sowline.config.settings import Settings, read_settings
from sowline.config.topics import Topics, load_topics
from sowline.errors import SowlineError
from sowline.runtime import tracing
from sowline.runtime.descriptors import raise_limit
from sowline.runtime.library_logs import take_library_logs, take_uncaught
from sowline.runtime.programs import end_without_server

log = structlog.get_logger()

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)

WAITING_CONNECTIONS_MAX = 2048
"""Connections that may wait to be accepted."""


def set_up_logs() -> None:
    """Log to standard error: readable lines at a terminal, JSON otherwise.

    The log includes warnings and errors of libraries.
    """
    human = sys.stderr.isatty() or os.environ.get("SOWLINE_LOG") == "text"
    renderer = structlog.dev.ConsoleRenderer() if human else structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    take_library_logs()


def spare_the_collector() -> None:
    """Run the cyclic garbage collector less often: batches make many short-lived objects but no cycles."""
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)


def stop_signal() -> threading.Event:
    """Return an event that SIGINT and SIGTERM set; a service works until it is set."""
    # A separate thread sets the event, woken by Python's wakeup descriptor. A signal handler runs in the main thread.
    # It would have to wait until the main thread's current wait ends, and could deadlock while the main thread holds
    # the event's lock (test_signal_during_a_wait).
    stop = threading.Event()
    reading, writing = os.pipe()
    # The handler in C writes to the pipe: a full one must not stop the main thread.
    os.set_blocking(writing, False)

    def set_it() -> None:
        # The pipe has every signal that has a handler, also those that the program handles otherwise
        # (test_other_signals).
        while os.read(reading, 1)[0] not in STOP_SIGNALS:
            pass
        stop.set()

    threading.Thread(target=set_it, name="stop-signal", daemon=True).start()
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in STOP_SIGNALS:
        signal.signal(number, _leave_it_to_the_thread)
    return stop


def _leave_it_to_the_thread(number: int, frame: FrameType | None) -> None:
    """Do nothing: only signals that have a handler reach the wakeup descriptor."""


Serve = Callable[[Settings, Topics, threading.Event], None]


LISTENER = "SOWLINE_LISTENER"
"""The variable with the descriptor of a listening socket that the parent process has bound for this one."""


def listener(host: str, port: int) -> socket.socket:
    """Return a socket that listens at the address, on a free port if `port` is 0; raise `no port` if it is taken.

    It may be one that this process has inherited.
    """
    inherited = _inherited(port)
    return _bound(host, port) if inherited is None else inherited


def _inherited(port: int) -> socket.socket | None:
    """Return the socket that the parent process has bound to this port, if there is one."""
    number = os.environ.get(LISTENER, "")
    if not number.isdecimal():
        return None
    try:
        # A duplicate, because the variable may name a socket of another meaning: closing this object would close that
        # one (test_a_service_takes_the_socket_that_was_bound_for_it).
        found = socket.socket(fileno=os.dup(int(number)))
    except OSError:
        return None
    if found.family in (socket.AF_INET, socket.AF_INET6) and found.getsockname()[1] == port:
        return found
    found.close()
    return None


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=WAITING_CONNECTIONS_MAX)
    except OSError as error:
        why = str(error.strerror).partition(" (")[0]
        raise SowlineError(
            "no port",
            f"expected a free port at {host}:{port}, got: {why}; stop the program that uses it, or give another",
        ) from error
    # Without this option, a small frame waits up to 40 ms for the acknowledgement of the previous one. asyncio sets
    # the option only on sockets that name their protocol. The accepted sockets of this listener do not name it
    # (test_what_is_sent_goes_at_once).
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def main(module: str) -> None:
    """Run the service whose `serve` a module has, until a signal stops it.

    Log a fatal error as one sentence, and exit with code 1.
    """
    end_without_server()
    # After the check: if packages are missing, this import would end in a traceback. Before `gc.freeze`, so that the
    # collector is spared its objects.
    serve: Serve = import_module(module).serve
    set_up_logs()
    take_uncaught()
    raise_limit()
    spare_the_collector()
    stop = stop_signal()
    tracing.set_up(module.partition(".")[0].replace("_", "-"))
    try:
        settings = read_settings()
        serve(settings, load_topics(settings.config), stop)
    except (SowlineError, KafkaException) as error:
        log.error("stopped", why=str(error))
        sys.exit(1)
    finally:
        tracing.close()
