"""The dispatcher: sends each change, when it is applied, to the live subscriptions and windows that it concerns."""

from collections.abc import Callable, Iterable

from sowline.changes.change import Change
from sowline.model.position import Position
from sowline.native import share
from sowline.runtime.tracing import begin
from sowline.serving.cooperative import Turns
from sowline.subscriptions.engine.plan import DeliveryPlan
from sowline.subscriptions.engine.subscription import ChangeView, Delivery
from sowline_query_service.live.away import AwayViewers
from sowline_query_service.live.catching_up import CatchingUp
from sowline_query_service.live.subscription import LiveSubscription, put_change
from sowline_query_service.live.window import LiveWindow
from sowline_query_service.topics.topic_state import TopicState

WindowName = tuple[str, ...]
"""Identifies a window: filter, grouping and projection, order, and whether it is a page, or for a gateway."""


Deliveries = Callable[[ChangeView], list[tuple[LiveSubscription, Delivery]]]
"""Returns the deliveries of a change to some subscriptions."""


class _Batch:
    """A batch of changes of a partition, and the subscriptions that were sent a message of it."""

    def __init__(self, topic: TopicState, partition: int, before: Position, changes: list[Change]) -> None:
        self.topic = topic
        self.partition = partition
        self.changes = changes
        self.reached: dict[LiveSubscription, None] = {}
        self._before = before
        self._seen: dict[int, ChangeView] = {}

    def seen(self, at: int) -> ChangeView:
        """Return the change with this index, as all that look at it share it."""
        seen = self._seen.get(at)
        if seen is None:
            assert at >= 0, "a change has its number in the batch"
            definition = self.topic.definition
            name = f"{definition.log}:{self.partition}"
            seen = self._seen[at] = ChangeView(self.changes[at], self.topic.metadata, name, self._before)
        return seen


class Dispatcher:
    """The live subscriptions and windows of each topic. They get each batch at the instant it is applied."""

    def __init__(self) -> None:
        self._live: dict[str, DeliveryPlan[LiveSubscription]] = {}
        self._windows: dict[str, dict[WindowName, LiveWindow]] = {}
        self._catching_up: dict[str, CatchingUp] = {}
        self._away: dict[str, AwayViewers] = {}
        self.messages_sent = 0
        self.fell_behind = 0
        """Times that a subscription left live delivery because its client was too slow."""
        self.turns = Turns()
        """For subscriptions that catch up, and for sessions with many commands."""

    def add(self, live_subscription: LiveSubscription) -> None:
        """Make a subscription live; it must be at the current position of its topic."""
        self._plan(live_subscription.topic).add(live_subscription)
        live_subscription.go_live()

    def _plan(self, topic: TopicState) -> DeliveryPlan[LiveSubscription]:
        name = topic.definition.name
        plan = self._live.get(name)
        if plan is None:
            plan = self._live[name] = DeliveryPlan(topic.definition, topic.native)
        return plan

    async def bring(self, live_subscription: LiveSubscription) -> bool:
        """Make a subscription live, with others, once it was sent the changes that the replica has in memory.

        Return False if it has to continue by itself: its client is too slow, or the replica has not all of them.
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
        plan = self._live.get(name)
        if plan is not None:
            plan.remove(live_subscription)
        live_subscription.stay_behind()

    def forget(self, topic: str) -> None:
        """Forget a topic that was removed, and which no subscription reads any more."""
        for of_topic in (self._live, self._windows, self._catching_up, self._away):
            of_topic.pop(topic, None)

    def count(self, messages: int) -> None:
        """Count messages that were sent later than the instant of their change."""
        assert messages >= 0, "what was sent stays sent"
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
        assert self.window(topic, name) is None, "a name has one window that has not failed"
        self._windows.setdefault(topic, {})[name] = window

    def remove_window(self, topic: str, name: WindowName, window: LiveWindow) -> None:
        """Apply nothing more to a window."""
        windows = self._windows.get(topic, {})
        # A window that had failed may have been replaced by a new one of this name.
        if windows.get(name) is window:
            assert not window.users, "what is used stays"
            del windows[name]

    def away_in(self, topic: str) -> AwayViewers:
        """Return the viewers of a topic that note what leaves; they enter and leave by themselves."""
        return self._away.setdefault(topic, AwayViewers())

    def on_changes(self, topic: TopicState, partition: int, before: Position, changes: list[Change]) -> None:
        """Send the messages of a batch of changes; subscriptions whose clients are too slow fall behind.

        `before` is the position of the partition before the batch.
        """
        assert changes, "a batch has changes"
        assert before < changes[0].position, "a batch moves its partition on"
        name = topic.definition.name
        # Nothing is awaited from here to the end. A subscription that became live between two changes of the batch
        # would be at the topic's position, which is already that of the batch's end, and would miss the second
        # change.
        plan, windows = self._plan(topic), list(self._windows.get(name, {}).values())
        batch = _Batch(topic, partition, before, changes)
        if plan.has_native and all(change.traceparent is None for change in changes):
            share(
                len(changes),
                lambda start: self._put_natively(batch, plan, start),
                lambda start, stop: self._put(batch, plan.left_by_native, start, stop),
            )
            if plan.has_others or windows:
                self._one_by_one(batch, plan.to_others, windows)
        elif len(plan) or windows:
            self._one_by_one(batch, plan.on_change, windows)
        # Subscriptions fall behind only after the whole batch. `topic.positions` is already the end of the batch:
        # after change 5 of [5, 6], a subscription would be recorded at 6, and would never get change 6. Until then
        # its messages may exceed the outbox by one batch.
        self._relieve(batch.reached)
        if away := self._away.get(name):
            for at in range(len(changes)):
                away.take(batch.seen(at))
        for window in windows:
            self.messages_sent += window.settle()

    def _put_natively(self, batch: _Batch, plan: DeliveryPlan[LiveSubscription], start: int) -> int:
        """Send what the native core makes of changes from `start` on; return the first that is left to Python."""
        end, parts, reached = plan.deliver(batch.partition, batch.changes, start, batch.seen)
        for outbox, messages, names in parts:
            outbox.put_all_behind(messages, names)
            self.messages_sent += len(messages)
        for live_subscription in reached:
            live_subscription.was_sent = True
            batch.reached[live_subscription] = None
        return end

    def _one_by_one(self, batch: _Batch, deliveries: Deliveries, windows: list[LiveWindow]) -> None:
        """Send the messages of all changes to some subscriptions, and to windows."""
        for at, change in enumerate(batch.changes):
            span = None
            if change.traceparent is not None:
                about = batch.partition, str(change.position)
                span = begin("deliver", batch.topic.definition.name, change.traceparent, about)
            found = self._put(batch, deliveries, at, at + 1)
            for window in windows:
                self.messages_sent += window.apply(batch.partition, batch.seen(at))
            if span is not None:
                span.end({"subscriptions": found + sum(map(len, windows))})

    def _put(self, batch: _Batch, deliveries: Deliveries, start: int, stop: int) -> int:
        """Send the messages of changes to some subscriptions; return to how many, each counted at each change."""
        count = 0
        for at in range(start, stop):
            seen = batch.seen(at)
            found = deliveries(seen)
            self.messages_sent += put_change(batch.topic, batch.partition, seen, found)
            batch.reached.update((live_subscription, None) for live_subscription, _ in found)
            count += len(found)
        return count

    def _relieve(self, reached: Iterable[LiveSubscription]) -> None:
        """Let subscriptions of slow clients fall behind; others send what they held back, if it is too large."""
        for live_subscription in reached:
            # `remove` first: it stores the topic's position. `fall_behind` then moves a conflated subscription back
            # to where its client was sent everything (test_what_waits_for_a_client_that_does_not_read_is_bounded).
            if live_subscription.is_too_slow:
                self.remove(live_subscription)
                assert not live_subscription.live.is_set(), "what falls behind does not follow"
                live_subscription.fall_behind()
                self.fell_behind += 1
            elif live_subscription.conflated is not None:
                self.messages_sent += live_subscription.conflated.relieve()
