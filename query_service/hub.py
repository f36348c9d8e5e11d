"""Live subscriptions: each change, as it is applied, goes to all that it means something to."""

from fanout.matching import LiveSubscriptions
from fanout.subscription import Delivery, Sighting
from query_service.active import Active, deliver
from query_service.pace import Turns
from query_service.state import TopicState
from query_service.views import View
from sowline.change import Change
from sowline.position import Position
from sowline.tracing import begin

ViewName = tuple[str, ...]
"""What makes two views the same: filter, grouping and projection, order, and whether they are pages."""


class Hub:
    """Who is live, by topic; told of every batch of changes at the instant it is applied."""

    def __init__(self) -> None:
        self._live: dict[str, LiveSubscriptions[Active]] = {}
        self._views: dict[str, dict[ViewName, View]] = {}
        self.messages_sent = 0
        self.fell_behind = 0
        """How often a subscription was no longer live, because its client was too slow."""
        self.turns = Turns()
        """Of those who catch up, and of sessions that have many commands."""

    def add(self, active: Active) -> None:
        """Make a subscription live: it stands exactly where its topic stands now."""
        live = self._live.setdefault(active.topic.definition.name, LiveSubscriptions())
        live.add(active, active.engine)
        active.go_live()

    def remove(self, active: Active) -> None:
        """Take a subscription out, if it is in: it stands where its topic stands now."""
        live = self._live.get(active.topic.definition.name)
        if live is not None:
            live.remove(active)
        active.stay_behind()

    def count(self, messages: int) -> None:
        """Count messages that were not sent at the instant of their change."""
        self.messages_sent += messages

    @property
    def live(self) -> int:
        """The number of live subscriptions."""
        return sum(map(self.live_in, {**self._live, **self._views}))

    def live_in(self, topic: str) -> int:
        """Return the number of a topic's live subscriptions."""
        return len(self._live.get(topic, ())) + sum(map(len, self._views.get(topic, {}).values()))

    def view(self, topic: str, name: ViewName) -> View | None:
        """The view of that topic that goes by the name, if somebody looks at it."""
        return self._views.get(topic, {}).get(name)

    def add_view(self, topic: str, name: ViewName, view: View) -> None:
        """Tell a view of every change of a topic from now on."""
        self._views.setdefault(topic, {})[name] = view

    def remove_view(self, topic: str, name: ViewName) -> None:
        """Tell a view of nothing more."""
        self._views.get(topic, {}).pop(name, None)

    def on_changes(self, topic: TopicState, partition: int, before: Position, changes: list[Change]) -> None:
        """Send what a batch of changes means to each live subscription; those too slow for it fall behind.

        `before` is where the partition stood before the batch.
        """
        name = topic.definition.name
        live, views = self._live.get(name), list(self._views.get(name, {}).values())
        reached: dict[Active, None] = {}
        place = f"{topic.definition.log}:{partition}"
        for change in changes if live or views else ():
            seen = Sighting(change, topic.about, place, before)
            span = None
            if change.traceparent is not None:
                span = begin("deliver", name, change.traceparent, (partition, str(change.position)))
            found: list[tuple[Active, Delivery]] = []
            if live:
                found = live.on_change(seen)
                self.messages_sent += deliver(topic, partition, seen, found)
                for active, _ in found:
                    reached[active] = None
            for view in views:
                self.messages_sent += view.apply(partition, seen)
            if span is not None:
                span.end({"subscriptions": len(found) + sum(map(len, views))})
        for active in reached:
            if active.is_too_slow:
                self.remove(active)
                active.fall_behind()
                self.fell_behind += 1
            elif active.conflated is not None:
                self.messages_sent += active.conflated.relieve()
        for view in views:
            self.messages_sent += view.settle()
