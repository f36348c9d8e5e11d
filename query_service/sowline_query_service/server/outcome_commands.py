"""The commands with which a gateway follows its writes: it writes to Kafka itself, and this replica reports."""

import asyncio
from functools import partial

import msgspec
import orjson

from sowline.config.topic_definition import TopicDefinition
from sowline.errors import SowlineError
from sowline.serving.authorization.entitlements import chosen_topic
from sowline.serving.outbox.group import acknowledge_processed
from sowline.serving.sessions.command_runner import CommandRunner
from sowline.serving.sessions.running_queries import RunningQueries
from sowline.serving.writes.destination import AwaitedReports
from sowline.serving.writes.outcome import SECONDS_MAX
from sowline.wire.request import Outcome, OutcomeRequest, WatchOutcomes
from sowline.wire.server_message import message
from sowline_query_service.context import ServiceContext


class OutcomeCommands:
    """The watches of one gateway, and the outcomes that it waits for."""

    def __init__(self, context: ServiceContext, runner: CommandRunner, running: RunningQueries) -> None:
        self._runner = runner
        self._running = running
        self._state = context.state
        self._destination = context.destination

    def watch(self, request: WatchOutcomes) -> None:
        """Keep the reports about a topic's commands until the gateway ends the watch."""
        topic = self._topic(request)
        self._destination.require_ready([topic.name])
        self._running.start(request, partial(self._run_watch, request, topic))

    async def _run_watch(self, request: WatchOutcomes, topic: TopicDefinition) -> None:
        watch = self._destination.watch_topics([topic.name])
        try:
            acknowledge_processed(self._runner.outbox, request)
            await asyncio.get_running_loop().create_future()
        finally:
            watch.end()

    def outcome(self, request: Outcome) -> None:
        """Wait for the reports of some partitions about a command."""
        topic = self._topic(request)
        asked = request.asked
        held = self._state.topics[topic.name].partitions
        if missing := sorted(set(asked.partitions) - held.keys()):
            raise SowlineError(
                "gateway required", f"expected partitions of this shard, got {', '.join(map(str, missing))}"
            )
        self._running.start(request, partial(self._run_outcome, request, topic, asked))

    async def _run_outcome(self, request: Outcome, topic: TopicDefinition, asked: OutcomeRequest) -> None:
        # The gateway waits as long, and reports that the outcome is not known.
        try:
            async with asyncio.timeout(SECONDS_MAX):
                awaited = AwaitedReports(topic, asked.origin, asked.partitions)
                found = await self._destination.wait_reports(awaited)
        except TimeoutError:
            raise SowlineError("behind", f"the command was not applied within {SECONDS_MAX:g} s") from None
        reports = orjson.Fragment(msgspec.json.encode(found))
        self._runner.outbox.put(message("outcome", command_id=request.command_id, reports=reports))

    def _topic(self, request: WatchOutcomes | Outcome) -> TopicDefinition:
        topics = self._destination.topics
        return topics[chosen_topic(request.topic, topics, self._runner.rights.write)]
