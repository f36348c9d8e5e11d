"""A definition that changes while the materializers run: each takes it at its own time, as from its own file."""

from random import Random
from typing import TYPE_CHECKING

from tests.property.document_model import DocumentModel

if TYPE_CHECKING:
    from tests.simulation.world import Simulation

SHARE, DOCUMENTS_SHARE = 0.2, 0.6
"""Seeds whose definition changes: of those with records, and of those with documents, whose template changes, too."""

CHANGES, DOCUMENTS_CHANGES = 0.03, 0.08
"""The share of steps in which it changes. An owner takes a change only where it has applied its log to the end."""

KILLS = 4
"""How often owners are killed while it changes for the last time."""

SIZES, COUNTS = (64, 90, 1 << 20), (2, 5, 1000)
"""Limits between which it changes: of the bytes of a record, and of the number of records."""

TEMPLATES = tuple(
    f", template: {fields}"
    for fields in (
        "{type: review}",
        "{type: mine}",
        "{r: n}",
        "{r: m, type: review}",
        "{set: [x], longer: y}",
        "{}",
    )
)
"""Templates of documents: the first one is there from the beginning. Writers set some of these fields, too."""


class DefinitionPlay:
    """What changed definitions add to a simulation. They take their luck from a generator of their own."""

    def __init__(self, world: "Simulation", chance: Random) -> None:
        self._world = world
        self._chance = chance
        self._kills_left = 0

    def step(self) -> None:
        """Change the definition now and then, and let some workers take it."""
        has_documents = self._world.definition.documents
        if self._chance.random() < (DOCUMENTS_CHANGES if has_documents else CHANGES):
            self._change()
        self._pass_on(0.2)

    def finish(self) -> None:
        """Change the definition once more: every owner is at the end of its log, and takes it at once.

        Owners are killed meanwhile, so some are within the changes that a template makes.
        """
        self._change()
        self._kills_left = KILLS if "crash" in self._world.faults else 0

    def _change(self) -> None:
        world, chance = self._world, self._chance
        limits = f", records_max: {chance.choice(COUNTS)}"
        if world.definition.documents:
            # Documents have a limit of their own in this world.
            limits += chance.choice(TEMPLATES)
        else:
            limits += f", record_bytes_max: {chance.choice(SIZES)}"
        world.trace("the definition has other limits", limits)
        world.define(limits)

    def deliver(self) -> None:
        """Let every worker take the last definition."""
        self._pass_on(1.0)
        if self._kills_left and self._chance.random() < 0.2:
            self._kills_left -= 1
            self._world.mishaps.kill_soon(self._chance.choice(self._world.workers), self._chance)
        # A `define` is appended without waiting for it.
        for worker in self._world.workers:
            for producer in worker.producers:
                producer.deliver()

    def _pass_on(self, share: float) -> None:
        for worker in self._world.workers:
            if worker.runs and worker.topics is not self._world.topics and self._chance.random() < share:
                worker.redefine(self._world.topics)

    def unrest(self) -> list[str]:
        """Return the partitions whose log has no such definition yet."""
        topic = self._world.topics.topics[0]
        wanted = topic.limits.record_bytes_max, topic.limits.records_max
        found = list[str]()
        for number in range(topic.partitions):
            model = self._world.truth.model(number)
            is_as_wanted = (model.bytes_max, model.records_max) == wanted
            if isinstance(model, DocumentModel):
                template = topic.declared.template
                # A partition that refused it once may have room for it now: nobody asks again.
                is_as_wanted = template in model.refused or (is_as_wanted and model.template == template)
            if not is_as_wanted:
                found.append(f"[{number}] has other limits")
        return found
