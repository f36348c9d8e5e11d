"""The topics of one subscription: a live subscription for each of them."""

import time
from collections.abc import Iterator

from sowline.model.bookmark import PositionsByLog
from sowline.serving.outbox.outbox import Outbox
from sowline.subscriptions.engine.subscription import Subscription
from sowline_query_service.live.dispatcher import Dispatcher
from sowline_query_service.live.subscription import LiveSubscription
from sowline_query_service.query.selection import Selection
from sowline_query_service.subscriptions.progress import positions_between
from sowline_query_service.topics.topic_state import TopicState


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
        """The live subscription to the first topic."""
        return self._live[0]

    @property
    def logs(self) -> frozenset[str]:
        """The Kafka topics that their bookmarks name."""
        return frozenset(live.log for live in self._live)

    @property
    def sent(self) -> PositionsByLog:
        """By log, the positions up to which the client was sent everything."""
        return {live.log: live.sent for live in self._live}

    @property
    def applied(self) -> PositionsByLog:
        """By log, the positions of the replicas."""
        return {live.log: live.topic.positions for live in self._live}

    @property
    def positions(self) -> PositionsByLog:
        """By log, the positions of the subscription."""
        return {live.log: dict(live.positions) for live in self._live}

    @property
    def is_live(self) -> bool:
        """Whether it is live in all topics."""
        return all(live.live.is_set() for live in self._live)

    @property
    def behind_positions(self) -> int:
        """The number of log offsets that the client is behind the replicas."""
        return sum(positions_between(live.sent, live.topic.positions) for live in self._live)

    @property
    def behind_seconds(self) -> float:
        """Seconds since it was last live in all topics; 0 if it is now."""
        level_at = [live.level_at for live in self._live if not live.live.is_set()]
        return time.monotonic() - min(level_at) if level_at else 0.0

    def look(self, *, is_paced: bool) -> bool:
        """Return whether a message was sent since the last check, or a topic is still catching up."""
        was_sent = False
        for live in self._live:
            was_sent |= live.was_sent or not (live.live.is_set() or is_paced)
            live.was_sent = False
        return was_sent

    def move_to(self, positions: PositionsByLog) -> None:
        """Continue from these positions."""
        for live in self._live:
            live.stand_at(positions[live.log])

    def leave(self, dispatcher: Dispatcher) -> None:
        """End live delivery in all topics."""
        for live in self._live:
            dispatcher.remove(live)

    def flush(self) -> None:
        """Send the messages that conflation holds back."""
        for live in self._live:
            if live.conflated is not None:
                live.conflated.flush()

    def fall_behind(self) -> None:
        """Catch up in all topics, from the positions up to which the client was sent everything."""
        for live in self._live:
            live.fall_behind()

    async def wait_live(self) -> None:
        """Wait until it has been live in each topic; it may no longer be in an earlier one."""
        for live in self._live:
            await live.live.wait()
