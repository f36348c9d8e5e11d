"""The HTTP API of topics in Kafka, for administrators: Kafka topics, their newest messages, dead letters, schemas."""

from collections.abc import Iterator, Mapping
from functools import partial

from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sowline.config.kafka_options import KafkaConfig
from sowline.config.topic_definition import TopicDefinition
from sowline.errors import SowlineError
from sowline.serving.authorization.entitlements import chosen_topic
from sowline.serving.error_response import refused
from sowline.serving.http.kafka_topics import counted_dead_letters, described_kafka_topics
from sowline.serving.http.requests import parameters_in, require_admin, rights_in
from sowline.serving.http.schemas import described_schemas
from sowline.serving.http.tails import TAIL_PARAMETERS, TailKind, TailReader, tail_request_of


class KafkaApi:
    """Answers from Kafka itself."""

    def __init__(self, kafka: KafkaConfig, topics: Mapping[str, TopicDefinition]) -> None:
        self._kafka = kafka
        self._topics = topics
        self._tails = TailReader(kafka)

    @property
    def routes(self) -> list[Route]:
        """The routes of this API."""
        of_topic = "/v1/topics/{topic:path}"
        return [
            Route("/v1/dead_letters", self.dead_letters),
            Route(f"{of_topic}/kafka", self.kafka),
            Route(f"{of_topic}/schemas", self.schemas),
            *(Route(f"{of_topic}/{kind.value}", partial(self.tail, kind)) for kind in TailKind),
        ]

    def _topic(self, request: HttpRequest) -> TopicDefinition:
        require_admin(request)
        return self._topics[chosen_topic(request.path_params["topic"], self._topics, rights_in(request).read)]

    async def dead_letters(self, request: HttpRequest) -> Response:
        """Count the dead letters of each topic that the user may read."""
        try:
            require_admin(request)
            readable = rights_in(request).read
            topics = [topic for name, topic in self._topics.items() if name in readable]
            found = await counted_dead_letters(self._kafka, topics)
        except SowlineError as error:
            return refused(error)
        return JSONResponse({"dead_letters": found})

    async def kafka(self, request: HttpRequest) -> Response:
        """Describe the Kafka topics of a topic."""
        try:
            topic = self._topic(request)
            found = await described_kafka_topics(self._kafka, topic)
        except SowlineError as error:
            return refused(error)
        return JSONResponse({"topic": topic.name, "kafka_topics": found})

    async def schemas(self, request: HttpRequest) -> Response:
        """Describe the schemas of a topic: its reader schemas, and those that messages have named."""
        try:
            topic = self._topic(request)
            found = await described_schemas(self._kafka, topic)
        except SowlineError as error:
            return refused(error)
        return JSONResponse(found)

    async def tail(self, kind: TailKind, request: HttpRequest) -> Response:
        """Answer with the newest messages of one of a topic's Kafka topics."""
        try:
            topic = self._topic(request)
            for name, why in _shown(topic):
                rights_in(request).read.require_whole(name, why)
            given = parameters_in(request, TAIL_PARAMETERS)
            tail = await self._tails.read(tail_request_of(topic, kind, given))
        except SowlineError as error:
            return refused(error)
        return Response(tail, media_type="application/json")


def _shown(topic: TopicDefinition) -> Iterator[tuple[str, str]]:
    """Yield the topics whose data the messages of a topic show, each with the reason."""
    # A log holds records as they were written, also those and the fields that a role must not see
    # (test_an_administrator_with_a_filter_sees_no_messages).
    yield topic.name, f"{topic.log}, its changes and its dead letters hold whole records"
    if topic.view is not None:
        # The log and the dead letters of a view hold what it reads: also records that its filter leaves out, and
        # fields that its projection does. Its changes hold the states of groups, also of those that `having` hides: a
        # GROUP_CONCAT keeps every value (test_the_messages_of_a_view_demand_the_right_to_what_it_reads).
        for name in topic.view.read_topics:
            yield name, f"{topic.log}, its changes and its dead letters hold data of {name}"
