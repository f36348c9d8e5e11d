"""Ends a process whose test can't be interrupted: a plugin of pytest.

A test that exceeds its time is interrupted by an exception. What cleans up behind it may wait forever as well, and
with it the whole run. Some time later, the process prints what each thread does, and ends; the run names the test.
"""

import faulthandler
import os
from collections.abc import Generator

import pytest

GRACE_SECONDS = 60.0
"""Time for the end of a test that was interrupted."""

_STDERR = pytest.StashKey[int]()


def pytest_configure(config: pytest.Config) -> None:
    """Keep the standard error: in a test, it is captured, and would be lost with the process."""
    config.stash[_STDERR] = os.dup(2)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Let no test take longer than its limit and the grace."""
    _watch(item)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Watch again: pytest itself ends the watch once a test has failed."""
    _watch(item)


def _watch(item: pytest.Item) -> None:
    mark = item.get_closest_marker("timeout")
    seconds = float(item.config.getini("timeout") if mark is None else mark.args[0])
    faulthandler.dump_traceback_later(seconds + GRACE_SECONDS, exit=True, file=item.config.stash[_STDERR])
