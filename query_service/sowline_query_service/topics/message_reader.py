"""Reads the events in messages of changes topics: one by one, or with the native core in runs while a load lasts."""

from collections.abc import Collection, Sequence
from types import ModuleType

from confluent_kafka import Message

from sowline.config.topic_definition import TopicDefinition
from sowline.kafka.changes_driver import ChangesPartition
from sowline.kafka.messages import columns_of, event_of
from sowline.native import raise_unless_panic, share
from sowline_query_service.replica.plain_run import EventAtOffset, MessageColumns, PlainRun, Portion

Portions = dict[ChangesPartition, list[Portion]]
"""The events of each partition, in the order of its offsets."""


def is_plain(definition: TopicDefinition) -> bool:
    """Return whether the native core loads the changes of a topic."""
    return (
        definition.has_sow
        and definition.declared.history is None
        and not definition.documents
        and not definition.declared.delta
    )


class MessageReader:
    """Reads events. `native` is the module of the native core, if it is used; Python reads the same without it."""

    def __init__(self, native: ModuleType | None) -> None:
        self._native = native

    @property
    def is_native(self) -> bool:
        """Whether the native core reads plain changes: not without it, or after it has failed."""
        return self._native is not None

    def read(self, messages: Sequence[Message], plain: Collection[ChangesPartition]) -> Portions:
        """Return the events in messages by partition; runs of plain changes only of the `plain` partitions.

        Raise ValueError or KeyError if a message is no event, and `unknown format`.
        """
        if self._native is None or not plain:
            return _events(messages)
        fields = ("topic", "partition", "offset", "key", "value", "headers")
        return self._portions(MessageColumns(*columns_of(messages, *fields)), plain)

    def _portions(self, messages: MessageColumns, plain: Collection[ChangesPartition]) -> Portions:
        portions: Portions = {}
        end = len(messages.topics)

        def read_runs(at: int) -> int:
            while at < end and messages.partition(at) in plain:
                run = self._run(messages, at)
                if run is None:
                    break
                portions.setdefault(messages.partition(at), []).append(run)
                at += len(run)
            return at

        def read_events(start: int, stop: int) -> None:
            for at in range(start, stop):
                portions.setdefault(messages.partition(at), []).append(messages.event(at))

        share(end, read_runs, read_events)
        return portions

    def _run(self, messages: MessageColumns, start: int) -> PlainRun | None:
        """Return the plain changes from a message on; None if the first is not one."""
        if self._native is None:
            return None
        try:
            changes = self._native.PlainChanges(messages, start)
        except BaseException as error:
            # Python, which is the specification, reads this message and all that follow.
            topic, number = messages.partition(start)
            raise_unless_panic(error, f"{topic} [{number}]")
            self._native = None
            return None
        assert start + len(changes) <= len(messages.topics), "a run ends with the messages"
        return PlainRun(messages, start, changes) if len(changes) else None


def _events(messages: Sequence[Message]) -> Portions:
    """Return the events in messages by partition, all read by Python."""
    portions: Portions = {}
    for message in messages:
        partition = (message.topic() or "", message.partition() or 0)
        event = event_of(message)
        portions.setdefault(partition, []).append(EventAtOffset(message.offset() or 0, event))
    return portions
