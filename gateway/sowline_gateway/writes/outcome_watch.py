"""Watches for the outcomes of commands at the nodes of a topic.

A node keeps reports about commands only while it is asked to. So the gateway asks it before it writes, and keeps the
watch for the commands of the next second. A watch ends when it is older and all of its commands are done.
"""

import asyncio
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import msgspec

from sowline.commands.command import Origin
from sowline.config.topic_definition import TopicDefinition
from sowline.errors import SowlineError
from sowline.serving.writes.destination import AwaitedReports
from sowline.serving.writes.outcome import OutcomeReports
from sowline.wire.node_queries import end_of, outcome_of, watch_of
from sowline_gateway.nodes.channel import NodeChannel
from sowline_gateway.nodes.connections import NodeLost
from sowline_gateway.nodes.failover import with_failover
from sowline_gateway.nodes.node_set import RETRY_REASONS, NodeSet
from sowline_gateway.nodes.routing import UNAVAILABLE, Announcement, TopicPartition, unavailable

KEPT_SECONDS = 1.0
"""How long a watch takes new commands: a node keeps the reports of all commands since the watch began."""

ASK_SECONDS_MAX = 2.0
"""A node that does not answer within this time is left out: others may watch the same partitions."""

_read_reports = msgspec.json.Decoder(OutcomeReports).decode


@dataclass(slots=True)
class _Watcher:
    """A node that watches, and the partitions of the topic that it holds."""

    channel: NodeChannel
    partitions: frozenset[int]


class TopicWatch:
    """A watch at all nodes of one topic that could be asked."""

    def __init__(self, nodes: NodeSet, topic: TopicDefinition, query_id: str) -> None:
        self.topic = topic
        self._nodes = nodes
        self._query_id = query_id
        self._began = time.monotonic()
        self._watchers: list[_Watcher] = []
        self._uses = 0
        self._is_ended = False

    @property
    def takes_more(self) -> bool:
        """Whether new commands may use it."""
        return not self._is_ended and time.monotonic() < self._began + KEPT_SECONDS

    def covers(self, partitions: Collection[int]) -> bool:
        """Whether a node that is not lost watches each of these partitions."""
        # A node keeps its reports for one connection. A new connection would not have them.
        held = frozenset().union(*(one.partitions for one in self._watchers if not one.channel.is_lost))
        return held.issuperset(partitions)

    async def begin(self, needed: Collection[int]) -> None:
        """Ask all nodes of the topic to watch; raise `shard unavailable` if none watches a partition `needed`."""

        async def attempt(avoid: Collection[str]) -> None:
            # A later attempt asks only the other nodes: those that watch already keep reports.
            name, watching = self.topic.name, {one.channel.url for one in self._watchers}
            nodes = [node for node in self._nodes.announcements.nodes if node.url not in watching]
            asking = [self._ask(node) for node in nodes if node.share([name])]
            # To the end: a node that is asked while another one fails would begin a watch that nothing ends.
            errors = await asyncio.gather(*asking, return_exceptions=True)
            for error in filter(None, errors):
                raise error
            if not self.covers(needed):
                raise unavailable(self._lacking(needed))

        try:
            await with_failover(self._nodes, attempt)
        except BaseException:
            self.end()
            raise
        # Not before: the nodes keep reports since they were asked, and that may take long.
        self._began = time.monotonic()

    def _lacking(self, needed: Collection[int]) -> frozenset[TopicPartition]:
        return frozenset((self.topic.name, number) for number in needed if not self.covers([number]))

    async def _ask(self, node: Announcement) -> None:
        """Ask a node to watch; it is left out if it can't be asked."""
        channel = None
        try:
            async with asyncio.timeout(ASK_SECONDS_MAX):
                channel = await self._nodes.channels.to(node.url)
                await channel.ask(watch_of(self.topic.name, self._query_id))
        except NodeLost:
            # Otherwise the next attempt would wait for the same node again.
            self._nodes.lost(node.url)
        except (TimeoutError, asyncio.CancelledError) as error:
            # It may be watching anyway: without this, it would keep reports forever.
            if channel is not None:
                self._end_at(channel)
            if isinstance(error, asyncio.CancelledError):
                raise
        except SowlineError as error:
            if error.reason not in RETRY_REASONS:
                raise
        else:
            held = frozenset(number for _, number in node.share([self.topic.name]))
            self._watchers.append(_Watcher(channel, held))

    def use(self) -> None:
        """Count one more user; each calls `leave`."""
        self._uses += 1

    def leave(self) -> None:
        """Count one user fewer; the last one of an old watch ends it."""
        self._uses -= 1
        self.end_if_unused()

    def end_if_unused(self) -> None:
        """End the watch if no commands use it, and no more will."""
        if not self._uses and not self.takes_more and not self._is_ended:
            self.end()

    def end(self) -> None:
        """Let the nodes stop keeping reports."""
        self._is_ended = True
        for one in self._watchers:
            self._end_at(one.channel)

    def _end_at(self, channel: NodeChannel) -> None:
        channel.send_soon(end_of(query_id=self._query_id))

    async def wait_reports(self, origin: Origin, wanted: Collection[int]) -> OutcomeReports:
        """Wait until these partitions have reported about a command; raise `shard unavailable`."""
        found = OutcomeReports(origin)
        avoid: set[str] = set()
        while missing := found.lacking(wanted):
            asked = self._watchers_of(missing, avoid)
            answers = await asyncio.gather(
                *(self._reports(one, origin, some) for one, some in asked), return_exceptions=True
            )
            for (one, _), answer in zip(asked, answers, strict=True):
                if isinstance(answer, OutcomeReports):
                    found.add(answer)
                elif isinstance(answer, NodeLost) or (
                    isinstance(answer, SowlineError) and answer.reason in RETRY_REASONS
                ):
                    # A node that is only busy has a healthy channel: without this, it would be asked again at once.
                    avoid.add(one.channel.url)
                else:
                    raise answer
        return found

    def _watchers_of(
        self, partitions: Collection[int], avoid: Collection[str]
    ) -> list[tuple[_Watcher, list[int]]]:
        """Return watchers that hold these partitions together, each with its own; raise `shard unavailable`."""
        by_watcher: dict[int, list[int]] = {}
        for number in partitions:
            able = [
                at
                for at, one in enumerate(self._watchers)
                if number in one.partitions and one.channel.url not in avoid and not one.channel.is_lost
            ]
            if not able:
                raise SowlineError(
                    UNAVAILABLE,
                    f"the command is on the log, but the query service that reports outcomes of partition {number} of"
                    f" {self.topic.name} was lost. The command is not: it is applied like any other",
                )
            by_watcher.setdefault(able[0], []).append(number)
        return [(self._watchers[at], numbers) for at, numbers in by_watcher.items()]

    async def _reports(self, watcher: _Watcher, origin: Origin, partitions: list[int]) -> OutcomeReports:
        answer = await watcher.channel.ask(outcome_of(self.topic.name, origin, partitions))
        found = _read_reports(answer.reports)
        # A query that must show the command's effect prefers a node that is known to have it.
        self._nodes.announcements.note(watcher.channel.url, {self.topic.name: found.positions})
        return found


class NodesWatch:
    """The watches that the commands of one request use, by topic; each is counted as used already."""

    def __init__(self, watches: Mapping[str, TopicWatch]) -> None:
        self._watches = watches

    async def wait_reports(self, awaited: Iterable[AwaitedReports]) -> list[OutcomeReports]:
        """Wait until the partitions have reported about the first command, and return their reports."""
        # A node is asked about one command at a time. If the first one was refused, its client need not wait for the
        # answers to the others.
        topic, origin, wanted = next(iter(awaited))
        return [await self._watches[topic.name].wait_reports(origin, wanted)]

    def end(self) -> None:
        """Stop waiting."""
        for watch in self._watches.values():
            watch.leave()
