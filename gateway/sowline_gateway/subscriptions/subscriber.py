"""A client of a gateway that subscribes to records: its request, its rights, and the positions it was shown."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sowline.config.topic_definition import TopicDefinition
from sowline.model.bookmark import PositionsByLog
from sowline.serving.authorization.entitlements import Rights
from sowline.serving.outbox.outbox import Outbox
from sowline.wire.node_queries import NodeQuery
from sowline.wire.request import Subscribe
from sowline_gateway.context import GatewayContext
from sowline_gateway.query.seen import NONE, SeenPositions
from sowline_gateway.query.sharded_query import ShardedQuery


@dataclass(frozen=True, slots=True)
class RecordSubscriber:
    """The fixed part of a subscription to records, whatever feeds it."""

    context: GatewayContext
    outbox: Outbox
    request: Subscribe
    topics: Sequence[str]
    rights: Rights
    seen: SeenPositions
    """The positions that its connection was shown."""

    @property
    def sub_id(self) -> str:
        """The name of the subscription."""
        return self.request.id_of_subscription

    @property
    def definitions(self) -> dict[str, TopicDefinition]:
        """The definitions of its topics, by name."""
        return {name: self.context.nodes.topics[name] for name in self.topics}

    def floor(self, seen: SeenPositions, at_least: PositionsByLog = NONE) -> PositionsByLog:
        """Return the positions that an answer must have reached, given those that were seen."""
        return seen.floor([topic.log for topic in self.definitions.values()], at_least)

    def query(
        self,
        request: Subscribe,
        floor: PositionsByLog,
        instead: Callable[[NodeQuery], NodeQuery] | None = None,
        *,
        has_group: bool = True,
        compared: Sequence[str] = (),
    ) -> ShardedQuery:
        """Return a query over its topics; the other arguments are those of `ShardedQuery`."""
        context = self.context
        return ShardedQuery(
            context.nodes,
            request,
            self.topics,
            self.rights,
            context.limits,
            floor,
            instead,
            has_group=has_group,
            compared=compared,
        )


def is_paced(request: Subscribe) -> bool:
    """Whether a subscription to records has an end or a rate: its changes are sent one by one."""
    return request.options.rate is not None or request.bookmark_range.end is not None
