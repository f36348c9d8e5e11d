"""What all sessions of a query service share."""

from dataclasses import dataclass, field

from query_service.hub import Hub
from query_service.publishing import Publishing
from query_service.query import Limits
from query_service.state import State
from query_service.timeline_answer import TimelineReader
from sowline.kafka import KafkaConfig


@dataclass(slots=True)
class Backend:
    """The state, who listens to it, the Kafka to read back from and to write to, and what one query may cost."""

    state: State
    hub: Hub
    kafka: KafkaConfig
    limits: Limits = field(default_factory=Limits)
    publishing: Publishing = field(init=False)
    timelines: TimelineReader = field(init=False)

    def __post_init__(self) -> None:
        self.publishing = Publishing(self.kafka, [topic.definition for topic in self.state.topics.values()])
        self.timelines = TimelineReader(self.kafka, self.limits.bytes_max)
