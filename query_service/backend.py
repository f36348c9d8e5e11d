"""What all sessions of a query service share."""

from dataclasses import dataclass, field

from query_service.hub import Hub
from query_service.query import Limits
from query_service.state import State
from sowline.kafka import KafkaConfig


@dataclass(frozen=True, slots=True)
class Backend:
    """The state, who listens to it, the Kafka to read back from, and what one query may cost."""

    state: State
    hub: Hub
    kafka: KafkaConfig
    limits: Limits = field(default_factory=Limits)
