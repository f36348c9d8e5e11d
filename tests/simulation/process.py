"""A process that is played: it may end or stand still at any boundary between it and what is around it."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from tests.simulation.broker import Broker, Group
from tests.simulation.strands import Died, Strand, pause

if TYPE_CHECKING:
    from tests.simulation.clients import Consumer, Producer


class Process:
    """What the clients of a process share: its broker, its luck, and whether it lives.

    `fuse` counts down the boundaries to the next mishap, `mishap` is `crash` or `stall`.
    """

    def __init__(self, name: str, chance: Random, broker: Broker, group: Group | None, trace: Any) -> None:
        self.name = name
        self.chance = chance
        self.broker = broker
        self.group = group
        self.trace = trace
        self.strand: Strand | None = None
        self.consumer: Consumer | None = None
        self.producers: list[Producer] = []
        self.life = 0
        self.is_dead = True
        self.is_stalled = False
        self.skew = 0
        self.fuse = 0
        self.mishap = ""

    @property
    def kafka(self) -> dict[str, str]:
        """The configuration that its clients are made with."""
        return {"bootstrap.servers": self.name}

    @property
    def runs(self) -> bool:
        """Whether it can be given a turn."""
        return not self.is_dead and not self.is_stalled

    def boundary(self, what: str) -> None:
        """Something goes over the process's boundary: here it may die, or stand still."""
        if self.is_dead:
            raise Died
        if not self.fuse or self.strand is None or Strand.current is not self.strand:
            return
        self.fuse -= 1
        if self.fuse:
            return
        self.trace(self.name, self.mishap, what)
        if self.mishap == "crash":
            self.die()
            raise Died
        self.is_stalled = True
        pause()

    def die(self) -> None:
        """Be no more, as of this instant; its strand is yet to end."""
        self.trace.note("crash", by=self.name)
        self.is_dead = True
        self.is_stalled = False
        self.fuse = 0
        for producer in self.producers:
            producer.crash()
        self.producers = []

    def kill(self) -> None:
        """End the process where it stands."""
        if not self.is_dead:
            self.die()
        if self.strand is not None and Strand.current is not self.strand:
            self.strand.kill()

    def turn(self) -> None:
        """Let it run to its next pause."""
        if self.runs and self.strand is not None:
            self.strand.resume()

    def begin(self, strand: Strand) -> None:
        """Come to life."""
        self.life += 1
        self.is_dead = False
        self.is_stalled = False
        self.strand = strand
