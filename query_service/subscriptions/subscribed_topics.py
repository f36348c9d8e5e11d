"""The live subscriptions of one subscription, one for each of its topics."""

import time
from collections.abc import Iterator

from fanout.engine.subscription import Subscription
from query_service.live.dispatcher import Dispatcher
from query_service.live.subscription import LiveSubscription
from query_service.outbox.outbox import Outbox
from query_service.query.read_request import PositionsByLog
from query_service.query.selection import Selection
from query_service.subscriptions.progress import positions_between
from query_service.topics.state import TopicState


class SubscribedTopics:
    """All topics of one subscription, each with its position."""

    def __init__(
        self,
        outbox: Outbox,
        sub_id: str,
        topics: list[TopicState],
        engine: Subscription,
        selection: Selection,
    ) -> None:
        self.topics = topics
        self._live = [LiveSubscription(outbox, sub_id, topic, engine, selection) for topic in topics]
        for live in self._live:
            live.stand_at(live.topic.positions)

    def __iter__(self) -> Iterator[LiveSubscription]:
        return iter(self._live)

    @property
    def first(self) -> LiveSubscription:
        """That of the first topic."""
        return self._live[0]

    @property
    def logs(self) -> set[str]:
        """The Kafka topics that their bookmarks name."""
        return {live.log for live in self._live}

    @property
    def sent(self) -> PositionsByLog:
        """Up to where the client is sent everything, by log."""
        return {live.log: live.sent for live in self._live}

    @property
    def applied(self) -> PositionsByLog:
        """The positions of the replicas, by log."""
        return {live.log: live.topic.positions for live in self._live}

    @property
    def positions(self) -> PositionsByLog:
        """Their positions, by log."""
        return {live.log: dict(live.positions) for live in self._live}

    @property
    def is_live(self) -> bool:
        """Whether all of them are live."""
        return all(live.live.is_set() for live in self._live)

    @property
    def behind_positions(self) -> int:
        """The number of log offsets that the client is behind the replicas."""
        return sum(positions_between(live.sent, live.topic.positions) for live in self._live)

    @property
    def behind_seconds(self) -> float:
        """Seconds since all of them were live; 0 if they are now."""
        level_at = [live.level_at for live in self._live if not live.live.is_set()]
        return time.monotonic() - min(level_at) if level_at else 0.0

    def look(self, *, is_paced: bool) -> bool:
        """Tell whether a message was sent since the last look, or one of them is still catching up."""
        was_sent = False
        for live in self._live:
            was_sent |= live.was_sent or not (live.live.is_set() or is_paced)
            live.was_sent = False
        return was_sent

    def move_to(self, positions: PositionsByLog) -> None:
        """Let each continue from its position."""
        for live in self._live:
            live.stand_at(positions[live.log])

    def leave(self, dispatcher: Dispatcher) -> None:
        """Let none of them be live any longer."""
        for live in self._live:
            dispatcher.remove(live)

    def flush(self) -> None:
        """Send what conflation holds back."""
        for live in self._live:
            if live.conflated is not None:
                live.conflated.flush()

    def fall_behind(self) -> None:
        """Let each catch up from what its client was sent."""
        for live in self._live:
            live.fall_behind()

    async def wait_live(self) -> None:
        """Wait until each has been live."""
        for live in self._live:
            await live.live.wait()
