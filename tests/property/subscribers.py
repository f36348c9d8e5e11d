"""Clients of one subscription each, which handle messages as docs/api.md describes, and check each of them."""

import copy
import json

from sowline.model.bookmark import Positions, parse_bookmark
from sowline.wire.server_message import iso_time
from tests.property.asks import Ask, Key, Records, View
from tests.property.holdings import Holder, Holding, merge, remove
from tests.unit.query_service.sessions import Json


class Subscriber(Holder):
    """One subscription as its client sees it."""

    # beginnings

    def acknowledged(self, ask: Ask, message: Json, kind: str) -> None:
        """Begin; `kind` is fresh, replace or back."""
        positions = self.placed(message["bookmark"])
        before = self.committed()
        if not ask.is_window and (
            self.group is not None or (self.turned_from and self.holding.ask.has_snapshot)
        ):
            before.complete = before.has_come_back = False
        self.holding, self.saved, self.step, self.step_sent = before, None, [], None
        self.group, self.turned_from, self.owed = None, None, set()
        self.is_back = kind == "back"
        if kind == "back":
            assert before.positions == positions, "comes back where it left"
            before.has_come_back = True
            return
        self.saved = copy.deepcopy(before) if ask.has_snapshot else None
        if kind == "fresh":
            self.holding = Holding(ask)
        else:
            self.turned_from = copy.deepcopy(before)
            self.holding.ask = ask
        if not ask.has_snapshot:
            self._go_on_without_group(positions, self.turned_from)

    def _go_on_without_group(self, positions: Positions, before: Holding | None) -> None:
        """A plain subscription holds what it held, whatever has become of that, and lacks the rest."""
        now, view = self.holding, self.holding.ask.view(self.service.at(positions))
        if before is not None and before.positions is not None:
            self._may_not_go_back(positions)
            certain = before.complete and before.ask.oof and now.ask.oof and not before.extra
            self.owed = set(now.held) - set(view) if certain else set()
        now.positions, now.complete, now.has_come_back = positions, False, False
        now.extra, now.missing = set(now.held) - set(view), set(view) - set(now.held)
        wrong = {key for key in view if key in now.held and not self._is_right(key, view[key])}
        now.partial |= wrong

    def group_begin(self, message: Json) -> None:
        """A group replaces what is held, or with `replace` adds to it."""
        self.mark = next((mark for mark in ("replace", "reset") if mark in message), None)
        before = self.turned_from
        if before is None:
            assert self.mark != "replace"
        else:
            assert self.mark == ("replace" if self._is_certain(before) else "reset"), (self.mark, before)
        self.group = []
        if self.saved is None:
            self.saved = copy.deepcopy(self.holding)
        if self.mark != "replace":
            self.holding = Holding(self.holding.ask)

    def _is_certain(self, before: Holding) -> bool:
        """Whether it can be told what was held when the subscription was replaced."""
        if before.positions is None:
            return False
        if self.holding.ask.is_window:
            is_alike = (before.ask.grouping is None) is (self.holding.ask.grouping is None)
            return is_alike and not before.ask.is_limited
        return (before.complete or before.has_come_back) and before.ask.top_n is None

    def records(self, message: Json) -> None:
        """Take records of a group."""
        assert self.group is not None
        assert 1 <= len(message["records"]) <= self.holding.ask.batch_size
        self.group += message["records"]

    def group_end(self, message: Json) -> None:
        """Check what came, and hold it."""
        ask, positions = self.holding.ask, self.placed(message["bookmark"])
        assert self.group is not None
        assert message["records"] == len(self.group)
        if self.saved is not None and self.saved.positions is not None:
            assert all(positions[p] >= self.saved.positions[p] for p in positions), "goes back"
        records = self.service.at(positions)
        keys = [self._key(record) for record in self.group]
        assert len(set(keys)) == len(keys)
        for record, key in zip(self.group, keys, strict=True):
            self._check_record(record, key, records)
            self.holding.held[key] = record["data"]
            self.holding.partial.discard(key)
        shown = ask.view(records)
        if self.mark == "replace":
            for left in self.step if ask.grouping is None else ():
                self._check_reason(left, self._key(left), positions)
            self._check_replacing_group(set(keys), records)
        else:
            self._check_group(keys, ask.first(ask.all(records)))
        self.holding.complete, self.holding.has_come_back = not ask.is_limited, False
        if ask.is_limited:
            self.holding.missing = set(shown) - set(self.holding.held)
        self.holding.positions, self.saved, self.group = positions, None, None
        self.turned_from, self.owed, self.step = None, set(), []
        self.check_holding(shown)

    def _check_group(self, keys: list[Key], shown: View) -> None:
        ask = self.holding.ask
        is_ordered = ask.order_by or (ask.top_n is not None and ask.grouping is None)
        assert set(keys) == set(shown)
        assert not is_ordered or keys == list(shown)

    def _check_replacing_group(self, keys: set[Key], records: Records) -> None:
        """What came is lacked, and what is left is not shown any more; nobody else tells of what leaves."""
        before, ask = self.turned_from, self.holding.ask
        assert before is not None
        assert before.positions is not None
        shown = ask.view(records)
        assert keys <= set(shown)
        if before.ask.select == ask.select and ask.grouping is None and before.ask.grouping is None:
            then = before.ask.view(self.service.at(before.positions))
            changed = {
                ("id", n) for n, *_ in self.service.changes_between(before.positions, self.service.now)
            }
            assert keys <= (set(shown) - set(then)) | changed, "sent though it is held"
        gone = set(self.holding.held) - set(shown)
        self.holding.extra = gone if not (before.ask.oof and ask.oof) else before.extra
        if ask.is_limited:
            self.holding.missing = set(shown)

    def _check_record(self, record: Json, key: Key, records: Records) -> None:
        ask = self.holding.ask
        if ask.grouping is not None:
            assert "updated_at" not in record
            return
        found = records[key[1]]
        assert record["updated_at"] == f"orders:{found.partition}@{found.position}"
        assert record.get("timestamp") == (iso_time(found.time) if "timestamp" in ask.words else None)

    # live

    def take(self, message: Json, sent: float) -> None:
        """Apply a publish or an oof."""
        ask, holding = self.holding.ask, self.holding
        assert self.group is None, "a message within a group"
        assert holding.positions is not None or self.turned_from is not None
        key = self._key(message, ask)
        if not self.step:
            self._begin_step(message, key)
        self.step.append(message)
        if ask.conflation or ask.is_window:
            others = [self._key(other, ask) for other in self.step[:-1]]
            assert key not in others, "told twice in a step"
        if message["command"] == "oof":
            self._leave(key, message)
        elif "delta" in message:
            self._merge(key, message)
        else:
            holding.held[key] = copy.deepcopy(message["data"])
            holding.partial.discard(key)
        if "more" not in message:
            self._end_step(message, sent)

    def _begin_step(self, message: Json, key: Key) -> None:
        """The bookmark that is named before the end is one at which what is held is true."""
        if self.turned_from is not None and self._is_turning(message, key):
            return
        assert not self.owed, "not told of what leaves"
        self.turned_from = None
        assert self.holding.positions is not None
        self.saved = copy.deepcopy(self.holding)
        if "more" in message:
            positions = self._laid_over(message)
            assert all(positions[p] >= self.holding.positions[p] for p in positions)
            self.check_holding(self.holding.ask.view(self.service.at(positions)), keep=False)

    def _is_turning(self, message: Json, key: Key) -> bool:
        """Whether a message tells what leaves because another subscription has taken its place."""
        ask, positions = self.holding.ask, self.holding.positions
        if ask.has_snapshot or positions is None:
            return True
        given = parse_bookmark(message["bookmark"])["orders"]
        is_old = all(given[p] <= positions[p] for p in given)
        return message["command"] == "oof" and is_old and key not in ask.view(self.service.at(positions))

    def _end_step(self, message: Json, sent: float) -> None:
        ask, holding, service = self.holding.ask, self.holding, self.service
        before, step = self.saved, self.step
        if self.turned_from is not None:
            assert not ask.has_snapshot
            assert holding.positions == self._laid_over(message)
            assert not self.owed, "not told of what leaves"
            holding.extra &= set(holding.held)
            self.turned_from, self.step = None, []
            return
        assert before is not None
        assert before.positions is not None
        positions = self._laid_over(message)
        assert positions != before.positions
        assert all(positions[p] >= before.positions[p] for p in positions), "goes back"
        holding.positions, self.saved, self.step = positions, None, []
        self.check_holding(ask.view(service.at(positions)))
        for other in step:
            self._check_message(other, before, positions)
        is_hurried = self.is_back or (ask.is_window and sent in self.replaced_at)
        if ask.interval is not None and not is_hurried:
            self._check_interval(before.positions, positions, sent)
        self.step_sent, self.is_back = sent, False

    def _check_interval(self, before: Positions, positions: Positions, sent: float) -> None:
        """An interval begins with a change, and not before the last one ended."""
        interval = (self.holding.ask.interval or 0) / 1000 - 1e-6
        assert self.step_sent is None or sent - self.step_sent >= interval, "too soon after the last step"
        applied = [at for _, _, at in self.service.changes_between(before, positions)]
        assert sent - min(applied) >= interval, "before the interval ended"

    def _leave(self, key: Key, message: Json) -> None:
        holding = self.holding
        assert holding.ask.oof
        assert message["reason"] in ("match", "deleted", "entitlement")
        before = self.turned_from or holding
        if before.complete:
            assert key in holding.held, "leaves what it never was in"
        holding.held.pop(key, None)
        holding.partial.discard(key)
        self.owed.discard(key)

    def _merge(self, key: Key, message: Json) -> None:
        holding, ask = self.holding, self.holding.ask
        assert ask.delta
        if key not in holding.held:
            assert not holding.complete or key in holding.missing, "a delta of what is not held"
            holding.partial.add(key)
            holding.held[key] = {}
        record = holding.held[key]
        merge(record, copy.deepcopy(message["data"]))
        for path in message.get("removed", ()):
            remove(
                record,
                path,
                strict=key not in holding.partial and len(message["sids"]) == 1 and not ask.conflation,
            )

    def _check_message(self, message: Json, before: Holding, positions: Positions) -> None:
        """What a message of a step says next to the outcome."""
        ask, key = self.holding.ask, self._key(message)
        data = message["data"]
        name = "id" if ask.grouping is None else ask.grouping.field
        if ask.sent({name: 1}):
            assert name in data, "without its key"
        if "delta" in message and "no_empties" in ask.words:
            changed = [ask.sent(data).keys() - {name}, message.get("removed", ())]
            assert any(changed), "tells nothing"
        if message["command"] == "oof" and key not in before.partial:
            self._check_leaving(message, key, before, positions)
        if not ask.is_window and not ask.conflation:
            self._check_single(message, key)

    def _check_single(self, message: Json, key: Key) -> None:
        """A message is of one change."""
        ((partition, position),) = parse_bookmark(message["bookmark"])["orders"].items()
        number, change, _ = self.service.changed[partition][position]
        assert key == ("id", number)
        if message["command"] == "publish":
            assert self.holding.ask.mine.sees(json.loads(change.body or b""))
        if "timestamp" in self.holding.ask.words:
            assert message["timestamp"] == iso_time(change.time)

    def _check_leaving(self, message: Json, key: Key, before: Holding, positions: Positions) -> None:
        """The body of what leaves."""
        ask, data = self.holding.ask, self.holding.ask.sent(message["data"])
        held = before.held.get(key)
        if self.is_back and ask.grouping is not None and ask.grouping.tells_latest:
            self._check_leaving_unseen(data, key, before)
            return
        if ask.conflation:
            assert held is None or data == ask.sent(held), "not the body that was sent last"
            return
        records = self.service.at(positions)
        if ask.grouping is None:
            there = {("id", number): record.body for number, record in records.items()}
        else:
            there = ask.all(records)
        self._check_reason(message, key, positions)
        if message["reason"] == "match":
            assert data == ask.sent(there[key])
        else:
            assert held is None or data == ask.sent(held)

    def _check_reason(self, message: Json, key: Key, positions: Positions) -> None:
        """Why a record leaves: the last change that took it out of sight decides."""
        ask, number = self.holding.ask, key[1]
        records = self.service.at(positions)
        if ask.grouping is not None:
            assert message["reason"] == ("match" if key in ask.all(records) else "deleted")
            return
        if number in records and ask.mine.sees(records[number].body):
            expected = "match"
        else:
            gone = [
                change
                for change in self.service.changes_of(number, positions)
                if self._sees(change.previous) and not self._sees(change.body)
            ]
            expected = "deleted" if gone[-1].body is None else "entitlement"
        assert message["reason"] == expected, (key, message["reason"], expected)

    def _sees(self, body: bytes | None) -> bool:
        return body is not None and self.holding.ask.mine.sees(json.loads(body))

    def _check_leaving_unseen(self, data: Json, key: Key, before: Holding) -> None:
        """A group that went while its client was away is told as one of its records would have it."""
        ask = before.ask
        assert ask.grouping is not None
        assert before.positions is not None
        field, made = ask.grouping.field, ask.grouping.made
        members = ask.matching(self.service.at(before.positions)).values()
        assert data in [ask.sent(made(field, [one])) for one in members if one.body[field] == key[1]]
