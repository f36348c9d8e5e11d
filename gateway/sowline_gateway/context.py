"""The state that all sessions of a gateway share."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, Self

from sowline.config.definition_changes import ChangeEffect, Followed
from sowline.config.kafka_options import KafkaConfig
from sowline.serving.query_slots import QuerySlots, SlotLimits
from sowline.serving.refusal import left_topic
from sowline.serving.result import QueryLimits
from sowline.serving.sessions.clients import EndSubscriptions
from sowline.serving.typed_records.messages import TypedMessages
from sowline.serving.window_memory import WindowLimits, WindowMemory
from sowline.serving.writes.command_writer import CommandWriter
from sowline.serving.writes.pending_commands import WriteService
from sowline_gateway.nodes.http import NodeHttp
from sowline_gateway.nodes.node_set import NodeSet
from sowline_gateway.streams.catch_up_slot import GATEWAY_MAX
from sowline_gateway.streams.shared_streams import SharedStreams
from sowline_gateway.writes.destination import NodesDestination


class ClientSubscription(Protocol):
    """A subscription of a client of the gateway."""

    @property
    def live_topics(self) -> Sequence[str]:
        """The topics in which it is live now."""


@dataclass(frozen=True, slots=True)
class GatewayContext:
    """The nodes, the HTTP client of the nodes, the limits of a query, the writer of commands, and subscriptions."""

    nodes: NodeSet
    http: NodeHttp
    limits: QueryLimits
    destination: NodesDestination
    writes: WriteService
    streams: SharedStreams
    typed_messages: TypedMessages
    slots: QuerySlots
    views: WindowMemory
    catch_up_slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(GATEWAY_MAX))
    subscriptions: set[ClientSubscription] = field(default_factory=set)
    """The subscriptions of all clients."""

    @classmethod
    def of(
        cls,
        nodes: NodeSet,
        http: NodeHttp,
        limits: QueryLimits,
        kafka: KafkaConfig,
        slots: SlotLimits = SlotLimits(),
        views: WindowLimits = WindowLimits(),
    ) -> Self:
        """Return the context of a gateway that writes to this Kafka."""
        destination = NodesDestination(nodes, http, limits)
        writes = WriteService(destination, CommandWriter(kafka, nodes.topics))
        streams, typed = SharedStreams(nodes), TypedMessages(nodes.topics)
        return cls(
            nodes, http, limits, destination, writes, streams, typed, QuerySlots(slots), WindowMemory(views)
        )

    def live_subscriptions(self) -> Counter[str]:
        """Return by topic how many subscriptions of clients are live."""
        return Counter(name for one in self.subscriptions for name in one.live_topics)

    def redefine(self, followed: Followed, end_subscriptions: EndSubscriptions) -> None:
        """Take changed definitions; end the subscriptions to topics that have left the file. For the event loop."""
        self.nodes.redefine(followed.topics.topics)
        for name in followed.topics_that_are(ChangeEffect.LIVE):
            self.typed_messages.forget(name)
        for name in followed.topics_that_are(ChangeEffect.REMOVED):
            self.typed_messages.forget(name)
            self.destination.forget(name)
            end_subscriptions([name], left_topic(name))
