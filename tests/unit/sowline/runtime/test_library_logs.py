"""What libraries and Python report: lines of JSON in a service's log, whatever they are."""

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from sowline.kafka.clients import logged, silent
from sowline.runtime.library_logs import LibraryLines

ROOT = Path(__file__).parents[4]

PROGRAM = """
import asyncio, gc, logging, sys, threading, warnings
from sowline.kafka.clients import plain_consumer
from sowline.runtime.process import main

def serve(settings, topics, stop):
    pass

def fail(text):
    raise ValueError(text)

class Broken:
    def __del__(self):
        fail("destructor")

async def nothing():
    pass

async def forget():
    task = asyncio.create_task(nothing())
    task.add_done_callback(lambda done: fail("callback"))
    await task

def load(path):
    logging.getLogger("uvicorn.error").warning("Invalid HTTP request received.\\n")
    logging.getLogger("websockets.server").error("opening handshake failed", exc_info=ValueError("two\\nlines"))
    logging.getLogger("a.library").info("not written")
    logging.getLogger("a.library").warning("%d of %d", 1)
    warnings.warn("old\\nand new", stacklevel=1)
    asyncio.run(forget())
    thread = threading.Thread(target=fail, args=("thread",), name="worker")
    thread.start()
    thread.join()
    Broken()
    gc.collect()
    consumer = plain_consumer({"bootstrap.servers": "127.0.0.1:1", "log_level": "7", "debug": "conf"})
    consumer.poll(0.1)
    consumer.close()
    fail("main")

import sowline.runtime.process
sowline.runtime.process.load_topics = load
main("__main__")
"""


def test_everything_that_a_service_writes_is_json() -> None:
    """Lines of libraries, warnings, uncaught exceptions wherever they are, and lines of Kafka's client."""
    environment = os.environ | {"SOWLINE_LOG": "json", "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "always"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=60
    )
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert (done.returncode, done.stdout) == (1, "")
    assert all(line.keys() >= {"timestamp", "level", "event"} for line in lines)
    messages = {
        (line["logger"], line["level"], line["message"].splitlines()[0])
        for line in lines
        if line["event"] == "library message" and line["logger"] not in ("py.warnings", "librdkafka")
    }
    assert messages == {
        ("uvicorn.error", "warning", "Invalid HTTP request received."),
        ("websockets.server", "error", "opening handshake failed"),
        ("a.library", "warning", "%d of %d (1,)"),
        ("asyncio", "error", messages_of_asyncio(lines)),
    }
    warned = [line["message"] for line in lines if line.get("logger") == "py.warnings"]
    assert any("old\nand new" in text for text in warned)
    assert any(line.get("logger") == "librdkafka" for line in lines)
    uncaught = [line for line in lines if line["event"] in ("uncaught exception", "exception ignored")]
    assert [(line.get("thread"), line["exception"].splitlines()[-1]) for line in uncaught] == [
        ("worker", "ValueError: thread"),
        (None, "ValueError: destructor"),
        ("MainThread", "ValueError: main"),
    ]


def messages_of_asyncio(lines: list[dict[str, str]]) -> str:
    """Return the first line of what asyncio says of the callback that failed."""
    (entry,) = (line for line in lines if line.get("logger") == "asyncio")
    assert entry["exception"].endswith("ValueError: callback")
    return entry["message"].splitlines()[0]


@given(st.integers(0, 60), st.text() | st.integers(), st.tuples() | st.tuples(st.text() | st.integers()))
def test_any_record_is_one_event(level: int, text: object, arguments: tuple[object, ...]) -> None:
    """Of a level that the log has, also where its arguments do not fit."""
    record = logging.LogRecord("a.library", level, "file", 1, text, arguments, None)
    with structlog.testing.capture_logs() as lines:
        LibraryLines().emit(record)
    (line,) = lines
    assert line["log_level"] in ("info", "warning", "error", "critical")
    assert (line["event"], line["logger"]) == ("library message", "a.library")


@pytest.mark.parametrize("given", [{}, {"debug": "all"}, {"debug": "all", "log_level": "7", "a": "b"}])
def test_a_client_that_is_not_polled_logs_nothing(given: dict[str, str]) -> None:
    """Nobody would pass its lines on; others pass theirs to Python's logging."""
    assert silent(given) == {key: given[key] for key in given if key == "a"} | {"log_level": "0"}
    assert logged(given).keys() == {"logger", *given}
