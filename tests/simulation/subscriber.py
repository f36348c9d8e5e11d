"""A client that is played: the real stream of the client library, and whether what it says is so."""

import json
from random import Random
from typing import Any, NamedTuple, Protocol

import orjson

from sowline.client.stream import Stream, stream_id
from sowline.errors import SowlineError
from sowline.model.bookmark import Positions, parse_bookmark
from sowline.model.position import Position
from sowline.serving.outbox.outbox import Outbox
from sowline.serving.sessions.session import Session
from sowline.subscriptions.ask import Ask
from sowline.subscriptions.lifecycle import Again, AskLater, ConnectionMade, SendAsk, Signal, Take
from sowline.wire.client_message import Message, Received, read_frame
from tests.property.document_model import CONDITIONS
from tests.property.model import FILTERS, Account, Body, Effect, merged
from tests.simulation.trace import Trace
from tests.simulation.truth import Truth, hold


class Served(Protocol):
    """What a client can connect to: a query service, or a gateway."""

    name: str

    def new_session(self, outbox: Outbox) -> Session:
        """Return the session of a client that has connected."""

    def end_session(self, session: Session) -> None:
        """End the session of a client that has gone."""


class Wish(NamedTuple):
    """What a client asks for; the last three of documents."""

    filter: str
    oof: bool
    delta: bool
    conflation: bool
    reset: bool
    condition: str = ""
    no_redundant: bool = False
    intrinsics: bool = False

    @property
    def options(self) -> str:
        """The options as text."""
        given = {
            "oof": self.oof,
            "conflation=100ms": self.conflation,
            "reset": self.reset,
            "no_redundant": self.no_redundant,
            "intrinsics": self.intrinsics,
        }
        return ",".join(name for name, wanted in given.items() if wanted)

    @property
    def command(self) -> str:
        """The kind of subscription, without its snapshot."""
        return "delta_subscribe" if self.delta else "subscribe"

    def matches(self, body: Body | None, account: Account | None) -> bool:
        """Tell whether a record is one of those that are wanted."""
        if body is None or not FILTERS[self.filter](body):
            return False
        return account is None or CONDITIONS[self.condition](body, account)

    def is_sent(self, effect: Effect) -> str | None:
        """Return the message that a change is due to the client: `publish`, `oof` or none."""
        if not effect.is_write and effect.before == effect.now:
            return None
        before, now = effect.account_before, effect.account
        matched = self.matches(effect.before, before)
        if self.matches(effect.now, now):
            is_silent = self.no_redundant and matched and now is not None and now.redundant
            return None if is_silent else "publish"
        return "oof" if self.oof and matched else None


class Saved(NamedTuple):
    """What a client's program has written down."""

    bookmark: str
    view: dict[bytes, Body]
    positions: Positions


class Subscriber:
    """One subscription over connections that come and go; each message is checked as the program gets it."""

    def __init__(self, name: str, wish: Wish, truth: Truth, chance: Random, trace: Trace, topic: str) -> None:
        self.name = name
        self.wish = wish
        self._truth = truth
        self._chance = chance
        self._trace = trace
        self._topic = topic
        self._log = truth.definition.log
        self._ids = 0
        self.service: Served | None = None
        self._session: Session | None = None
        self._outbox: Outbox | None = None
        self._again: int | None = None
        self.view: dict[bytes, Body] = {}
        self._group: dict[bytes, Body] | None = None
        self.positions: Positions = {}
        self.saved: Saved | None = None
        self.groups = self.messages = self.expired = 0
        self._has_news = False
        self.has_waited = False
        self.stream = self._new_stream(None)

    def _new_stream(self, saved: Saved | None) -> Stream:
        self._ids += 1
        command = self.wish.command if saved else f"sow_and_{self.wish.command}"
        ask = Ask(
            command,
            self._topic,
            filter=self.wish.filter,
            condition=self.wish.condition,
            options=self.wish.options,
            bookmark=saved.bookmark if saved else "",
            batch_size=2,
        )
        self._group = None
        self.view = dict(saved.view) if saved else {}
        self.positions = dict(saved.positions) if saved else {}
        return Stream(f"{self.name}-{self._ids}", ask)

    # the connection

    @property
    def is_connected(self) -> bool:
        """Whether there is somebody to talk to."""
        return self._session is not None

    def connect(self, service: Served) -> None:
        """Connect, and ask for what is missing."""
        self.stream.handle(ConnectionMade())
        if self.stream.machine.is_over:  # it has failed, and its program is yet to read that
            self._has_news = True
            return
        ask = self._going_on()
        self.has_waited = False
        self.service = service
        self._outbox = Outbox(self._chance.choice((300, 3000, 1 << 20)))
        self._session = service.new_session(self._outbox)
        self._trace(self.name, "connects to", service.name, ask.command, ask.bookmark)
        self._send_all()

    def _going_on(self) -> Ask:
        return next(action.ask for action in self.stream.outgoing if isinstance(action, SendAsk))

    def _send_all(self) -> None:
        """Send what the stream has to send; what the service was not ready for waits."""
        assert self.service is not None
        while self.stream.outgoing:
            action = self.stream.outgoing.popleft()
            if isinstance(action, AskLater):
                self._again = action.number
            else:
                if isinstance(action, SendAsk):
                    self._trace.note(
                        "subscribe",
                        by=self.name,
                        to=self.service.name,
                        ask=action.ask,
                        outbox=self._outbox,
                    )
                self._send(self.stream.request(action))

    def _send(self, request: dict[str, Any]) -> None:
        assert self._session is not None
        self._session.receive_one(orjson.dumps(request))

    def disconnect(self) -> None:
        """Vanish."""
        if self._session is not None and self.service is not None:
            self._trace.note("disconnect", by=self.name)
            self.service.end_session(self._session)
            self.stream.handle(Signal.LOST)
        self.service = self._session = self._outbox = self._again = None

    def restart(self) -> None:
        """The program begins again from what it has written down."""
        self.disconnect()
        self.stream.close()
        self._trace(self.name, "begins again at", self.saved.bookmark if self.saved else None)
        self._trace.note("restart", by=self.name)
        self.stream = self._new_stream(self.saved)

    async def receive(self, frames: int) -> None:
        """Take some frames from the connection."""
        while frames and self._outbox is not None and (taken := self._outbox.take_now()):
            frames -= 1
            for message in taken:
                for received in read_frame(message):
                    await self._receive(received)

    async def _receive(self, received: Received) -> None:
        if self.stream.id not in map(stream_id, received.streams):
            return
        if received.command == "ack":
            if received.status == "failure":
                self._trace.note("refuse", by=self.name)
        else:
            for message in received.messages():
                self._trace.note("receive", by=self.name, message=message)
        self.stream.receive(received)
        self._send_all()
        self._has_news = True

    def ask_again(self) -> None:
        """Ask once more, where the service was not ready."""
        if self._again is not None and self._session is not None:
            self.stream.handle(Again(self._again))
            self._again = None
            self._send_all()

    # the program

    async def read(self, limit: int) -> None:
        """Let the program take some messages, and check them."""
        if not self._has_news:
            return
        self._has_news = False
        machine = self.stream.machine
        machine.handle(Take(0))
        if machine.taken.inbox or machine.error is not None:
            try:
                batch = await self.stream.next_batch(limit)
            except SowlineError as error:
                self._failed(error)
                return
            for message in batch:
                self._take(message)
            self._has_news = bool(machine.taken.inbox) or machine.error is not None
        self._note_positions()

    def _failed(self, error: SowlineError) -> None:
        if (
            error.reason == "behind" and self.stream.bookmark is None
        ):  # the program asked by itself, and asks again
            # A service that did nothing for long gives up on coming to the bookmark (seed 20704).
            may_be_behind = self.has_waited or self._truth.may_expire_wholly
            hold(may_be_behind, self.name, "finds a service behind, and nothing was lost")
            self.restart()
            return
        hold(error.reason == "bookmark_expired" and not self.wish.reset, self.name, "failed:", repr(error))
        hold(self._truth.may_expire, self.name, "has nothing to go on from, and nothing was lost:", error)
        self._trace(self.name, "expired", error)
        self.expired += 1
        self.saved = None
        self.disconnect()
        self.stream = self._new_stream(None)

    def _take(self, message: Message) -> None:
        self._trace.note("read", by=self.name, message=message)
        self.messages += 1
        if message.command == "group_begin":
            if message.reset:
                hold(self._truth.may_expire, self.name, "is reset, and nothing was lost")
                self.expired += 1
            self._group = {}
        elif message.command == "sow":
            hold(self._group is not None, self.name, "a record outside of a group")
            assert self._group is not None
            assert message.sow_key is not None
            hold(message.sow_key.encode() not in self._group, self.name, "a record twice in a group")
            self._group[message.sow_key.encode()] = message.data
        elif message.command == "group_end":
            self._end_group(message)
        else:
            hold(self._group is None, self.name, message.command, "within a group")
            self._follow(message)

    def _end_group(self, message: Message) -> None:
        assert message.bookmark is not None
        assert self._group is not None
        positions = self._read(message.bookmark)
        for number, position in self.positions.items():
            is_on = positions.get(number, position) >= position
            # An empty changes topic is taken for one that has just been made, also where it was lost.
            hold(is_on or self._truth.may_expire_wholly, self.name, "goes back from", position, "in", number)
        self.positions, self.view, self._group = positions, self._group, None
        self.groups += 1
        self._check_view("group")

    def _read(self, bookmark: str) -> Positions:
        return {} if bookmark == "epoch" else parse_bookmark(bookmark)[self._log]

    def _follow(self, message: Message) -> None:
        """Take a change: the one that was due next, or the outcome of some."""
        self._apply(message)
        if self.wish.conflation:
            return
        assert message.bookmark is not None
        assert message.sow_key is not None
        ((number, position),) = self._read(message.bookmark).items()
        before = self.positions.get(number, Position(0, -1))
        hold(position > before, self.name, "is told of", position, "in", number, "and stands at", before)
        effects = self._truth.effects(number, before, position)
        due = [effect for effect in effects if self.wish.is_sent(effect)]
        sent = [(effect.position, self._truth.key(effect.key), self.wish.is_sent(effect)) for effect in due]
        expected = [((position.offset, position.nth), message.sow_key.encode(), message.command)]
        hold(sent == expected, self.name, "was due", sent, "and got", expected)
        self.positions[number] = position
        key, effect = message.sow_key.encode(), due[0]
        if message.command == "publish":
            held = self.view.get(key)
            hold(held == effect.now, self.name, "holds", held, "not", effect.now, "by", message)
        if self.wish.intrinsics:
            self._check_intrinsics(message, effect)

    def _check_intrinsics(self, message: Message, effect: Effect) -> None:
        """Look at what is told of a document's writes."""
        sent, account = message.intrinsics or {}, effect.account
        assert account is not None
        found = sent.get("~id"), sent.get("~version"), sent.get("~signature"), sent.get("~deleted")
        expected = effect.key, account.version, account.signature, effect.now is None
        hold(found == expected, self.name, "is told", sent, "of", effect)
        hold(tuple(sent.get("~tags", ())) == account.tags, self.name, "is told", sent, "of", effect)

    def _apply(self, message: Message) -> None:
        assert message.sow_key is not None
        key = message.sow_key.encode()
        if message.command == "oof":
            hold(self.view.pop(key, None) is not None, self.name, "out of focus without being in it:", key)
        elif message.delta:
            hold(key in self.view, self.name, "a delta of what it does not hold:", message)
            self.view[key] = _without(merged(self.view[key], message.data), message.removed)
        else:
            self.view[key] = message.data

    def _note_positions(self) -> None:
        """Look at where the stream says that it stands: nothing may have been left out up to there."""
        bookmark = self.stream.bookmark
        if bookmark is None or self._group is not None:
            return
        self._trace.note("stand", by=self.name, bookmark=bookmark)
        positions = self._read(bookmark)
        for number, position in positions.items():
            before = self.positions.get(number, Position(0, -1))
            hold(position >= before, self.name, "goes back from", before, "to", position, "in", number)
            if not self.wish.conflation:
                effects = self._truth.effects(number, before, position)
                due = [effect for effect in effects if self.wish.is_sent(effect)]
                hold(not due, self.name, "moved from", before, "to", position, "in", number, "without", due)
        self.positions |= positions
        self._check_view(bookmark)
        if not self.stream.machine.taken.inbox.is_in_step and self._chance.random() < 0.3:
            self.saved = Saved(bookmark, dict(self.view), dict(self.positions))
            self._trace.note("save", by=self.name)

    def _check_view(self, where: str) -> None:
        """What it holds is what matches at its positions, if it is told of all that goes."""
        if not self.wish.oof or self.stream.machine.taken.inbox.is_in_step:
            return
        expected: dict[bytes, Body] = {}
        for number, position in self.positions.items():
            if (state := self._truth.state_at(number, position)) is None:
                return
            expected |= {key: body for key, (body, of) in state.items() if self.wish.matches(body, of)}
        hold(self.view == expected, self.name, "holds", self.view, "at", where, "not", expected)

    def is_level(self) -> bool:
        """Tell whether it stands behind everything that it was due."""
        if self.stream.bookmark is None:
            return False
        for number in range(self._truth.definition.partitions):
            position, end = (
                self.positions.get(number, Position(0, -1)),
                Position(0, self._truth.last(number), 1 << 30),
            )
            if any(self.wish.is_sent(effect) for effect in self._truth.effects(number, position, end)):
                return False
        return True


def _without(body: Body, removed: tuple[str, ...]) -> Body:
    """Return a body without the fields of these paths."""
    body = json.loads(json.dumps(body))
    for path in removed:
        *above, name = path.strip("/").split("/")
        inside = body
        for each in above:
            inside = inside.get(each, {})
        inside.pop(name, None)
    return body
