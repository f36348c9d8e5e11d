"""The judgment of a whole history. Pure: the same events have the same verdict, on any machine, at any time."""

from collections import defaultdict
from collections.abc import Iterable

from sowline.check.history import (
    CheckedTopic,
    Event,
    HistoryBegin,
    MessageRead,
    ReadEnded,
    ReadOpened,
    Unanswered,
    WriteAnswered,
    WriteSent,
)
from sowline.check.judge.fanouts import FanoutJudge
from sowline.check.judge.reads import EXPIRED_BOOKMARK, ReadJudge
from sowline.check.judge.results import ResultJudge
from sowline.check.judge.truth import TopicTruth, truth_of
from sowline.check.judge.verdict import Guarantee, Judgment
from sowline.check.judge.views import ViewReads
from sowline.check.judge.writes import WritesJudge


class ParsedHistory:
    """The events of a history, by what they are about."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.topics: tuple[CheckedTopic, ...] = ()
        self.resume_window_seconds = 0.0
        self.writes: dict[str, WriteSent] = {}
        self.answers: dict[str, WriteAnswered] = {}
        self.reads: dict[str, ReadOpened] = {}
        self.ends: dict[str, ReadEnded] = {}
        self.messages: list[MessageRead] = []
        self.unanswered: list[Unanswered] = []
        for event in events:
            match event:
                case HistoryBegin():
                    self.topics, self.resume_window_seconds = event.topics, event.resume_window_seconds
                case WriteSent():
                    self.writes[event.id] = event
                case WriteAnswered():
                    self.answers[event.id] = event
                case ReadOpened():
                    self.reads[event.read] = event
                case MessageRead():
                    self.messages.append(event)
                case ReadEnded():
                    self.ends[event.read] = event
                case Unanswered():
                    self.unanswered.append(event)
                case _:
                    pass

    def live(self, topic: str) -> list[MessageRead]:
        """Return the messages about single changes of a topic that services have sent."""
        # Not those of fanouts, which are judged by the result: with their repeats they would outvote all subscribers
        # (test_votes).
        reads = {
            one.read
            for one in self.reads.values()
            if one.topic == topic and not one.conflated and not one.is_computed and not one.fanout
        }
        return [one for one in self.messages if one.command in ("publish", "oof") and one.read in reads]


def judge(events: Iterable[Event]) -> Judgment:
    """Return what a history shows of each guarantee."""
    history, verdict = ParsedHistory(events), Judgment()
    truths = {
        topic.name: truth_of(topic, history.writes, history.answers, history.live(topic.name))
        for topic in history.topics
        if topic.totals is None
    }
    for truth in truths.values():
        WritesJudge(truth, history.writes, history.answers, verdict).judge()
    _judge_reads(history, truths, verdict)
    for read, ended in history.ends.items():
        if ended.reason == EXPIRED_BOOKMARK and history.reads[read].resumed:
            is_kept = ended.bookmark_age_seconds >= history.resume_window_seconds
            what = f"a bookmark of {ended.bookmark_age_seconds:.0f} s ago has expired"
            verdict.check(Guarantee.RESUME, is_kept, what, read)
    verdict.checked[Guarantee.ANSWERS] += len(history.answers) + len(history.ends)
    for unanswered in history.unanswered:
        verdict.check(Guarantee.ANSWERS, is_kept=False, sentence=unanswered.message)
    return verdict


def _judge_reads(history: ParsedHistory, truths: dict[str, TopicTruth], verdict: Judgment) -> None:
    views = {
        topic.name: ViewReads(topic.totals, truths[topic.totals.source], verdict)
        for topic in history.topics
        if topic.totals is not None
    }
    messages: dict[str, list[MessageRead]] = defaultdict(list)
    for message in history.messages:
        opened = history.reads[message.read]
        if opened.topic in views:
            # In the order in which they arrived: a subscriber is compared with what a query found before.
            views[opened.topic].take(opened, message)
        else:
            messages[message.read].append(message)
    for read, opened in history.reads.items():
        if opened.topic in truths:
            one = _judge_of(opened)(opened, truths[opened.topic], verdict)
            for message in messages[read]:
                one.take(message)
            one.end(history.ends.get(read))


def _judge_of(opened: ReadOpened) -> type[FanoutJudge | ReadJudge | ResultJudge]:
    if opened.fanout:
        return FanoutJudge
    return ResultJudge if opened.is_computed else ReadJudge
