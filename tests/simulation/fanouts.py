"""The fanout service as a process of the simulation, and a reader of what it writes."""

from __future__ import annotations

import json
from random import Random
from typing import TYPE_CHECKING, Any

from sowline.config.settings import Settings
from sowline.config.topics import Topics
from sowline.model.position import Position
from sowline_fanout.message import OutputMessage as Message
from sowline_fanout.service import FanoutService
from tests.property.model import FILTERS, Body
from tests.simulation.broker import Broker, Group, Written
from tests.simulation.process import Process
from tests.simulation.strands import Event, Strand
from tests.simulation.truth import Truth, hold

if TYPE_CHECKING:
    from tests.simulation.world import Simulation

FILTER = "/q > 5"


class Fanout(Process):
    """A fanout service with one fanout, of the records that match `FILTER`."""

    def __init__(self, name: str, chance: Random, broker: Broker, trace: Any, topics: Topics) -> None:
        changes, partitions = topics.topics[0].changes, range(topics.topics[0].partitions)
        super().__init__(
            name, chance, broker, Group(chance, [(changes, number) for number in partitions]), trace
        )
        self._topics = topics

    def start(self) -> None:
        """Start the process, which may have died without a word to its group."""
        self.trace(self.name, "starts")
        self.kill()
        self._leave()
        settings = Settings.model_construct(
            kafka=self.name, kafka_options={}, session_timeout_ms=6000, group="sowline"
        )
        self.service = FanoutService(settings, self._topics, Event())  # type: ignore[arg-type]
        self.begin(Strand(lambda: self.service.run_each(*self.service.runners.values())))

    def stop(self) -> None:
        """End the process, and let the group know."""
        self.kill()
        self._leave()

    def _leave(self) -> None:
        if self.consumer is not None:
            assert self.group is not None
            self.group.leave(self.consumer)

    def stopped(self) -> str | None:
        """Return why the fanout stopped for good, if it did."""
        [runners] = self.service.runners.values()
        return runners.why_stopped()


class FanoutReader:
    """Reads the fanout's topic from its beginning, as docs/fanout.md says, and checks each message."""

    def __init__(self, truth: Truth) -> None:
        self._truth = truth
        partitions = range(truth.definition.partitions)
        self._positions: dict[int, Position | None] = dict.fromkeys(partitions)
        self.messages = 0
        self.views: dict[int, dict[bytes, Body]] = {number: {} for number in partitions}

    def take(self, written: Written) -> None:
        """Read the next message."""
        number, key = written.partition_id[1], written.name or b""
        message = Message.read(written.body, written.about or [])
        view, held, position = self.views[number], self._positions[number], message.position
        self.messages += 1
        if position is not None:
            if held is not None and position <= held:
                return
            self._positions[number] = position
        body = json.loads(message.value)
        if message.command == "oof":
            view.pop(key, None)
        else:
            hold(FILTERS[FILTER](body), "the fanout writes", body, "which does not match")
            view[key] = body
        if position is not None:
            self._check(number, key, position, message.command, body)

    def _check(self, number: int, key: bytes, position: Position, command: str, body: Body) -> None:
        """A message shows what its change made of the record, or, where the record is gone, what it was."""
        before = Position(position.era, position.offset, position.nth - 1)
        for effect in self._truth.effects(number, before, position):
            shown = effect.now if effect.now is not None else effect.before
            about = (self._truth.key(effect.key), shown)
            hold((key, body) == about, "the fanout shows", key, body, "at", position, "not", about)
            matches = effect.now is not None and FILTERS[FILTER](effect.now)
            hold(matches == (command != "oof"), "the fanout writes", command, "at", position, effect)

    def is_level(self, number: int, offset: int) -> bool:
        """Tell whether a partition's view is the records that match after a log record."""
        expected = {
            key: body for key, body in self._truth.state(number, offset).items() if FILTERS[FILTER](body)
        }
        return self.views[number] == expected


class Fanouts:
    """The fanout of a simulation: its process, what goes wrong with it, and the reader of its topic.

    It takes its luck from a generator of its own, so that a seed is the same run of everything else.
    """

    def __init__(self, simulation: Simulation) -> None:
        self._world = simulation
        self._chance = simulation.chance_of("fanout")
        self.process = Fanout(
            "fanout",
            simulation.chance_of("fanout process"),
            simulation.broker,
            simulation.trace,
            simulation.topics,
        )
        simulation.processes[self.process.name] = self.process
        self.reader = FanoutReader(simulation.truth)

    def start(self) -> None:
        """Start the process, at once or some time later."""
        if self._chance.random() < 0.7:
            self.process.start()

    def take_turns(self) -> None:
        """Let it run a little; now and then it is killed, and starts again later."""
        chance, process, is_calm = self._chance, self.process, self._world.broker.is_calm
        if process.is_dead:
            if is_calm or chance.random() < 0.2:
                process.start()
        elif not is_calm and "service crash" in self._world.faults and chance.random() < 0.02:
            self._world.trace("fault: the fanout is killed, now or in the middle of something")
            if chance.random() < 0.5:
                process.stop()
            else:
                process.fuse, process.mishap = chance.randint(1, 40), "crash"
        for _ in range(20 if is_calm else chance.choice((0, 1, 3, 10))):
            process.turn()
        self._check_stopped()

    def _check_stopped(self) -> None:
        """A gap stops it for good, and only where changes were lost: then its group is deleted, as it asks for."""
        why = None if self.process.is_dead else self.process.stopped()
        if why is None:
            return
        hold(self._world.truth.may_expire and "delete its consumer group" in why, "the fanout stopped:", why)
        self._world.trace("operator deletes the group of the fanout:", why)
        self.process.stop()
        assert self.process.group is not None
        self.process.group.commits.clear()

    def lose_changes(self) -> None:
        """Kafka forgets what was committed of a topic that is deleted, sooner or later.

        The fanout may be down just then, and start while the topic is being filled again.
        """
        if self._chance.random() < 0.5:
            assert self.process.group is not None
            self.process.group.commits.clear()
        if self._chance.random() < 0.5 and not self.process.is_dead:
            self.process.stop()

    def unrest(self) -> list[str]:
        """Return in what the readers of the fanout differ from the records that match."""
        truth = self._world.truth
        return [
            f"the fanout's readers hold {self.reader.views[number]}, of {number}"
            for number in self.reader.views
            if not self.reader.is_level(number, truth.last(number))
        ]
