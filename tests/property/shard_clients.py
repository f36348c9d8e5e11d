"""Clients of a query service and of a gateway that ask the same, and what of the answers is compared."""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable

import msgspec

from sowline.client.records import RecordSet
from sowline.model.bookmark import Positions, parse_bookmark
from sowline.subscriptions.position_tracker import PositionTracker
from sowline.wire.client_message import Message, Received
from tests.property.answers import Answer, answer_of, is_sorted
from tests.property.asks import Ask
from tests.property.shards import Reader
from tests.unit.query_service.sessions import Json

SID = "s"

_read = msgspec.json.Decoder(Received).decode


class Held:
    """What a client of one service holds, and its bookmark."""

    def __init__(self) -> None:
        self.records = RecordSet()
        self.position = PositionTracker()
        self.has_keys = True
        """Whether messages have the SOW keys, without which nothing can be held."""
        self._known: set[str | None] = set()
        """The records of which anything was sent."""

    def take(self, texts: Iterable[bytes]) -> None:
        """Apply messages."""
        for received in map(_read, texts):
            if received.command == "ack" and received.ack_type == "processed" and received.bookmark:
                self.position = PositionTracker(received.bookmark)
            if received.command not in ("group_begin", "sow", "group_end", "publish", "oof"):
                continue
            for message in received.messages():
                self.position.note(message)
                if self.has_keys:
                    self.records.take(self._whole(message))

    def _whole(self, message: Message) -> Message:
        """Return a message; the first one of a record, if that is a delta, as the whole record.

        A client that was not sent all records has them from elsewhere.
        """
        is_first = message.sow_key not in self._known
        self._known.add(message.sow_key)
        return msgspec.structs.replace(message, delta=False) if is_first and message.delta else message

    @property
    def bodies(self) -> dict[str, Json]:
        """The records by SOW key."""
        return {key: json.loads(body) for key, body in self.records.bodies.items()}


NO_FIELDS = ("/nosuch", "/ox")
"""Fields that no record has ever had, the second with a name like that of another one."""


def known(ends: Iterable[Json]) -> list[Json]:
    """Return the ends of groups with the warnings about fields that no record has ever had."""
    # An index may have been made while some record had a field that is gone since. So services may warn or not.
    found = []
    for end in ends:
        warnings = [
            one for one in end.get("warnings", ()) if one.removeprefix("unknown field ").startswith(NO_FIELDS)
        ]
        found.append(
            {name: value for name, value in end.items() if name != "warnings"} | {"warnings": warnings}
        )
    return found


def step_of(messages: Iterable[Json]) -> list[str]:
    """Return the messages of a step: they are to be applied together, and come in any order."""
    # The bookmarks of pages, groups and conflated records are those of the topic. A partition without a change that
    # concerns the subscription may be behind in that of a gateway: no node sends such changes.
    return sorted(
        json.dumps(
            {name: value for name, value in message.items() if name not in ("bookmark", "more")},
            sort_keys=True,
        )
        for message in messages
    )


def steps_of(messages: Iterable[Json]) -> list[list[str]]:
    """Return the steps."""
    steps: list[list[Json]] = [[]]
    for message in messages:
        steps[-1].append(message)
        if not message.get("more"):
            steps.append([])
    assert steps.pop() == [], "a step has not ended"
    return [step_of(step) for step in steps]


def by_partition(messages: Iterable[Json]) -> dict[int, list[Json]]:
    """Return the live messages of each partition, in their order: there is none between partitions."""
    found: dict[int, list[Json]] = defaultdict(list)
    for message in messages:
        ((number, _),) = parse_bookmark(message["bookmark"])["orders"].items()
        found[number].append(message)
    return found


def check_no_repeats(messages: Iterable[Json]) -> None:
    """Check that a client is sent no change twice: in its group and after it, or twice after it."""
    sent: Positions = {}
    for message in messages:
        if message["command"] == "group_end":
            sent = positions_of(message["bookmark"])
        if message["command"] in ("publish", "oof"):
            ((number, position),) = positions_of(message["bookmark"]).items()
            assert position > sent[number], "a change is sent twice"
            sent[number] = position


def refusals(acks: Iterable[Json]) -> list[Json]:
    """Return acknowledgements without what the message of an error may name differently."""
    # A service names one of several expired positions, or the earliest time that it has something of.
    expired = ("bookmark_expired", "history expired")
    return [one | {"message": ""} if one.get("reason") in expired else one for one in acks]


class Subscribed:
    """A client of the query service and one of the gateway that have subscribed to the same."""

    def __init__(self, both: tuple[Reader, Reader], ask: Ask) -> None:
        self.both = both
        self.held = Held(), Held()
        self.is_over = False
        self.is_paused = False
        self.is_exact = True
        """Whether both were sent the same messages, and not only what has the same outcome."""
        self.keeps_more = False
        """Whether one of them may hold what has left, and was never sent to the other."""
        self._note_ask(ask)

    def _note_ask(self, ask: Ask) -> None:
        self.ask = ask
        for held in self.held:
            held.has_keys = held.has_keys and "no_sowkey" not in ask.words

    def send(self, request: Json) -> None:
        """Send a command from both clients."""
        for reader in self.both:
            reader.ask({"sub_id": SID} | request)

    async def _read(self) -> tuple[list[Json], list[Json]]:
        """Take what has come to both."""
        found = []
        for reader, held in zip(self.both, self.held, strict=True):
            texts = await reader.read()
            held.take(texts)
            found.append([json.loads(text) for text in texts])
        return found[0], found[1]

    def _answers(self, messages: tuple[list[Json], list[Json]]) -> tuple[Answer, Answer]:
        whole, gateway = (answer_of(some, is_sorted=is_sorted(self.ask.fields())) for some in messages)
        assert refusals(self._acks(gateway)) == refusals(self._acks(whole))
        return whole, gateway

    async def compare(self, *, is_orderly: bool) -> tuple[Answer, Answer]:
        """Compare what has come to both since, and return it; `is_orderly` if it is from at most one log record."""
        whole, gateway = self._answers(await self._read())
        assert known(gateway.ends) == known(whole.ends)
        assert gateway.records == whole.records
        ask = self.ask
        if ask.is_window and (ask.conflation or not is_orderly):
            self._note_outcome_only()
        self._compare_live(whole.live, gateway.live, is_orderly=is_orderly)
        self.is_over = self.is_over or any(one["status"] == "failure" for one in whole.acks)
        return whole, gateway

    async def catch_up(self) -> None:
        """Take what has come to both, which may have begun at different positions."""
        _, gateway = await self._read()
        if not (self.ask.is_window or self.ask.conflation):
            check_no_repeats(gateway)
        self._note_outcome_only()

    async def compare_return_of_latest(self) -> None:
        """Compare the return to groups with fields of the latest record, of which nobody knows all."""
        whole, gateway = (
            [one["reason"] for one in messages if one.get("status") == "failure"]
            for messages in await self._read()
        )
        # docs/gateway.md, "How gateways differ": a page has expired, too, if the log has moved without a change.
        assert gateway == whole or (
            not whole and gateway == ["bookmark_expired"] and self.ask.skip_n is not None
        )
        self.is_over = bool(gateway)
        # docs/api.md: without a page, such groups may be sent again though they have not changed.
        self._note_outcome_only()

    def _note_outcome_only(self) -> None:
        """Note that the messages may differ. Who is not sent what leaves keeps it."""
        self.is_exact = False
        self.keeps_more = self.keeps_more or not self.ask.oof

    async def replace(self, ask: Ask, request: Json) -> None:
        """Replace the subscription, unless that is refused, and compare what comes of it."""
        before = self.ask
        self._note_ask(ask)
        self.send(request)
        messages = await self._read()
        if any(one.get("status") == "failure" for one in messages[0]):
            self.ask = before
            if before.replaced_by(ask) == "replace":
                self._answers(messages)
            else:
                # Of two mistakes, each service may find another one first.
                assert [[one.get("status") for one in some] for some in messages] == [
                    ["failure"],
                    ["failure"],
                ]
            # A gateway refuses late what only a node finds wrong: it has already ended the other subscription.
            self.is_over = "sub_id" in messages[1][0]
            return
        self.is_paused = False
        if before.conflation and ask.is_window:
            # One query service first sends what conflation has held back, and then less of the difference.
            self._note_outcome_only()
        elif ask.is_window:
            whole, gateway = self._answers(messages)
            assert known(gateway.ends) == known(whole.ends)
            assert gateway.records == whole.records
            assert step_of(gateway.live) == step_of(whole.live)
        else:
            # docs/gateway.md, "How gateways differ": a whole group instead of the difference.
            self.is_exact, self.keeps_more = False, True

    async def prove(self) -> None:
        """Compare the checksums of what both clients should hold."""
        self.send({"command": "heartbeat", "command_id": "9"})
        found = []
        for messages in await self._read():
            proofs = [
                one for one in messages if one["command"] == "progress" or one.get("status") == "failure"
            ]
            (proof,) = ([one.get(name) for name in ("records", "hash", "reason")] for one in proofs)
            found.append(proof)
        assert found[1] == found[0]

    def _acks(self, answer: Answer) -> list[Json]:
        """Return the acknowledgements of a subscription."""
        if self.ask.has_snapshot and not self.ask.conflation:
            return answer.acks
        # One that joins a stream begins where that is. The stream has passed changes since that concern nobody in it.
        # With conflation, a replay may be completed before the interval ends in which it is sent.
        return [{name: value for name, value in ack.items() if name != "bookmark"} for ack in answer.acks]

    def _compare_live(self, whole: list[Json], gateway: list[Json], *, is_orderly: bool) -> None:
        ask = self.ask
        if not (ask.is_window or ask.conflation):
            assert by_partition(gateway) == by_partition(whole)
        elif ask.conflation == "auto" or (ask.is_window and (ask.conflation or not is_orderly)):
            # An interval of `auto` depends on what waits, and changes of several partitions come to a view in any
            # order: only the outcome counts.
            pass
        else:
            assert steps_of(gateway) == steps_of(whole)

    def compare_held(self, shown: Collection[str] | None) -> None:
        """Both clients hold the same; if they are not sent what leaves, of what is shown."""
        expected, found = (
            {key: body for key, body in held.bodies.items() if shown is None or key in shown}
            for held in self.held
        )
        assert found == expected

    def compare_positions(self) -> None:
        """The gateway's client is not ahead: the same changes have been sent to both."""
        whole, gateway = (positions_of(held.position.bookmark) for held in self.held)
        assert whole.keys() == gateway.keys()
        assert all(gateway[number] <= whole[number] for number in whole), (self.ask, gateway, whole)


def positions_of(bookmark: str) -> Positions:
    """Return the positions of a bookmark."""
    return {} if bookmark == "epoch" else parse_bookmark(bookmark)["orders"]
