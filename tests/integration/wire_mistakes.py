"""Mistakes that a proxy makes in the messages and answers of a service, each of which breaks a guarantee by name."""

import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from sowline.check.judge.verdict import Guarantee
from tests.wire_proxy import Message, Request


def _is_next(kept: Message, message: Message) -> bool:
    """Whether a message is about the same partition, for the same subscriptions."""
    same = ("command", "sids", "topic")
    return all(kept.get(name) == message.get(name) for name in same) and (
        kept["bookmark"].partition("@")[0] == message["bookmark"].partition("@")[0]
    )


class WireMistake(NamedTuple):
    """What a proxy does to one message, and the guarantees of which at least one must be named."""

    name: str
    breaks: set[Guarantee]
    chosen: Callable[[Message, Request], bool]
    change: Callable[[Message], list[Message]]
    made_max: int = 3
    """How many messages are changed."""
    every: int = 5
    """Of how many messages that can be, one is."""
    is_late: bool = False
    """Whether the message comes after the next one about its partition."""
    answer: tuple[bytes, bytes] = (b"", b"")
    """What is changed in answers over HTTP, and what it becomes."""
    asked: str = ""
    """What a client asks for once the mistake has misled it; empty if the mistake shows without a request."""

    @property
    def answer_seconds(self) -> float:
        """How long the checker waits: where an answer is lost, no longer than a sound system needs."""
        return 5.0 if Guarantee.ANSWERS in self.breaks else 30.0


class OneMistake:
    """Makes a mistake some times, with some messages between."""

    def __init__(self, mistake: WireMistake) -> None:
        self._mistake = mistake
        self._met = 0
        self.made = 0
        self._is_asked = not mistake.asked
        self._kept: Message | None = None

    @property
    def has_effect(self) -> bool:
        """Whether it was made, and a client has asked for what it leads to."""
        return self.made > 0 and self._is_asked

    def meddle(self, messages: list[Message], requests: dict[str, Request]) -> list[Message]:
        """Change a message that fits."""
        found: list[Message] = []
        if not self._is_asked:
            self._is_asked = any(self._mistake.asked in one.get("bookmark", "") for one in requests.values())
        for message in messages:
            names = message.get("sids") or [message.get("query_id") or message.get("command_id", "")]
            request = requests.get(names[0].partition(".")[0], {})
            self._met += (fits := self._mistake.chosen(message, request))
            if fits and self._met % self._mistake.every == 0 and self.made < self._mistake.made_max:
                self.made += 1
                self._kept = message if self._mistake.is_late else None
                found += self._mistake.change(json.loads(json.dumps(message)))
            else:
                found.append(message)
                if self._kept is not None and _is_next(self._kept, message):
                    found.append(self._kept)
                    self._kept = None
        return found

    def meddle_answer(self, data: bytes) -> bytes:
        """Change an answer, for mistakes that are about answers."""
        right, wrong = self._mistake.answer
        if right and right in data:
            self.made += 1
            return data.replace(right, wrong)
        return data


def is_live(message: Message, request: Request, *commands: str) -> bool:
    """Whether it is a message about a change of a record that no subscription conflates."""
    return (
        message["command"] in commands
        and not message.get("topic", "").endswith("-totals")
        and "conflation" not in request.get("options", "")
        and not is_step(message, request)
    )


def is_step(message: Message, request: Request) -> bool:
    """Whether it belongs to a live page, or to groups."""
    grouped = "grouping" in request.get("options", "")
    return message["command"] in ("publish", "oof") and (grouped or "skip_n" in request)


def of_groups(*commands: str) -> Callable[[Message, Request], bool]:
    """Choose the messages of groups."""
    return lambda m, r: m["command"] in commands and "grouping" in r.get("options", "")


def of_live_page(*commands: str) -> Callable[[Message, Request], bool]:
    """Choose the messages of live pages."""
    return lambda m, r: m["command"] in commands and is_step(m, r) and "skip_n" in r


def set_fields(**fields: Any) -> Callable[[Message], list[Message]]:
    """Return a change of a message's own fields."""
    return lambda message: [message | fields]


def set_data(**fields: Any) -> Callable[[Message], list[Message]]:
    """Return a change of its record."""
    return lambda message: [message | {"data": message["data"] | fields}]


def of_records(change: Callable[[list[Message]], list[Message]]) -> Callable[[Message], list[Message]]:
    """Return a change of the records of a group."""
    return lambda message: [message | {"records": change(message["records"])}]


def with_promise(promise: str) -> Callable[[Message, Request], bool]:
    """Choose the ends of groups whose query demanded a bookmark: those of a reader's own writes are of one client."""
    return lambda m, r: (
        m["command"] == "group_end"
        and promise in r.get("at_least", "")
        and not m["topic"].endswith("-totals")
    )


def begun_earlier(message: Message) -> list[Message]:
    """Return the end of a group as it was at the beginning of the topic."""
    return [message | {"bookmark": re.sub(r"@[0-9.]+", "@0", message["bookmark"])}]


LOST = {Guarantee.NO_GAP, Guarantee.RESUME}
AGAIN = {Guarantee.NO_REPEAT, Guarantee.RESUME}
PROMISED = {Guarantee.READ_YOUR_WRITES, Guarantee.MONOTONIC_READS}
MISTAKES = (
    WireMistake("a repeated publish", AGAIN, lambda m, r: is_live(m, r, "publish"), lambda m: [m, m]),
    WireMistake("a repeated oof", AGAIN, lambda m, r: is_live(m, r, "oof"), lambda m: [m, m]),
    WireMistake(
        "a late publish",
        {Guarantee.ORDER, *AGAIN, *LOST},
        lambda m, r: is_live(m, r, "publish"),
        lambda m: [],
        is_late=True,
    ),
    WireMistake("a stale answer", PROMISED, with_promise("@"), begun_earlier, 20),
    WireMistake("a lost publish", LOST, lambda m, r: is_live(m, r, "publish"), lambda m: []),
    WireMistake("a lost oof", LOST, lambda m, r: is_live(m, r, "oof"), lambda m: []),
    WireMistake(
        "a lost record",
        {Guarantee.SNAPSHOT},
        lambda m, r: m["command"] == "sow" and "grouping" not in r.get("options", ""),
        of_records(lambda found: found[1:]),
    ),
    WireMistake(
        "another order",
        {Guarantee.PAGES},
        lambda m, r: m["command"] == "sow" and "order_by" in r and len(m["records"]) > 1,
        of_records(lambda found: found[::-1]),
    ),
    WireMistake(
        "a lost record of a page",
        {Guarantee.PAGES},
        lambda m, r: m["command"] == "sow" and "order_by" in r,
        of_records(lambda found: found[1:]),
    ),
    WireMistake("a lost step of a page", {Guarantee.PAGES}, of_live_page("publish", "oof"), lambda m: [], 20),
    WireMistake("another record of a page", {Guarantee.PAGES}, of_live_page("publish"), set_data(qty=-1)),
    WireMistake(
        "a lost group", {Guarantee.GROUPS}, of_groups("sow"), of_records(lambda found: found[1:]), 9, 1
    ),
    WireMistake("a wrong sum of a group", {Guarantee.GROUPS}, of_groups("publish"), set_data(qty=-1)),
    WireMistake("a lost result of a group", {Guarantee.GROUPS}, of_groups("publish"), lambda m: [], 20),
    WireMistake(
        "a stale record",
        {Guarantee.SNAPSHOT},
        lambda m, r: (
            m["command"] == "sow"
            and m["topic"].endswith("-records")
            and "grouping" not in r.get("options", "")
        ),
        of_records(lambda found: [found[0] | {"data": found[0]["data"] | {"late": -1}}, *found[1:]]),
    ),
    WireMistake(
        "another body",
        {Guarantee.FOCUS},
        lambda m, r: is_live(m, r, "publish") and "delta" not in m,
        set_data(late=-1),
    ),
    WireMistake(
        "another body of an oof", {Guarantee.FOCUS}, lambda m, r: is_live(m, r, "oof"), set_data(qty=-1)
    ),
    WireMistake(
        "an oof as a publish",
        {Guarantee.FOCUS},
        lambda m, r: is_live(m, r, "oof"),
        set_fields(command="publish"),
    ),
    WireMistake(
        "another delta",
        {Guarantee.DELTAS},
        lambda m, r: m.get("delta") is True,
        set_data(late=-1),
        every=1,
    ),
    WireMistake(
        "a cut delta",
        {Guarantee.DELTAS},
        lambda m, r: m.get("delta") is True and "qty" in m["data"],
        lambda m: [m | {"data": {"id": m["data"]["id"]}}],
        every=1,
    ),
    WireMistake(
        "another write",
        {Guarantee.ONE_EFFECT},
        lambda m, r: is_live(m, r, "publish"),
        set_fields(correlation_id="writer0-1"),
    ),
    WireMistake(
        "another checksum",
        {Guarantee.CHECKSUM},
        lambda m, r: m["command"] == "progress" and "hash" in m,
        set_fields(hash="00000000000000ff"),
    ),
    WireMistake(
        "another count",
        {Guarantee.CHECKSUM},
        lambda m, r: m["command"] == "progress" and "hash" in m,
        set_fields(records=999),
    ),
    WireMistake(
        "a conflated body",
        {Guarantee.CONFLATION},
        lambda m, r: m["command"] == "publish" and "conflation" in r.get("options", ""),
        set_data(late=-1),
        99,
        1,
    ),
    WireMistake(
        "another sum",
        {Guarantee.VIEWS},
        lambda m, r: m["command"] == "sow" and m["topic"].endswith("-totals"),
        of_records(lambda found: [found[0] | {"data": found[0]["data"] | {"qty": -1}}, *found[1:]]),
        99,
        1,
    ),
    WireMistake(
        "too many deletes",
        {Guarantee.DELETES},
        lambda m, r: False,
        lambda m: [m],
        answer=(b'"records_deleted":1,', b'"records_deleted":3,'),
    ),
    WireMistake(
        "too few deletes",
        {Guarantee.DELETES},
        lambda m, r: False,
        lambda m: [m],
        answer=(b'"records_deleted":1,', b'"records_deleted":0,'),
    ),
    WireMistake(
        "an outcome of no effect",
        {Guarantee.DOCUMENTS},
        lambda m, r: False,
        lambda m: [m],
        answer=(b'"each":["applied"]', b'"each":["noop"]   '),
    ),
    WireMistake(
        "an outcome in spite of its condition",
        {Guarantee.DOCUMENTS},
        lambda m, r: False,
        lambda m: [m],
        answer=(b'"each":["condition_false"]', b'"each":["applied"]        '),
    ),
    WireMistake(
        "another position",
        {Guarantee.ONE_EFFECT},
        lambda m, r: is_live(m, r, "publish"),
        lambda m: [m | {"bookmark": f"{m['topic']}:0@999999"}],
    ),
    WireMistake(
        "a lost conflated message",
        {Guarantee.CONFLATION},
        lambda m, r: m["command"] in ("publish", "oof") and "conflation" in r.get("options", ""),
        lambda m: [],
        99,
        2,
    ),
    WireMistake(
        "a lost record of a view",
        {Guarantee.VIEWS},
        lambda m, r: m["command"] == "sow" and m["topic"].endswith("-totals"),
        of_records(lambda found: found[1:]),
        99,
        1,
    ),
    WireMistake(
        "an expiry of no record",
        {Guarantee.EXPIRY},
        lambda m, r: m["command"] == "oof" and m["reason"] == "expired",
        lambda m: [m, m | {"bookmark": f"{m['topic']}:0@999999"}],
        1,
        1,
    ),
    WireMistake(
        "a late oof",
        {Guarantee.ORDER, *AGAIN, *LOST},
        lambda m, r: is_live(m, r, "oof"),
        lambda m: [],
        is_late=True,
    ),
    WireMistake(
        "an early expiry",
        {Guarantee.EXPIRY},
        lambda m, r: m["command"] == "oof" and m["reason"] == "expired" and "timestamp" in m,
        set_fields(timestamp="2001-01-01T00:00:00Z"),
        99,
        1,
    ),
    WireMistake(
        "a bookmark that is not there yet",
        {Guarantee.ANSWERS},
        lambda m, r: is_live(m, r, "publish", "oof") and m["topic"].endswith("-expiring"),
        lambda m: [m | {"bookmark": f"{m['topic']}:0@999999"}],
        9999,
        1,
        asked="@999999",
    ),
    WireMistake(
        "a lost end of a group",
        {Guarantee.SNAPSHOT},
        lambda m, r: m["command"] == "group_end" and r.get("command") == "sow",
        lambda m: [],
        1,
        20,
    ),
    WireMistake(
        "a lost end of a query",
        {Guarantee.ANSWERS},
        lambda m, r: m["command"] == "ack" and m["ack_type"] == "completed" and r.get("command") == "sow",
        lambda m: [],
        1,
    ),
    WireMistake(
        "lost checksums",
        {Guarantee.ANSWERS},
        lambda m, r: m["command"] == "progress" and "hash" in m,
        lambda m: [],
        9999,
        1,
    ),
    WireMistake(
        "a lost end of a replay",
        {Guarantee.ANSWERS},
        lambda m, r: m["command"] == "ack" and m["ack_type"] == "completed" and bool(r.get("up_to")),
        lambda m: [],
        9999,
        1,
    ),
)


def is_of_writer(message: Message) -> bool:
    """Whether it is about a write of the workload; marks before it have no such name."""
    return str(message.get("correlation_id", "")).startswith("writer")


def of_fanout(*commands: str) -> Callable[[Message, Request], bool]:
    """Choose the messages of fanouts about the workload's own writes."""
    return lambda m, r: m["command"] in commands and is_of_writer(m)


FANOUTS = {Guarantee.FANOUTS}
FANOUT_MISTAKES = (
    WireMistake("a lost message", FANOUTS, of_fanout("publish", "oof"), lambda m: []),
    WireMistake("a late message", FANOUTS, of_fanout("publish"), lambda m: [], is_late=True),
    WireMistake("another body", FANOUTS, of_fanout("publish", "oof"), set_data(qty=-1)),
    WireMistake(
        "a message again, as a new one",
        FANOUTS,
        of_fanout("publish", "oof"),
        lambda m: [m, m | {"bookmark": f"{m['bookmark'].partition('@')[0]}@999999"}],
    ),
    WireMistake(
        "a message again, with another body",
        FANOUTS,
        of_fanout("publish"),
        lambda m: [m, m | {"data": m["data"] | {"qty": -1}}],
    ),
    WireMistake("an oof as a publish", FANOUTS, of_fanout("oof"), set_fields(command="publish")),
    WireMistake(
        "no message of a partition",
        FANOUTS,
        lambda m, r: of_fanout("publish", "oof")(m, r) and ":1@" in m["bookmark"],
        lambda m: [],
        made_max=9999,
        every=1,
    ),
)
"""What a relay does to the messages of fanouts, which their readers receive from Kafka."""


CHOSEN = {frozenset(mistake.breaks): mistake for mistake in reversed(MISTAKES)}.values()
"""One for each guarantee, or for those that break together. `make test-all` makes all."""
