"""Clients of a gateway: they also send queries, ask for checksums, and subscribe to pages and groups."""

from random import Random
from typing import Any, NamedTuple

from sowline.client.stream import Stream
from sowline.errors import SowlineError
from sowline.model.bookmark import Positions, parse_bookmark
from sowline.model.key import hash_of
from sowline.model.position import Position
from sowline.subscriptions.ask import Ask
from sowline.subscriptions.lifecycle import Proving, Signal, State
from sowline.wire.client_message import Message, Received
from tests.property.model import FILTERS, Body
from tests.simulation.subscriber import Saved, Served, Subscriber, Wish
from tests.simulation.trace import Trace
from tests.simulation.truth import Truth, hold
from tests.simulation.views import Shape, Shown, matching, query_shape, view_shape

PASSING = frozenset({"shard unavailable", "behind", "not ready"})
"""Reasons of a gateway whose nodes are lost or behind."""

WITH_POSITIONS = frozenset({"publish", "oof", "progress", "group_end"})
"""The messages of a subscription whose bookmarks say where it stands."""

PROOF_SHARE, QUERY_SHARE = 0.1, 0.25


class Inquiry(NamedTuple):
    """A query that was sent: what it asks for, and what the connection had shown before."""

    shape: Shape
    filter: str
    floor: Positions


class Inquiries:
    """The queries of one client, over the connection that it has just now. Each answer is checked."""

    def __init__(self, name: str, truth: Truth, chance: Random, trace: Trace, topic: str) -> None:
        self._name = name
        self._truth = truth
        self._chance = chance
        self._trace = trace
        self._topic = topic
        self._ids = 0
        self._asked: dict[str, Inquiry] = {}
        self._records: dict[str, Shown] = {}
        self._seen: Positions = {}
        """The newest positions that the connection has shown."""
        self.is_answered = False
        """Whether a query was answered since this was last set to False."""
        self.answers = 0

    def connected(self) -> None:
        """Begin on a new connection."""
        self._asked.clear()
        self._records.clear()
        self._seen = {}

    @property
    def is_open(self) -> bool:
        """Whether an answer is due."""
        return bool(self._asked)

    def next_request(self) -> dict[str, Any]:
        """Return a query."""
        chance = self._chance
        self._ids += 1
        id = f"{self._name}?{self._ids}"
        shape = query_shape(chance)
        filter = chance.choice(("1=1", "/q > 5", "/q IN (1,2,3)"))
        self._asked[id] = Inquiry(shape, filter, dict(self._seen))
        self._records[id] = []
        self._trace(self._name, "asks", id, shape, filter, "at least", self._seen)
        given = {"command": "sow", "command_id": id, "topic": self._topic, "filter": filter}
        options = {"options": shape.options} if shape.options else {}
        return given | {"ack_type": "completed", "batch_size": 2} | shape.fields | options

    def take(self, received: Received) -> None:
        """Take a message of the connection."""
        (id, *others) = received.streams
        inquiry = None if others else self._asked.get(id)
        if inquiry is None:
            if received.bookmark is not None and received.command in WITH_POSITIONS:
                self._see(self._read(received.bookmark))
            return
        for message in received.messages():
            if message.command == "sow":
                assert message.sow_key is not None
                name = inquiry.shape.name(message.sow_key.encode(), message.data)
                self._records[id].append((name, message.data))
            elif message.command == "group_end":
                self._check(id, inquiry, message)
            elif received.command == "ack":
                self._end(id, received)

    def _read(self, bookmark: str) -> Positions:
        return {} if bookmark == "epoch" else parse_bookmark(bookmark)[self._truth.definition.log]

    def _see(self, positions: Positions) -> None:
        for number, position in positions.items():
            self._seen[number] = max(position, self._seen.get(number, position))

    def _check(self, id: str, inquiry: Inquiry, message: Message) -> None:
        assert message.bookmark is not None
        positions = self._read(message.bookmark)
        check_whole(self._name, self._truth, positions)
        for number, seen in inquiry.floor.items():
            position = positions.get(number, seen)
            hold(position >= seen, self._name, id, "is answered at", position, "in", number, "after", seen)
        self._see(positions)
        matches = FILTERS[inquiry.filter]
        records = matching(self._truth, positions, lambda body, of: matches(body))
        if records is None:
            return
        found, expected = self._records[id], inquiry.shape.of(records)
        if not inquiry.shape.order_by:
            found, expected = sorted(found, key=str), sorted(expected, key=str)
        hold(found == expected, self._name, id, "is answered", found, "at", positions, "not", expected)

    def _end(self, id: str, ack: Received) -> None:
        if ack.status == "failure":
            self._trace(self._name, id, "is refused:", ack.reason, ack.message)
            hold(ack.reason in PASSING, self._name, id, "is refused:", ack.reason, ack.message)
        else:
            self.is_answered = True
            self.answers += 1
        del self._asked[id], self._records[id]


def check_whole(name: str, truth: Truth, positions: Positions) -> None:
    """Check that no partition was left out without a word."""
    expected = set(range(truth.definition.partitions))
    hold(set(positions) == expected, name, "gets a bookmark of partitions", set(positions), "not", expected)


class GatewaySubscriber(Subscriber):
    """A subscriber that a gateway serves: over its connection it also sends queries, and asks for checksums."""

    def __init__(self, name: str, wish: Wish, truth: Truth, chance: Random, trace: Trace, topic: str) -> None:
        self.inquiries = Inquiries(name, truth, chance, trace, topic)
        self.proofs = 0
        super().__init__(name, wish, truth, chance, trace, topic)

    def connect(self, service: Served) -> None:
        """Connect, and ask for what is missing."""
        super().connect(service)
        self.inquiries.connected()

    async def _receive(self, received: Received) -> None:
        self.inquiries.take(received)
        await super()._receive(received)

    async def read(self, limit: int) -> None:
        """Let the program take some messages, and ask something."""
        await super().read(limit)
        if not self.is_connected:
            return
        if not self.inquiries.is_open and self._chance.random() < QUERY_SHARE:
            self._send(self.inquiries.next_request())
        if self._may_ask_for_proof and self._chance.random() < PROOF_SHARE:
            self.stream.handle(Signal.PROVE)
            self._send_all()

    @property
    def _may_ask_for_proof(self) -> bool:
        machine = self.stream.machine
        is_accepted = machine.state in (State.SNAPSHOT, State.CATCHING_UP, State.LIVE)
        may_ask = is_accepted and machine.bookmark is not None and machine.proof is Proving.NONE
        return self.wish.oof and may_ask

    def _failed(self, error: SowlineError) -> None:
        if (
            error.reason == "behind" and self.stream.bookmark is None
        ):  # a node was lost, and the others are behind
            self.restart()
        else:
            super()._failed(error)

    def _take(self, message: Message) -> None:
        if message.command == "progress":
            self._check_proof(message)
        else:
            super()._take(message)

    def _check_proof(self, message: Message) -> None:
        """What the service counts is what the client holds."""
        if not message.hash:
            reasons = PASSING | {"invalid subid"}  # the subscription may have failed meanwhile
            hold(message.reason in reasons, self.name, "gets no checksum:", message.reason)
            return
        found = len(self.view), f"{hash_of(self.view):016x}"
        expected = message.records, message.hash
        hold(found == expected, self.name, "holds", self.view, "at", message.bookmark, "and not", expected)
        self.proofs += 1

    def _end_group(self, message: Message) -> None:
        assert message.bookmark is not None
        check_whole(self.name, self._truth, self._read(message.bookmark))
        super()._end_group(message)


class Viewer(GatewaySubscriber):
    """A subscriber to a page or to groups."""

    def __init__(self, name: str, wish: Wish, truth: Truth, chance: Random, trace: Trace, topic: str) -> None:
        self.shape = view_shape(chance)
        self._is_back = False
        """Whether it has connected, and was sent nothing since."""
        self._step: list[tuple[bytes, bool]] = []
        """What the messages of a step are about, and whether it was held before."""
        # Without the messages about what leaves, nobody could say what a client of a view holds.
        wish = wish._replace(oof=True, condition="", no_redundant=False, intrinsics=False)
        super().__init__(name, wish, truth, chance, trace, topic)

    def _new_stream(self, saved: Saved | None) -> Stream:
        self._ids += 1
        ask = Ask(
            f"sow_and_{self.wish.command}",
            self._topic,
            filter=self.wish.filter,
            options=",".join(filter(None, [self.wish.options, self.shape.options])),
            bookmark=saved.bookmark if saved else "",
            batch_size=2,
            **self.shape.fields,
        )
        self._group = None
        self._step = []
        self.view = dict(saved.view) if saved else {}
        self.positions = dict(saved.positions) if saved else {}
        return Stream(f"{self.name}-{self._ids}", ask)

    def connect(self, service: Served) -> None:
        """Connect, and ask for what is missing."""
        self._is_back = True
        super().connect(service)

    def _follow(self, message: Message) -> None:
        """Take a message of a step; at its end the view is the one at its bookmark."""
        assert message.sow_key is not None
        assert message.bookmark is not None
        key = message.sow_key.encode()
        self._step.append((key, message.command == "publish" and key in self.view))
        self._apply(message)
        if message.more:
            return
        positions, step, self._step = self._read(message.bookmark), self._step, []
        check_whole(self.name, self._truth, positions)
        effects = []
        for number, position in positions.items():
            before = self.positions.get(number, Position(0, -1))
            hold(
                position >= before,
                self.name,
                "gets the position",
                position,
                "in",
                number,
                "and is at",
                before,
            )
            effects += self._truth.effects(number, before, position)
        self.positions = positions
        self._check_view(message.bookmark)
        is_back, self._is_back = self._is_back, False
        for key, was_held in step:
            # When that was changed which a client comes back with may be unknown. Then it is sent once more.
            if was_held and not is_back:
                name = self.shape.name(key, self.view[key])
                is_due = self.shape.is_touched(name, self.wish.filter, effects, self._truth)
                hold(is_due, self.name, "gets", name, "again at", message.bookmark)

    def _note_positions(self) -> None:
        bookmark = self.stream.bookmark
        if bookmark is None or self._group is not None or self._step:
            return
        positions = self._read(bookmark)
        for number, position in positions.items():
            before = self.positions.get(number, Position(0, -1))
            hold(position >= before, self.name, "goes back from", before, "to", position, "in", number)
        self.positions = positions
        self._check_view(bookmark)
        if self._chance.random() < 0.3:
            self.saved = Saved(bookmark, dict(self.view), dict(self.positions))

    def _expected(self, positions: Positions) -> dict[Any, Body] | None:
        records = matching(self._truth, positions, self.wish.matches)
        return None if records is None else dict(self.shape.of(records))

    def _check_view(self, where: str) -> None:
        expected = self._expected(self.positions)
        if expected is not None:
            found = {self.shape.name(key, body): body for key, body in self.view.items()}
            hold(found == expected, self.name, "holds", found, "at", where, "not", expected)

    def is_level(self) -> bool:
        """Tell whether it shows what the logs end with."""
        if self.stream.bookmark is None or self._step:
            return False
        numbers = range(self._truth.definition.partitions)
        ends = {number: Position(0, self._truth.last(number), 1 << 30) for number in numbers}
        found = {self.shape.name(key, body): body for key, body in self.view.items()}
        return found == self._expected(ends)
