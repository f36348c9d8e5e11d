"""The topics of a gateway as the destination of writes: nodes have their records, and report the outcomes."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from urllib.parse import quote

from sowline.language.emodb.template import Fields
from sowline.serving.authorization.entitlements import EVERYTHING
from sowline.serving.result import QueryLimits
from sowline.serving.writes.checked_command import CheckedCommand
from sowline.serving.writes.requests import Definitions
from sowline.serving.writes.write_entitlements import RecordCheck
from sowline_gateway.nodes.http import NodeHttp
from sowline_gateway.nodes.node_set import NodeSet
from sowline_gateway.query.keyed_records import RecordsAsked, records_of
from sowline_gateway.query.record_read import read_from_holder
from sowline_gateway.writes.outcome_watch import KEPT_SECONDS, NodesWatch, TopicWatch


class NodesDestination:
    """The topics, at all nodes."""

    def __init__(self, nodes: NodeSet, http: NodeHttp, limits: QueryLimits) -> None:
        self._nodes = nodes
        self._http = http
        self._limits = limits
        self._watches: dict[str, TopicWatch] = {}
        self._beginning: dict[str, asyncio.Lock] = {}
        self._numbers = itertools.count(1)
        self._eras: dict[tuple[str, int], int] = {}

    @property
    def topics(self) -> Definitions:
        """The definitions of the topics, by name."""
        return self._nodes.topics

    def require_ready(self, topics: Collection[str]) -> None:
        """Do nothing: a command is written as soon as a node of its partition can be asked for the outcome."""

    def records(self, topic: str) -> int:
        """Return the number of a topic's records, as the nodes have announced it."""
        return sum(part["records"] for part in self._nodes.described(topic))

    def era(self, topic: str, partition: int) -> int:
        """Return the newest era of a partition that a node has announced."""
        announced = [
            held.positions[partition].era
            for node in self._nodes.announcements.nodes
            if (held := node.topics.get(topic)) is not None and partition in held.positions
        ]
        # The node may have been lost since the command was written.
        era = max([self._eras.get((topic, partition), 0), *announced])
        self._eras[topic, partition] = era
        return era

    def forget(self, topic: str) -> None:
        """Keep nothing of a topic that is no longer defined. Its watches end with their last command."""
        self._watches.pop(topic, None)
        self._beginning.pop(topic, None)
        self._eras = {partition: era for partition, era in self._eras.items() if partition[0] != topic}

    async def bodies_of(self, checks: Iterable[RecordCheck]) -> AsyncIterator[Sequence[bytes]]:
        """Yield, for each check, the bodies of the records that it names, as far as they exist."""
        # One after another: together, the checks of one request could take all that nodes may answer at once, and a
        # request that is refused for its first command would have read the records of all.
        for check in checks:
            yield await self._bodies_of(check)

    async def _bodies_of(self, check: RecordCheck) -> Sequence[bytes]:
        topic = check.topic.name
        if check.key_text is None:
            # With all rights, as below.
            asked = RecordsAsked(self._nodes, topic, EVERYTHING, self._limits)
            found = await records_of(asked, check.sow_keys, {})
            return list(found.values())
        path = f"/v1/topics/{quote(topic)}/records/{quote(check.key_text, safe='')}"
        # With all rights: a record that the writer may not see must be checked, too.
        answer = await read_from_holder(self._nodes, self._http, topic, check.key_text, path, "", EVERYTHING)
        if answer.is_refusal:
            if answer.error.reason == "no record":
                return []
            raise answer.error
        return [answer.body]

    def template(self, topic: str, key_text: str) -> Fields:
        """Return the template's fields in the file: nodes do not announce those that are in effect."""
        return self.topics[topic].declared.template

    def watch_now(self, writes: Sequence[CheckedCommand]) -> NodesWatch | None:
        """Begin to watch for the outcomes of commands that are about to be written; None if nodes must be asked."""
        needed = _needed(writes)
        usable = {name: watch for name in needed if (watch := self._usable(name, needed[name])) is not None}
        if len(usable) < len(needed):
            return None
        for watch in usable.values():
            watch.use()
        return NodesWatch(usable)

    def _usable(self, name: str, needed: Collection[int]) -> TopicWatch | None:
        watch = self._watches.get(name)
        return watch if watch is not None and watch.takes_more and watch.covers(needed) else None

    async def watch(self, writes: Sequence[CheckedCommand]) -> NodesWatch:
        """Begin to watch for the outcomes of commands that are about to be written; raise `shard unavailable`."""
        used: dict[str, TopicWatch] = {}
        try:
            for name, needed in _needed(writes).items():
                watch = self._usable(name, needed) or await self._begin_watch(name, needed)
                watch.use()
                used[name] = watch
        except BaseException:
            # The watches that this request uses already would count it as their user forever, and never end.
            NodesWatch(used).end()
            raise
        for write in writes:
            if write.key is not None:
                self.era(write.topic.name, write.partition)
        return NodesWatch(used)

    async def _begin_watch(self, name: str, needed: Collection[int]) -> TopicWatch:
        """Return a new watch of a topic, or a usable one that another request has begun since then."""
        async with self._beginning.setdefault(name, asyncio.Lock()):
            if (usable := self._usable(name, needed)) is not None:
                return usable
            before = self._watches.get(name)
            watch = TopicWatch(self._nodes, self.topics[name], f"outcomes-{next(self._numbers)}")
            # The watch is shared only once it has begun: without reports, a write that used it would wait forever.
            await watch.begin(needed)
            self._watches[name] = watch
            # The last user may leave earlier. After that, nothing else would end the watch.
            asyncio.get_running_loop().call_later(KEPT_SECONDS, watch.end_if_unused)
            if before is not None:
                # Nothing refers to the watch before it any more, so nothing else would end it.
                before.end_if_unused()
            return watch


def _needed(writes: Sequence[CheckedCommand]) -> Mapping[str, Collection[int]]:
    """Return by topic the partitions that may report about the commands."""
    needed: dict[str, set[int]] = {}
    for write in writes:
        some = needed.setdefault(write.topic.name, set())
        if write.key is None:
            # Its owner may forward it to any partition.
            some.update(range(write.topic.partitions))
        else:
            some.add(write.partition)
    return needed
