"""The shared objects of all sessions of a query service."""

import asyncio
from dataclasses import dataclass, field

from sowline.config.kafka_options import KafkaConfig
from sowline.serving.query_slots import QuerySlots
from sowline.serving.result import QueryLimits
from sowline.serving.typed_records.messages import TypedMessages
from sowline.serving.window_memory import WindowMemory
from sowline.serving.writes.command_writer import CommandWriter
from sowline.serving.writes.pending_commands import WriteService
from sowline_query_service.live.dispatcher import Dispatcher
from sowline_query_service.query.timeline_read import TimelineReader
from sowline_query_service.topics.state import ServedTopics
from sowline_query_service.writes.destination import ReplicaDestination

SCANS_AT_ONCE = 4
"""Concurrent scans of whole partitions of changes topics: each uses a Kafka client, and so file descriptors."""


@dataclass(slots=True)
class ServiceContext:
    """The state, the dispatcher, the Kafka configuration, and the limits of a query."""

    state: ServedTopics
    dispatcher: Dispatcher
    kafka: KafkaConfig
    limits: QueryLimits = field(default_factory=QueryLimits)
    slots: QuerySlots = field(default_factory=QuerySlots)
    views: WindowMemory = field(default_factory=WindowMemory)
    destination: ReplicaDestination = field(init=False)
    writes: WriteService = field(init=False)
    timelines: TimelineReader = field(init=False)
    typed_messages: TypedMessages = field(init=False)
    scans: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(SCANS_AT_ONCE), init=False)

    def __post_init__(self) -> None:
        self.destination = ReplicaDestination(self.state)
        self.writes = WriteService(self.destination, CommandWriter(self.kafka, self.destination.topics))
        self.typed_messages = TypedMessages(self.state.definitions)
        self.timelines = TimelineReader(self.kafka, self.limits.bytes_max)
