"""The dispatcher: sends each change, when it is applied, to the live subscriptions and windows that it concerns."""

from collections.abc import Iterable

from sowline.changes.change import Change
from sowline.model.position import Position
from sowline.runtime.tracing import begin
from sowline.serving.cooperative import Turns
from sowline.subscriptions.engine.matching import LiveSubscriptions
from sowline.subscriptions.engine.subscription import ChangeView, Delivery
from sowline_query_service.live.catching_up import CatchingUp
from sowline_query_service.live.subscription import LiveSubscription, put_change
from sowline_query_service.live.window import LiveWindow
from sowline_query_service.topics.topic_state import TopicState

WindowName = tuple[str, ...]
"""Identifies a window: filter, grouping and projection, order, and whether it is a page, or for a gateway."""


class Dispatcher:
    """The live subscriptions and windows of each topic. They get each batch at the instant it is applied."""

    def __init__(self) -> None:
        self._live: dict[str, LiveSubscriptions[LiveSubscription]] = {}
        self._windows: dict[str, dict[WindowName, LiveWindow]] = {}
        self._catching_up: dict[str, CatchingUp] = {}
        self.messages_sent = 0
        self.fell_behind = 0
        """Times that a subscription left live delivery because its client was too slow."""
        self.turns = Turns()
        """For subscriptions that catch up, and for sessions with many commands."""

    def add(self, live_subscription: LiveSubscription) -> None:
        """Make a subscription live; it must be at the current position of its topic."""
        live = self._live.setdefault(live_subscription.topic.definition.name, LiveSubscriptions())
        live.add(live_subscription, live_subscription.engine)
        live_subscription.go_live()

    async def bring(self, live_subscription: LiveSubscription) -> bool:
        """Make a subscription live, with others, once it was sent the changes that the replica has in memory.

        Return False if it has to go on by itself: its client is too slow, or the replica has not all of them.
        """
        topic = live_subscription.topic
        found = self._catching_up.get(topic.definition.name)
        if found is None:
            found = CatchingUp(topic, self.turns, self.add, self.count)
            self._catching_up[topic.definition.name] = found
        return await found.bring(live_subscription)

    def remove(self, live_subscription: LiveSubscription) -> None:
        """Stop live delivery to a subscription, if it is live; its position is then the current one of its topic."""
        name = live_subscription.topic.definition.name
        if (catching_up := self._catching_up.get(name)) is not None:
            catching_up.drop(live_subscription)
        live = self._live.get(name)
        if live is not None:
            live.remove(live_subscription)
        live_subscription.stay_behind()

    def count(self, messages: int) -> None:
        """Count messages that were sent later than the instant of their change."""
        self.messages_sent += messages

    @property
    def live(self) -> int:
        """The number of live subscriptions."""
        return sum(map(self.live_in, {**self._live, **self._windows}))

    def live_in(self, topic: str) -> int:
        """Return the number of a topic's live subscriptions."""
        return len(self._live.get(topic, ())) + sum(map(len, self._windows.get(topic, {}).values()))

    def window(self, topic: str, name: WindowName) -> LiveWindow | None:
        """Return the window of a topic with this name; None if no subscription uses it, or it has failed."""
        window = self._windows.get(topic, {}).get(name)
        return None if window is None or window.failed is not None else window

    def add_window(self, topic: str, name: WindowName, window: LiveWindow) -> None:
        """Apply every change of a topic to a window from now on."""
        self._windows.setdefault(topic, {})[name] = window

    def remove_window(self, topic: str, name: WindowName, window: LiveWindow) -> None:
        """Apply nothing more to a window."""
        windows = self._windows.get(topic, {})
        # A window that had failed may have been replaced by a new one of this name.
        if windows.get(name) is window:
            del windows[name]

    def on_changes(self, topic: TopicState, partition: int, before: Position, changes: list[Change]) -> None:
        """Send the messages of a batch of changes; subscriptions whose clients are too slow fall behind.

        `before` is the position of the partition before the batch.
        """
        name = topic.definition.name
        # Nothing is awaited from here to the end. A subscription that became live between two changes of the batch
        # would be at the topic's position, which is already that of the batch's end, and would miss the second
        # change.
        live, windows = self._live.get(name), list(self._windows.get(name, {}).values())
        reached: dict[LiveSubscription, None] = {}
        partition_name = f"{topic.definition.log}:{partition}"
        for change in changes if live or windows else ():
            seen = ChangeView(change, topic.metadata, partition_name, before)
            span = None
            if change.traceparent is not None:
                span = begin("deliver", name, change.traceparent, (partition, str(change.position)))
            found: list[tuple[LiveSubscription, Delivery]] = []
            if live:
                found = live.on_change(seen)
                self.messages_sent += put_change(topic, partition, seen, found)
                for live_subscription, _ in found:
                    reached[live_subscription] = None
            for window in windows:
                self.messages_sent += window.apply(partition, seen)
            if span is not None:
                span.end({"subscriptions": len(found) + sum(map(len, windows))})
        # Subscriptions fall behind only after the whole batch. `topic.positions` is already the end of the batch:
        # after change 5 of [5, 6], a subscription would be recorded at 6, and would never get change 6. Until then
        # its messages may exceed the outbox by one batch.
        self._relieve(reached)
        for window in windows:
            self.messages_sent += window.settle()

    def _relieve(self, reached: Iterable[LiveSubscription]) -> None:
        """Let subscriptions of slow clients fall behind; others send what they held back, if it is too large."""
        for live_subscription in reached:
            # `remove` first: it stores the topic's position. `fall_behind` then moves a conflated subscription back
            # to where its client was sent everything (test_what_waits_for_a_client_that_does_not_read_is_bounded).
            if live_subscription.is_too_slow:
                self.remove(live_subscription)
                live_subscription.fall_behind()
                self.fell_behind += 1
            elif live_subscription.conflated is not None:
                self.messages_sent += live_subscription.conflated.relieve()
