"""Follows the announcements of the query services: asks each for its topics up to twice a second."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import orjson
import structlog

from sowline.errors import SowlineError
from sowline.model.bookmark import Positions
from sowline.model.position import Position
from sowline.wire.node_queries import sample_turn_seconds
from sowline_gateway.nodes.connections import NodeLost
from sowline_gateway.nodes.http import NodeHttp
from sowline_gateway.nodes.routing import AnnouncedTopic, Announcement

log = structlog.get_logger()

ASK_SECONDS = 0.5
ANSWER_SECONDS_MAX = 2.0
"""A node that does not answer within this time gets no requests until it announces itself again."""

SILENCE_SECONDS_MAX = 10.0
"""A node that does not answer for this long may be frozen: its connections are ended."""


class Announcements:
    """The newest announcement of each node that answers."""

    def __init__(self, urls: Sequence[str], http: NodeHttp) -> None:
        self.urls = urls
        self._http = http
        self._known: dict[str, Announcement] = {}
        self._described: dict[str, Mapping[str, Any]] = {}
        self._failed: dict[str, float] = {}
        self._news = asyncio.Event()
        self.on_silence: Callable[[str], None] = lambda url: None
        """Called with the URL of a node that has not answered for `SILENCE_SECONDS_MAX`."""
        self.lost = 0
        """The number of times that a node could not be reached when it was asked."""

    @property
    def nodes(self) -> Collection[Announcement]:
        """The nodes that answer."""
        return self._known.values()

    def described(self, url: str) -> Mapping[str, Any]:
        """Return a node's whole description of its topics, by name."""
        return self._described.get(url, {})

    def note(self, url: str, positions: Mapping[str, Positions]) -> None:
        """Note positions by topic that a node has shown since its announcement."""
        if (known := self._known.get(url)) is not None:
            known.note(positions)

    def failed(self, url: str) -> None:
        """Note that a node could not be reached: it is not asked until it announces itself again."""
        assert url in self.urls, "only nodes that announce themselves are asked"
        self._known.pop(url, None)
        self._failed[url] = time.monotonic()
        self.lost += 1

    async def wait_for_news(self, seconds_max: float) -> None:
        """Wait until a node announces itself, but no longer than this."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds_max):
                await self._news.wait()

    async def follow(self) -> None:
        """Ask all nodes repeatedly."""
        await asyncio.gather(*(self._follow(url) for url in self.urls))

    async def _follow(self, url: str) -> None:
        reported, answered = "", time.monotonic()
        while True:
            asked = time.monotonic()
            try:
                answer = await self._http.ask_announcement(url, ANSWER_SECONDS_MAX)
                self._take(url, orjson.loads(answer), asked)
                reported, answered = "", asked
            except (NodeLost, SowlineError, ValueError, LookupError, TypeError) as error:
                self._known.pop(url, None)
                # Once for each reason, or a node that stays away would fill the log.
                if str(error) != reported:
                    reported = str(error)
                    log.warning("query service does not answer", url=url, why=reported or repr(error))
                if not isinstance(error, NodeLost):
                    # A node that refuses is not frozen: its subscriptions continue
                    # (test_a_node_that_refuses_is_not_silent).
                    answered = asked
                elif asked - answered > SILENCE_SECONDS_MAX:
                    self.on_silence(url)
            await asyncio.sleep(ASK_SECONDS)

    def _take(self, url: str, answer: Mapping[str, Any], asked: float) -> None:
        if asked <= self._failed.get(url, 0.0):
            return  # it was asked before it failed
        self._described[url] = {topic["name"]: topic for topic in answer["topics"]}
        topics = {topic["name"]: _announced(topic) for topic in answer["topics"]}
        turn_seconds = sample_turn_seconds(sum(len(topic.positions) for topic in topics.values()))
        self._known[url] = Announcement(url, answer["shard"], topics, turn_seconds)
        # This wakes all current waiters. Later ones wait for the next announcement.
        self._news.set()
        self._news = asyncio.Event()


def _announced(topic: Mapping[str, Any]) -> AnnouncedTopic:
    positions = {one["partition"]: Position.parse(one["position"]) for one in topic["lags"]}
    return AnnouncedTopic(positions, topic["loading"], topic["lag_seconds"], topic["lag"])
