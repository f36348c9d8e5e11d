"""Which guarantees the reads of groups and live pages keep: each step leads to the result of its bookmark. Pure."""

from sowline.check.history import MessageRead, ReadEnded, ReadOpened
from sowline.check.judge.bookmarks import covers, read_bookmark
from sowline.check.judge.reads import check_promise, digest
from sowline.check.judge.records import Body, key_of, matches, page_of, totals_of
from sowline.check.judge.truth import TopicTruth
from sowline.check.judge.verdict import Guarantee, Judgment


class ResultJudge:
    """Judges one read whose messages are steps of a whole result."""

    def __init__(self, opened: ReadOpened, truth: TopicTruth, verdict: Judgment) -> None:
        self._opened = opened
        self._truth = truth
        self._verdict = verdict
        self._guarantee = Guarantee.PAGES if opened.groups is None else Guarantee.GROUPS
        self._key = truth.topic.key if opened.groups is None else opened.groups.grouping
        # Who resumes holds what was right at the bookmark, or an earlier read has been judged for it.
        self._held = self._wanted(opened.bookmark) if opened.resumed else {}
        self._sow_keys: dict[str, str] = {}
        self._reached = opened.bookmark
        self._is_complete = opened.resumed

    def take(self, message: MessageRead) -> None:
        """Judge the next message."""
        key = key_of(message.data, self._key) or ""
        match message.command:
            case "group_begin":
                self._held.clear()
                self._is_complete = False
            case "sow":
                self._hold(key, message)
            case "group_end":
                self._is_complete = True
                check_promise(self._opened, message.bookmark, self._verdict)
                self._compare(message)
                self._check_sum(self._guarantee, message)
            case "progress":
                self._compare(message)
                self._check_sum(Guarantee.CHECKSUM, message)
            case "publish":
                self._hold(key, message)
                self._end_step(message)
            case "oof":
                what = f"expected an oof of what is held, got one of {key}"
                self._verdict.check(self._guarantee, key in self._held, what, self._opened.read, [key])
                self._held.pop(key, None)
                self._end_step(message)

    def end(self, ended: ReadEnded | None) -> None:
        """Judge the end of the read, or of the history."""
        opened = self._opened
        if ended is not None and not ended.reason and opened.command == "sow" and not self._is_complete:
            self._verdict.add(self._guarantee, "expected a group_end, got the end of the query", opened.read)

    def _hold(self, key: str, message: MessageRead) -> None:
        self._held[key] = message.data or {}
        self._sow_keys[key] = message.sow_key

    def _end_step(self, message: MessageRead) -> None:
        # Within a step, what is held is the result of no bookmark (test_a_mistake_is_named_once).
        if not message.more:
            what = f"got a step to {message.bookmark} after {self._reached}"
            is_after = covers(message.bookmark, self._reached)
            self._verdict.check(Guarantee.ORDER, is_after, what, self._opened.read)
            self._compare(message)

    def _compare(self, message: MessageRead) -> None:
        """Compare what the reader holds with the result at a bookmark."""
        bookmark = self._reached = message.bookmark
        # Groups and pages do not tell which record has expired (test_an_expiry_that_no_subscriber_receives).
        if not self._truth.is_known(read_bookmark(bookmark)):
            return
        wanted = self._wanted(bookmark)
        self._verdict.checked[self._guarantee] += 1
        for key in sorted(wanted.keys() | self._held.keys()):
            if wanted.get(key) != self._held.get(key):
                what = f"expected {wanted.get(key)} at {bookmark}, got {self._held.get(key)}"
                self._verdict.add(self._guarantee, what, self._opened.read, [key])
        # Each mistake is named once, not again at each later step (test_a_mistake_is_named_once).
        self._held = wanted

    def _wanted(self, bookmark: str) -> dict[str, Body]:
        opened = self._opened
        state = self._truth.state(read_bookmark(bookmark))
        bodies = {key: body for key, (body, _, _) in state.items() if matches(opened.filter, body)}
        if opened.groups is not None:
            return totals_of(opened.groups, bodies.values())
        return {key: bodies[key] for key in page_of(opened.order_by, opened.skip_n, opened.top_n, bodies)}

    def _check_sum(self, guarantee: Guarantee, message: MessageRead) -> None:
        """Compare the count and the hash of a message with what the reader holds then."""
        if message.hash:
            self._verdict.checked[guarantee] += 1
        records = message.records
        if records is not None and records != len(self._held):
            what = f"expected {len(self._held)} records at {message.bookmark}, got {records}"
            self._verdict.add(guarantee, what, self._opened.read)
        sow_keys = [self._sow_keys[key] for key in self._held if key in self._sow_keys]
        if message.hash and len(sow_keys) == len(self._held) and message.hash != digest(sow_keys):
            what = f"expected the hash {digest(sow_keys)} at {message.bookmark}, got {message.hash}"
            self._verdict.add(guarantee, what, self._opened.read)
