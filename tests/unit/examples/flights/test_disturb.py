"""The buttons of the landing page: what they report is what the visitor waited, and what was found."""

import asyncio
import os
import subprocess
import sys
import time
from contextlib import ExitStack
from typing import Any, cast

import pytest

from examples.flights.disturb import KAFKA, Disturbances
from examples.flights.processes import DemoError
from examples.flights.run import Run
from sowline.runtime.local_kafka import LocalKafka
from tests.waiting import as_soon_as, loop_turns


class Broker:
    """A broker that can be killed; it runs again once it is allowed to."""

    def __init__(self) -> None:
        self.may_start = asyncio.Event()
        self.calls: list[str] = []
        self._loop = asyncio.get_running_loop()

    def kill(self) -> None:
        """Note it."""
        self.calls.append("kill")

    def start(self) -> None:
        """Wait until it may run again."""
        asyncio.run_coroutine_threadsafe(self.may_start.wait(), self._loop).result()
        self.calls.append("start")


class Watched:
    """A run, as far as the buttons use it."""

    def __init__(self, *problems: str) -> None:
        self.written_s = time.time()
        self.sow_size = 17
        self._problems = list(problems)

    async def compared(self) -> list[str]:
        """Return what is wrong."""
        return self._problems


class Stalled(Watched):
    """A run that gives up waiting."""

    async def compared(self) -> list[str]:
        """Fail."""
        raise DemoError("nothing moved for 90 s")


async def disturbed(run: Watched) -> tuple[Disturbances, Broker, float]:
    """Kill Kafka, let changes come through again, and return how long that was waited for at least."""
    broker = Broker()
    disturbances = Disturbances(cast("Run", run), 0, cast("LocalKafka", broker))
    began = time.monotonic()
    pressed = asyncio.create_task(disturbances.disturb(KAFKA))
    await as_soon_as(lambda: broker.calls == ["kill"])
    away = time.monotonic() - began
    broker.may_start.set()
    await as_soon_as(lambda: broker.calls == ["kill", "start"])
    assert disturbances.is_busy
    assert disturbances.events[0].back_s is None
    run.written_s = time.time()
    await pressed
    return disturbances, broker, away


async def test_the_wait_is_measured_from_the_press() -> None:
    """The time in which Kafka is killed and starts is the visitor's, too."""
    disturbances, _, away = await disturbed(Watched())
    (event,) = disturbances.events
    assert event.back_s is not None
    assert event.back_s >= away
    assert (event.verdict, event.is_lossless, event.records) == ("nothing was lost", True, 17)
    assert not disturbances.is_busy


@pytest.mark.parametrize(
    ("run", "verdict"),
    [(Watched("the SOW differs"), "the SOW differs"), (Stalled(), "nothing moved for 90 s")],
    ids=["lost", "stalled"],
)
async def test_what_is_wrong_is_reported(run: Watched, verdict: str) -> None:
    """A loss, and a comparison that was not possible."""
    disturbances, _, _ = await disturbed(run)
    assert (disturbances.events[0].verdict, disturbances.events[0].is_lossless) == (verdict, False)


async def test_a_change_that_was_on_its_way_shows_nothing() -> None:
    """Only the change of a command that was written after the kill shows that the part is back."""
    run, program = Watched(), "import signal; print(flush=True); signal.pause()  # sowline_materializer"
    with (
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as victim,
        ExitStack() as stack,
    ):
        stack.callback(victim.kill)
        assert victim.stdout is not None
        victim.stdout.readline()
        disturbances = Disturbances(cast("Run", run), os.getpid(), cast("Any", None))
        pressed = asyncio.create_task(disturbances.disturb("materializer"))
        await as_soon_as(lambda: victim.poll() is not None)
        run.written_s = disturbances.events[0].pressed_s
        await loop_turns(1000)
        assert disturbances.events[0].back_s is None
        while not pressed.done():
            run.written_s = time.time()
            await loop_turns()
    assert victim.returncode < 0
    assert disturbances.events[0].is_lossless
