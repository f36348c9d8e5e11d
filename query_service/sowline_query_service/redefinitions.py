"""Definitions that change while the query service runs: topics are added, redefined or removed, one by one."""

from functools import partial

from sowline.config.definition_changes import ChangeEffect, Followed
from sowline.config.topic_definition import TopicDefinition
from sowline.serving.refusal import left_topic
from sowline.serving.sessions.clients import EndSubscriptions
from sowline.serving.typed_records.messages import TypedMessages
from sowline_query_service.live.dispatcher import Dispatcher
from sowline_query_service.topics.follower import TopicFollower
from sowline_query_service.topics.log_ends import LogEnds
from sowline_query_service.topics.state import ServedTopics


class TopicRedefinitions:
    """Takes changed definitions, in the thread of the follower of the file."""

    def __init__(
        self,
        state: ServedTopics,
        dispatcher: Dispatcher,
        follower: TopicFollower,
        log_ends: LogEnds,
        end_subscriptions: EndSubscriptions,
        typed_messages: TypedMessages,
    ) -> None:
        self._state = state
        self._dispatcher = dispatcher
        self._follower = follower
        self._log_ends = log_ends
        self._end_subscriptions = end_subscriptions
        self._typed_messages = typed_messages

    def take(self, followed: Followed) -> None:
        """Take the changes that can take effect. Topics that stay the same are not touched."""
        partitions = self._follower.partitions
        for name in followed.topics_that_are(ChangeEffect.REMOVED):
            definition = self._state.definitions[name]
            partitions.remove(definition, partial(self._removed, definition))
        for name in followed.topics_that_are(ChangeEffect.LIVE):
            definition = followed.topics.named(name)
            partitions.redefine(definition, partial(self._redefined, definition))
        # A topic may have left a moment ago and come back: forgetting it must not take the new one with it.
        partitions.wait_for_turn()
        for name in followed.topics_that_are(ChangeEffect.NEW):
            self._add(followed.topics.named(name))

    def _add(self, definition: TopicDefinition) -> None:
        self._follower.in_loop(self._state.add, definition)
        self._follower.partitions.add(definition)
        self._log_ends.add(definition)

    def _redefined(self, definition: TopicDefinition) -> None:
        self._state.redefine(definition)
        self._typed_messages.forget(definition.name)

    def _removed(self, definition: TopicDefinition) -> None:
        """End what reads a topic, and forget it."""
        name = definition.name
        self._log_ends.remove(definition.log)
        self._state.remove(definition)
        self._end_subscriptions([name], left_topic(name))
        self._dispatcher.forget(name)
        self._typed_messages.forget(name)

    def differences(self) -> list[str]:
        """Return how the definitions in effect differ from those that owners work by."""
        found = (topic.log_difference() for topic in list(self._state.topics.values()))
        return [sentence for sentence in found if sentence is not None]
