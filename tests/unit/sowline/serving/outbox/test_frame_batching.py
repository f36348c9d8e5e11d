"""Rounds: when writers are woken, on a clock that the test owns."""

from structlog.testing import capture_logs

from sowline.serving.outbox.frame_batching import WAIT_SECONDS_MAX, FrameBatching
from tests.property.clock import clock, on_clock


class Writers:
    """Those who are woken, and how long their turn takes."""

    def __init__(self, seconds: float) -> None:
        self.frame_batching = FrameBatching()
        self.woken: list[tuple[str, float]] = []
        self._seconds = seconds

    def wait(self, name: str) -> None:
        """Let a writer be woken in the next round."""
        self.frame_batching.add(lambda: self._wake(name))

    def _wake(self, name: str) -> None:
        self.woken.append((name, round(clock().time(), 6)))
        clock().call_soon(clock().spend, self._seconds)


@on_clock
async def test_after_quiet_the_round_begins_at_once() -> None:
    """All who wait are woken in it."""
    writers = Writers(0.0)
    for name in "ab":
        writers.wait(name)
    await clock().rest()
    writers.wait("c")
    await clock().rest()
    assert writers.woken == [("a", 0.0), ("b", 0.0), ("c", 0.0)]


@on_clock
async def test_rounds_are_half_their_length_apart() -> None:
    """Anyone who comes in between waits for the next; after a pause that is long over, for none."""
    writers = Writers(0.01)
    writers.wait("a")
    writers.wait("b")
    await clock().rest()
    writers.wait("c")
    await clock().rest()
    assert writers.woken == [("a", 0.0), ("b", 0.0)]
    await clock().tick(10)
    assert writers.woken[2:] == [("c", 0.03)]
    await clock().tick(1000)
    now = round(clock().time(), 6)
    writers.wait("d")
    await clock().rest()
    assert writers.woken[3:] == [("d", now)]


@on_clock
async def test_no_client_waits_long() -> None:
    """However long a round has taken."""
    writers = Writers(10.0)
    writers.wait("a")
    await clock().rest()
    writers.wait("b")
    await clock().tick(WAIT_SECONDS_MAX * 1000)
    assert writers.woken[1:] == [("b", 10 + WAIT_SECONDS_MAX)]


@on_clock
async def test_a_writer_that_fails_does_not_stop_the_others() -> None:
    """Neither those of its round, nor those of the next."""
    writers = Writers(0.0)

    def fail() -> None:
        raise ValueError

    writers.frame_batching.add(fail)
    writers.wait("a")
    with capture_logs() as logs:
        await clock().rest()
    writers.wait("b")
    await clock().rest()
    assert [name for name, _ in writers.woken] == ["a", "b"]
    assert [line["event"] for line in logs] == ["writer failed"]
