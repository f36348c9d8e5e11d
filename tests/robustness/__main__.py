"""Faults in each kind of system, judged by `sowline check`: `python -m tests.robustness --minutes 60`.

In turn, each system runs the checker's workload while one kind of fault happens again and again. The report counts
runs, faults, checks and violations. The history of a run with violations is kept beside it. `--fault none --rounds 7`
counts 21 runs without faults, a third of them through a gateway.

A full disk needs root, who mounts a file system of some MiB for the state of workers. A slow disk needs the blkio
controller of cgroups v1 too. A clock that jumps needs libfaketime (Debian: `faketime`). A fault that this machine
can't have is left out, and the report names it.
"""

import argparse
import asyncio
import errno
import itertools
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, Self

from sowline.check.history import HistoryBegin, event_line
from sowline.check.recorder import Recorder
from sowline.runtime.local_kafka import LocalKafka
from tests.integration.checked import CheckedSystem, checked_system
from tests.integration.services import Service

RUN_SECONDS: Final = 15.0
PAUSE_SECONDS: Final = 3.0
JUMP_SECONDS: Final = 45
DISK_MIB: Final = 256
"""The size of the file system for the state of workers, which go on once 64 MiB are free."""
LIBFAKETIME: Final = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1")
THROTTLE: Final = Path("/sys/fs/cgroup/blkio/blkio.throttle.write_bps_device")
"""The limit of the root group: the kernel writes buffered pages on behalf of it."""
SLOW_BYTES_PER_SECOND: Final = 1 << 16
BETWEEN_SECONDS: Final = (1.0, 3.0)
"""The time from the end of a fault to the next one."""


class Topology(NamedTuple):
    """A kind of system: query services alone or as shards behind a gateway, and a number of materializers."""

    name: str
    shards: int
    workers: int


TOPOLOGIES: Final = (
    Topology("one of each", 1, 1),
    Topology("two materializers", 1, 2),
    Topology("gateway and three shards", 3, 1),
)


class RunningTopology(NamedTuple):
    """What can fail."""

    checked: CheckedSystem
    services: Sequence[Service]
    kafka: LocalKafka


class InjectedFault:
    """One kind of fault, and the luck that decides which process it meets."""

    def __init__(
        self, running: RunningTopology, chance: random.Random, over: threading.Event, recorder: Recorder
    ) -> None:
        self._recorder = recorder
        self._running = running
        self._chance = chance
        self._over = over

    def again_and_again(self, fault: Callable[["InjectedFault"], None]) -> int:
        """Let it happen until the run is over; return how often it did."""
        count = 0
        # Before the history begins, the checker does not try again: a fault there ends it without a verdict.
        while not self._recorder.events and not self._over.wait(0.1):
            pass
        while not self._over.wait(self._chance.uniform(*BETWEEN_SECONDS)):
            fault(self)
            count += 1
        return count

    def nothing(self) -> None:
        """No fault: the judge must find nothing here, either."""

    def kill(self) -> None:
        """`kill -9` of a service, which is started again."""
        service = self._chance.choice(self._running.services)
        service.kill()
        service.start().wait_ready()

    def stop(self) -> None:
        """An orderly end of a service, which is started again."""
        service = self._chance.choice(self._running.services)
        service.stop()
        service.start().wait_ready()

    def pause(self) -> None:
        """A service stands still for longer than its session in the consumer group."""
        service = self._chance.choice(self._running.services)
        service.signal(signal.SIGSTOP)
        self._over.wait(PAUSE_SECONDS)
        service.signal(signal.SIGCONT)
        service.wait_ready()

    def kill_broker(self) -> None:
        """`kill -9` of Kafka, which is started again."""
        self._running.kafka.kill()
        self._running.kafka.start()

    def fill_disk(self) -> None:
        """The disk of the workers is full for a while."""
        state = self._running.checked.system.directory / "sow"
        filler = state / "filler"
        try:
            with filler.open("wb", buffering=0) as file:
                while file.write(bytes(1 << 16)):
                    pass
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
        self._over.wait(PAUSE_SECONDS)
        filler.unlink(missing_ok=True)
        for service in self._running.services:
            service.wait_ready()

    def slow_disk(self) -> None:
        """The disk of the workers writes 64 KiB per second for a while."""
        device = (self._running.checked.system.directory / "sow").stat().st_dev
        name = f"{os.major(device)}:{os.minor(device)}"
        THROTTLE.write_text(f"{name} {SLOW_BYTES_PER_SECOND}")
        try:
            self._over.wait(PAUSE_SECONDS)
        finally:
            THROTTLE.write_text(f"{name} 0")
        for service in self._running.services:
            service.wait_ready()

    def move_clock(self) -> None:
        """The clock of a service jumps ahead, then back to before the first jump, while it runs."""
        service = self._chance.choice(self._running.services)
        clock = self._running.checked.system.directory / "clock"
        clock.write_text("+0")
        faked = {
            "LD_PRELOAD": LIBFAKETIME,
            "FAKETIME_TIMESTAMP_FILE": clock,
            "FAKETIME_NO_CACHE": 1,
            "FAKETIME_DONT_FAKE_MONOTONIC": 1,
        }
        service.stop()
        service.start(["env", *(f"{name}={value}" for name, value in faked.items())]).wait_ready()
        for seconds in (JUMP_SECONDS, -JUMP_SECONDS):
            clock.write_text(f"{seconds:+}")
            self._over.wait(PAUSE_SECONDS)
        service.wait_ready()
        # The process would end with the thread that started it.
        service.stop()
        service.start().wait_ready()


FAULTS: Final[dict[str, Callable[[InjectedFault], None]]] = {
    "none": InjectedFault.nothing,
    "kill -9": InjectedFault.kill,
    "stop": InjectedFault.stop,
    "pause": InjectedFault.pause,
    "kill -9 of the broker": InjectedFault.kill_broker,
    "full disk": InjectedFault.fill_disk,
    "slow disk": InjectedFault.slow_disk,
    "clock jump": InjectedFault.move_clock,
}
_NEEDED: Final[dict[str, Callable[[], bool]]] = {
    "full disk": lambda: os.geteuid() == 0,
    "slow disk": lambda: os.geteuid() == 0 and THROTTLE.exists(),
    "clock jump": LIBFAKETIME.exists,
}
"""What a fault needs of the machine."""


@dataclass
class RunCounts:
    """What was done with one topology and one fault."""

    runs: int = 0
    faults: int = 0
    checks: int = 0
    violations: int = 0

    def __iadd__(self, other: "RunCounts") -> Self:
        """Count what was done once more."""
        self.runs += other.runs
        self.faults += other.faults
        self.checks += other.checks
        self.violations += other.violations
        return self

    def row(self, *names: str) -> str:
        """Return a row of the report."""
        numbers = (self.runs, self.faults, self.checks, self.violations)
        return f"| {' | '.join([*names, *(f'{one:,}' for one in numbers)])} |"


@contextmanager
def _small_disk(directory: Path) -> Iterator[None]:
    """Mount a small file system, if that is allowed."""
    if not _NEEDED["full disk"]():
        yield
        return
    directory.mkdir()
    image = directory.with_suffix(".img")
    with image.open("wb") as file:
        file.truncate(DISK_MIB << 20)
    # A block device of its own: a limit on it slows nothing else.
    subprocess.run(["mkfs.ext4", "-q", image], check=True)
    subprocess.run(["mount", "-o", "loop", image, directory], check=True)
    (directory / "lost+found").rmdir()
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", directory], check=True)


@contextmanager
def running_topology(topology: Topology) -> Iterator[RunningTopology]:
    """Lend a system with a Kafka of its own."""
    with tempfile.TemporaryDirectory(prefix="sowline-robustness-") as name:
        directory = Path(name)
        with (
            _small_disk(directory / "sow"),
            LocalKafka(directory / "kafka") as kafka,
            checked_system(kafka.bootstrap, directory, topology.shards) as checked,
        ):
            more = [checked.system.service("materializer") for _ in range(topology.workers - 1)]
            for worker in more:
                worker.start().wait_ready()
            yield RunningTopology(checked, [*checked.services, *more], kafka)


def run_once(running: RunningTopology, fault: str, seed: int, out: Path) -> RunCounts:
    """Run the workload while a fault happens; keep the history if a guarantee was broken."""
    over, recorder = threading.Event(), Recorder(time.monotonic)
    injected = InjectedFault(running, random.Random(seed), over, recorder)
    with ThreadPoolExecutor(1) as pool:
        count = pool.submit(injected.again_and_again, FAULTS[fault])
        try:
            verdict, events = asyncio.run(running.checked.run(seed, RUN_SECONDS, recorder=recorder))
        finally:
            over.set()
    if verdict.violations:
        path = out / f"{fault.replace(' ', '-')}-{seed}.jsonl"
        path.write_bytes(b"".join(event_line(event) + b"\n" for event in events))
        print(*verdict.violations[:5], f"the history is in {path}", sep="\n", flush=True)
    if isinstance(begin := events[0], HistoryBegin) and begin.unchecked_fanouts:
        print(f"fanouts were not checked: {begin.unchecked_fanouts}", flush=True)
    faults = 0 if fault == "none" else count.result()
    return RunCounts(1, faults, verdict.checked.total(), len(verdict.violations))


def report(counted: dict[tuple[str, str], RunCounts], missing: Sequence[str]) -> str:
    """Return the report, as Markdown, with the faults that were not possible here."""
    every = RunCounts()
    for one in counted.values():
        every += one
    head = "| system | fault | runs | faults | checks | violations |\n|---|---|---|---|---|---|"
    rows = [head, *(one.row(*names) for names, one in counted.items()), every.row("all", "all")]
    left_out = [f"\nNot possible on this machine: {', '.join(missing)}."] if missing else []
    return "\n".join([*rows, *left_out]) + "\n"


def main() -> int:
    """Run all combinations in turn until the time is up; the exit code is 1 if a guarantee was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.robustness", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60, help="how long to go on; 0 runs each one once")
    parser.add_argument("--rounds", type=int, help="how often to run each combination, in place of minutes")
    parser.add_argument("--fault", action="append", choices=FAULTS, help="only this fault; repeatable")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 10**9, help="the first seed")
    parser.add_argument("--out", type=Path, default=Path("build/robustness"), help="where the report goes")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    deadline, seed = time.monotonic() + given.minutes * 60, given.seed
    missing = [fault for fault, is_possible in _NEEDED.items() if not is_possible()]
    faults = [fault for fault in given.fault or FAULTS if fault not in missing]
    counted = {(topology.name, fault): RunCounts() for topology in TOPOLOGIES for fault in faults}
    for number in itertools.count(1):
        for topology in TOPOLOGIES:
            with running_topology(topology) as running:
                for fault in faults:
                    found = run_once(running, fault, seed, given.out)
                    print(f"{topology.name}, {fault}, seed {seed}: {found}", flush=True)
                    counted[topology.name, fault] += found
                    seed += 1
                    (given.out / "report.md").write_text(report(counted, missing))
        if time.monotonic() >= deadline if given.rounds is None else number >= given.rounds:
            break
    print(report(counted, missing))
    return int(any(one.violations for one in counted.values()))


if __name__ == "__main__":
    sys.exit(main())
