"""The topics of a query service as the destination of writes: its replica reports their outcomes."""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence

from sowline.commands.command import Origin
from sowline.config.topic_definition import TopicDefinition
from sowline.language.emodb.template import Fields
from sowline.serving.writes.checked_command import CheckedCommand
from sowline.serving.writes.destination import AwaitedReports
from sowline.serving.writes.outcome import OutcomeReports
from sowline.serving.writes.write_entitlements import RecordCheck
from sowline_query_service.topics.followed_partitions import Batches
from sowline_query_service.topics.state import ServedTopics
from sowline_query_service.topics.topic_state import TopicState, require_loaded
from sowline_query_service.writes.outcomes import Outcomes


class ReplicaDestination:
    """The topics and their replicas. For use in the event loop."""

    def __init__(self, state: ServedTopics) -> None:
        self._state = state
        self.topics: Mapping[str, TopicDefinition] = state.definitions
        self.outcomes = Outcomes()
        self._waiting: dict[str, dict[Origin, list[asyncio.Future[None]]]] = {}
        """By log, what waits for new reports about each command."""

    def take(self, batches: Batches) -> None:
        """Take the events that the replicas have applied."""
        for (changes, partition), portions in batches.items():
            log = self._state.log_of(changes)
            waiting, news = self._waiting.get(log, {}), self.outcomes.take(log, partition, portions)
            # Not all that wait: 10,000 commands of a client would wake for each batch of any topic, and each look
            # for its reports (test_commands_wake_only_for_their_own_reports).
            self._wake(one for origin in news.of(waiting) for one in waiting[origin])

    def wake(self, log: str) -> None:
        """Let all that wait for commands of a log look again."""
        self._wake(one for some in self._waiting.get(log, {}).values() for one in some)

    @staticmethod
    def _wake(waiting: Iterable[asyncio.Future[None]]) -> None:
        for one in waiting:
            if not one.done():
                one.set_result(None)

    def require_ready(self, topics: Collection[str]) -> None:
        """Raise `not ready` while one of these topics is being loaded."""
        require_loaded(self._state.topics[name] for name in topics)

    def records(self, topic: str) -> int:
        """Return the number of a topic's records."""
        return self._state.topics[topic].record_count

    def era(self, topic: str, partition: int) -> int:
        """Return the current era of a partition."""
        return self._state.topics[topic].partitions[partition].held.era

    async def bodies_of(self, checks: Iterable[RecordCheck]) -> AsyncIterator[Sequence[bytes]]:
        """Yield, for each check, the bodies of the records that it names, as far as they exist."""
        for check in checks:
            yield self._bodies_of(check)

    def _bodies_of(self, check: RecordCheck) -> Sequence[bytes]:
        topic = check.topic.name
        rows, rule = self._state.topics[topic].rows, self.topics[topic].key_rule
        named = check.key_text
        keys = map(str.encode, check.sow_keys) if named is None else [rule.sow_key(named)]
        return [body for key in keys if (body := rows.body(key)) is not None]

    def template(self, topic: str, key_text: str) -> Fields:
        """Return the template's fields with which a document of this key reads after a write."""
        return self._state.topics[topic].template(key_text)

    def watch_now(self, writes: Sequence[CheckedCommand]) -> "ReplicaWatch":
        """Begin to watch for the outcomes of commands that are about to be written."""
        return self.watch_topics({write.topic.name for write in writes})

    async def watch(self, writes: Sequence[CheckedCommand]) -> "ReplicaWatch":
        """Begin to watch for the outcomes of commands that are about to be written."""
        return self.watch_now(writes)

    def watch_topics(self, topics: Collection[str]) -> "ReplicaWatch":
        """Begin to watch for the outcomes of commands to these topics."""
        return ReplicaWatch(self, self.outcomes, [self._state.topics[name] for name in topics])

    async def wait_reports(self, awaited: AwaitedReports) -> OutcomeReports:
        """Wait until these partitions have reported about a command; a watch must keep the reports."""
        while (found := self.reports_now(awaited)) is None:
            await self._wait_for_news(awaited.topic.log, awaited.origin)
        return found

    async def _wait_for_news(self, log: str, origin: Origin) -> None:
        """Wait until there is a new report about a command."""
        came: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        of_log = self._waiting.setdefault(log, {})
        of_command = of_log.setdefault(origin, [])
        of_command.append(came)
        try:
            await came
        finally:
            of_command.remove(came)
            if not of_command:
                del of_log[origin]

    def reports_now(self, awaited: AwaitedReports) -> OutcomeReports | None:
        """Return the reports of these partitions about a command; None if one has not reported."""
        topic, origin, wanted = awaited
        found = self.outcomes.reports(topic.log, origin, wanted)
        return None if found.lacking(wanted) else found


class ReplicaWatch:
    """Keeps the reports about commands that are written after it began. Call `end`."""

    def __init__(
        self, destination: ReplicaDestination, outcomes: Outcomes, topics: Sequence[TopicState]
    ) -> None:
        self._destination = destination
        self._outcomes = outcomes
        # Before the commands are written: their outcomes may be applied here before Kafka's acknowledgements arrive.
        self._tokens = [
            (one.definition.log, outcomes.begin(one.definition.log, one.positions)) for one in topics
        ]

    async def wait_reports(self, awaited: Iterable[AwaitedReports]) -> list[OutcomeReports]:
        """Wait until the reports about the first command are there; return them, and those that directly follow."""
        following = iter(awaited)
        found = [await self._destination.wait_reports(next(following))]
        for one in following:
            if (reports := self._destination.reports_now(one)) is None:
                break
            found.append(reports)
        return found

    def end(self) -> None:
        """Stop waiting."""
        for log, token in self._tokens:
            self._outcomes.end(log, token)
            # Nothing is reported of it any more if nobody else watches: who still waits gets an error
            # (test_who_waits_when_the_last_watch_ends_gets_an_error).
            if log not in self._outcomes.logs:
                self._destination.wake(log)
        self._tokens = []
