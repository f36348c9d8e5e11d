"""The perfect model of a topic of documents: what every write does to the content and to the account of its writes.

What a delta makes of a value is left to `sowline.language.emodb`, which others prove; all else is written from the
contract.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import blake2b, md5
from typing import NamedTuple
from uuid import UUID

from sowline.commands.command import LogRecord
from sowline.language.emodb import UNDEFINED, Intrinsics, compile_condition, parse_delta, same
from tests.property.model import (
    Account,
    Body,
    Effect,
    Kept,
    PartitionModel,
    RecordPosition,
    Refused,
    merged,
    tags_of,
)

NEVER_WRITTEN = "0" * 32
NOBODYS = {"~id", "~table", "~version", "~signature", "~deleted", "~placement", "~tags"}
NOBODYS |= {"~firstUpdateAt", "~lastUpdateAt", "~lastMutateAt"}
"""Fields that no write sets."""


class Meaning(NamedTuple):
    """What a text means: the delta without what it may not set, or why it is refused.

    `only_if` is the condition of an `if` without an `else`.
    """

    delta: str = ""
    refused: str | None = None
    only_if: str | None = None


def _if(condition: str, delta: str) -> tuple[str, Meaning]:
    text = f"if {condition} then {delta} end"
    return text, Meaning(text, only_if=condition)


PLAIN_DELTAS = (
    '{"q":1}',
    '{"q":7,"r":"n","type":"mine"}',
    '{..,"q":2}',
    '{..,"q":2.0}',
    '{..,"q":9,"r":"n"}',
    '{..,"q":~}?',
    '{..,"more":{..,"a":1}}',
    '{..,"more":{..,"a":~}?}',
    '{..,"set":(..,"x",1)}',
    '{..,"set":(..,~"x")?}',
    '{..,"type":"mine"}',
    f'{{..,"long":"{"x" * 120}"}}',
    f'{{..,"longer":"{"x" * 150}"}}',
    'if {..,"q":gt(4)} then {..,"q":0} else {..,"q":9} end',
    'if intrinsic("~lastMutateAt":lt("2023-11-14T22:13:45.000Z")) then {..,"early":1} else {..,"early":0} end',
    '{..,"id":"b"}',
    '{..,"id":null}',
    "~",
    "..",
    "{..}",
)
DELTAS: dict[str, Meaning] = {
    **{text: Meaning(text) for text in PLAIN_DELTAS},
    **dict(
        (
            _if('{..,"q":2}', "~"),
            _if('{..,"type":"review"}', '{..,"q":5}'),
            _if('{..,"type":"mine"}', '{..,"type":~}'),
            _if('{..,"q":5}', '{..,"q":5}'),
            _if('intrinsic("~deleted":true)', '{"q":3}'),
            _if('intrinsic("~signature":lt("8"))', '{..,"r":"m"}'),
            _if('intrinsic("~firstUpdateAt":ge("2023-11-14T22:13:30.000Z"))', '{..,"young":1}'),
            _if('intrinsic("~lastUpdateAt":lt("2023-11-14T22:13:40.000Z"))', '{..,"q":6}'),
            _if('intrinsic("~id":"a","b")', '{..,"q":8}'),
        )
    ),
    '{"q":4,"~signature":"x"}': Meaning('{"q":4}'),
    '{..,"q":4,"~version":5}': Meaning('{..,"q":4}'),
    "[1]": Meaning(refused="not an object"),
    "(..,1)": Meaning(refused="not an object"),
    "if ~ then 1 end": Meaning(refused="not an object"),
    '{..,"q" 1}': Meaning(refused="bad delta"),
    "": Meaning(refused="bad delta"),
}
"""Every delta that is used, and what it means."""

CONDITIONS: dict[str, Callable[[Body, Account], bool]] = {
    "": lambda body, account: True,
    '{..,"q":ge(5)}': lambda body, account: body.get("q", 0) >= 5,
    '{..,"~tags":contains("t")}': lambda body, account: "t" in account.tags,
    'intrinsic("~signature":lt("8"))': lambda body, account: account.signature < "8",
}
"""Every condition that is read with, and what it means."""


@dataclass
class DocumentModel(PartitionModel):
    """The documents of one partition, and what is known of each, also of those that are gone."""

    table: str = ""
    template: Body = field(default_factory=dict)
    accounts: dict[str, Account] = field(default_factory=dict)
    own: dict[str, Body | None] = field(default_factory=dict)
    """The content of each document, as its writers made it."""
    changed: bool = False
    """Whether the last write changed the content."""
    known: dict[int, dict[str, Account]] = field(default_factory=dict)
    """What is known after each log record, by key text."""
    refused: list[Body] = field(default_factory=list)
    """The templates with which a document would have been too large."""

    def __post_init__(self) -> None:
        """Nothing is known before the log."""
        super().__post_init__()
        self.known[-1] = {}

    def _define(self, record: LogRecord) -> None:
        sides = json.loads(record.value or b"")
        now = sides["now"]
        template = json.loads(now.get("template", "{}"))
        if any("template" in side for side in sides.values()) and not same(template, self.template):
            self.refused.append(template)
            made = [
                one for key in sorted(self.live, key=self.sow_key) if (one := self._read_by(key, template))
            ]
            if any(self._outgrows(effect, now["record_bytes_max"]) for effect in made):
                raise Refused("too large")
            self.refused.pop()
            for nth, effect in enumerate(made):
                effect.position = record.offset, nth
                kept = self.kept[effect.key]
                numbers = self._numbers(kept, None)
                self.kept[effect.key] = Kept(effect.now, numbers, effect.position, kept.due)
                assert effect.account is not None
                self.accounts[effect.key] = effect.account
            self.effects += made
            self.template = template
        super()._define(record)

    def _read_by(self, key: str, template: Body) -> Effect | None:
        """Return what another template does to a document; None if that is nothing."""
        own, before, account = self.own[key], self.kept[key].body, self.accounts[key]
        assert own is not None
        hidden = {name: own[name] for name in template if name in own} or None
        now = own | template
        if same(now, before) and same(hidden, account.hidden):
            return None
        after = account._replace(hidden=hidden, redundant=False)
        return Effect((-1, 0), key, before, now, account, after, is_write=False)

    @staticmethod
    def _outgrows(effect: Effect, bytes_max: int) -> bool:
        """Tell whether a document is larger than it may be, and than it was."""
        before, now = (
            _size(body, account)
            for body, account in ((effect.before, effect.account_before), (effect.now, effect.account))
        )
        return now > max(before, bytes_max)

    def _keep_state(self, offset: int) -> None:
        super()._keep_state(offset)
        self.known[offset] = dict(self.accounts)

    def _publish(self, record: LogRecord, command: str, number: tuple[str, RecordPosition] | None) -> None:
        key, body = self._read(record)
        if not self._is_mine(record, key):
            return
        kept = self.kept.get(key, Kept(None, {}))
        if self._is_repeat(kept, number):
            return
        own = self._own(key, kept)
        if command == "delta_publish" and own is not None:
            body = merged(own, body)
        body = {name: value for name, value in body.items() if name not in NOBODYS}
        self._write(record, key, kept, body, number)

    def _delta(self, record: LogRecord, number: tuple[str, RecordPosition] | None) -> None:
        key, value = (record.key or b"").decode(), record.value or b""
        if not key:
            raise Refused("key missing")
        if len(value) > self.bytes_max:
            raise Refused("too large")
        meaning = DELTAS[value.decode()]
        if meaning.refused == "bad delta":
            raise Refused("bad delta")
        if not self._is_mine(record, key):
            return
        kept = self.kept.get(key, Kept(None, {}))
        if self._is_repeat(kept, number):
            return
        if meaning.refused:
            raise Refused(meaning.refused)
        own, about = self._own(key, kept), self._about(key, kept)
        content = UNDEFINED if own is None else own
        holds = meaning.only_if is None or compile_condition(meaning.only_if).matches_about(content, about)
        made = parse_delta(meaning.delta).apply(content, about)
        self._write(record, key, kept, None if made is UNDEFINED else made, number)
        if not holds:
            self.effects[-1].outcome = "condition_false"

    def _own(self, key: str, kept: Kept) -> Body | None:
        return None if kept.body is None else self.own[key]

    def _about(self, key: str, kept: Kept) -> Intrinsics:
        account = self.accounts.get(key)
        if account is None:
            return Intrinsics(key, self.table, NEVER_WRITTEN, True)
        times = map(_instant, (account.first, account.last, account.mutated))
        return Intrinsics(key, self.table, account.signature, kept.body is None, *times)

    def _check_key(self, key: str, body: Body) -> None:
        if "id" in body and body["id"] is None:
            raise Refused("key null")
        if "id" in body and str(body["id"]) != key:
            raise Refused("key changed")

    def _write(
        self,
        record: LogRecord,
        key: str,
        kept: Kept,
        body: Body | None,
        number: tuple[str, RecordPosition] | None,
    ) -> None:
        """Keep a document with this content, None if it is gone, unless it may not be so."""
        own = self._own(key, kept)
        if body is not None:
            self._check_key(key, body)
            self._check_room(kept)
            hidden = self._hidden(body)
            sizes = [len(json.dumps(one, separators=(",", ":"))) for one in (body | self.template, hidden)]
            if sizes[0] + (sizes[1] if hidden else 0) > self.bytes_max:
                raise Refused("too large")
        self.own[key], self.changed = body, not _are_same(own, body)
        self._set(record, 0, key, kept, None if body is None else body | self.template, number)

    def _hidden(self, own: Body | None) -> Body | None:
        found = {name: (own or {})[name] for name in self.template if name in (own or {})}
        return found or None

    def _note(self, record: LogRecord, effect: Effect) -> None:
        before = self.accounts.get(effect.key)
        if effect.now is None:
            self.own[effect.key], self.changed = None, effect.before is not None
        changed = self.changed
        account = self._account(record, before, changed)
        hidden = self._hidden(self.own[effect.key])
        effect.account_before, effect.account = before, account._replace(hidden=hidden)
        self.accounts[effect.key] = effect.account
        effect.outcome = None if changed else "noop"

    def _account(self, record: LogRecord, before: Account | None, changed: bool) -> Account:
        """What is known of a document after a write to it."""
        headers = {name: (value or b"").decode() for name, value in record.headers or []}
        id, tags = self._change_id(record, headers), tags_of(headers)
        if before is None:
            signature = md5(bytes(16) + id).hexdigest()
            redundant = not changed and not tags
            return Account(1, signature, self.time, self.time, self.time, tags, id.hex(), redundant, None)
        signature = md5(bytes.fromhex(before.signature) + id).hexdigest()
        mutated = self.time if changed else before.mutated
        redundant = not changed and tags == before.tags
        return Account(
            before.version + 1, signature, before.first, self.time, mutated, tags, id.hex(), redundant, None
        )

    def _change_id(self, record: LogRecord, headers: dict[str, str]) -> bytes:
        """The id that the writer gives, as a UUID or as any text, or else the position of the first writing."""
        if "sow.change_id" in headers:
            try:
                return UUID(headers["sow.change_id"]).bytes
            except ValueError:
                return blake2b(headers["sow.change_id"].encode(), digest_size=16).digest()
        origin = headers.get("sow.origin", f"{self.number}@{record.offset}")
        partition, offset = (int(part) for part in origin.rpartition(":")[2].split("@"))
        return partition.to_bytes(4, "big") + bytes(4) + offset.to_bytes(8, "big")


def _size(body: Body | None, account: Account | None) -> int:
    assert account is not None
    parts = [body, account.hidden] if account.hidden else [body]
    return sum(len(json.dumps(one, separators=(",", ":"))) for one in parts)


def _are_same(before: Body | None, now: Body | None) -> bool:
    if before is None or now is None:
        return before is now
    return same(before, now)


def _instant(ms: int) -> str:
    moment = datetime(1970, 1, 1) + timedelta(milliseconds=ms)
    return moment.isoformat(timespec="milliseconds") + "Z"
