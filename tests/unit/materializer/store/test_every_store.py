"""Every store runs one state machine: in memory, in RocksDB, read by a second process, simulated, written behind."""

import shutil
import tempfile
from contextlib import AbstractContextManager, closing
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest import TestCase

import pytest
from hypothesis import settings

from sowline.runtime.native import native_core
from sowline_materializer.store.rocksdb import RocksStore
from sowline_materializer.store.secondary import SecondaryStore
from tests.simulation.disk import Disks
from tests.simulation.process import Process
from tests.simulation.trace import Trace
from tests.store_machine import Disk, DiskMachine, StoreMachine, WrittenBehindMachine

sowline_native = native_core(None)


class RocksDisk(Disk):
    """RocksDB's files. Integration tests kill processes that write them; here the next process opens closed files."""

    def created(self) -> RocksStore:
        """Return a store in its own directory."""
        self.directory = Path(tempfile.mkdtemp(prefix="sowline-store-"))
        self.names = map(str, count())
        self.path = self.directory / next(self.names)
        self.is_finished = False
        return RocksStore(self.path, create=True)

    def first_commit(self) -> None:
        """Mark the store as finished, as a partition does: from now on RocksDB logs each commit."""
        self.store.mark_finished()
        self.is_finished = True

    def crash(self) -> None:
        """Open the files again, without what was never written to them."""
        # A copy of the files of an open store is not of one instant: compaction deletes files during the copy.
        self.store.close()
        self.store = RocksStore(self.path, create=False)

    def close(self) -> None:
        """Close the store, and remove its files."""
        self.store.close()
        shutil.rmtree(self.directory)


class SecondaryDisk(RocksDisk):
    """RocksDB's files, as a process reads them that has not opened the store for writing."""

    def reader(self) -> AbstractContextManager[Any]:
        """Return a store that reads the files of the open one."""
        if not self.is_finished:
            return super().reader()
        return closing(SecondaryStore(self.path, self.directory / next(self.names)))


class SimulatedDisk(Disk):
    """A disk of the simulation."""

    PATH = Path("disks/worker/orders/0")

    def created(self) -> Any:
        """Return a store on a disk of its own."""
        process = SimpleNamespace(
            name="worker", boundary=lambda at: None, is_dead=False, trace=Trace(lambda: (0, 0))
        )
        self.disks = Disks({"worker": cast("Process", process)}, lambda path, store: None)
        return self.disks.store_class()(self.PATH, create=True)  # type: ignore[call-arg]

    def first_commit(self) -> None:
        """Mark the store as finished."""
        self.store.mark_finished()

    def crash(self) -> None:
        """End the process, and open the store in the next one."""
        self.disks.released("worker")
        self.store = type(self.store)(self.PATH, create=False)


def machine(base: type[StoreMachine], kind: type[Disk], examples: int, **fields: object) -> type[TestCase]:
    """Return the tests of a machine over a kind of disk."""
    over_disk: Any = type(base.__name__, (base,), {"kind": kind, **fields})
    tests: Any = over_disk.TestCase
    tests.settings = settings(max_examples=examples, stateful_step_count=20)
    return cast("type[TestCase]", tests)


needs_native = pytest.mark.skipif(sowline_native is None, reason="no native core")

test_memory = machine(DiskMachine, Disk, 100)
test_rocks = machine(DiskMachine, RocksDisk, 20)
test_secondary = machine(DiskMachine, SecondaryDisk, 10)
test_simulated = machine(DiskMachine, SimulatedDisk, 50)
test_behind_memory = machine(WrittenBehindMachine, Disk, 100)
test_behind_rocks = machine(WrittenBehindMachine, RocksDisk, 20)
test_behind_simulated = machine(WrittenBehindMachine, SimulatedDisk, 50)
test_natively_behind_memory = needs_native(machine(WrittenBehindMachine, Disk, 100, native=sowline_native))
test_natively_behind_rocks = needs_native(machine(WrittenBehindMachine, RocksDisk, 20, native=sowline_native))
