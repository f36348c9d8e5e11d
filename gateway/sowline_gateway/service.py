"""The process of the gateway: follows the query services' announcements, and serves clients."""

import asyncio
import contextlib
import threading
from collections.abc import Iterable
from functools import partial
from typing import Any

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from sowline.agents.http_api import McpApi
from sowline.config.credentials import Credentials
from sowline.config.definition_changes import Followed
from sowline.config.settings import Settings, node_urls
from sowline.config.topics import Topics
from sowline.kafka.definitions_follower import DefinitionsFollower
from sowline.serving.app import Server
from sowline.serving.client_port import ClientPort, query_limits, slot_limits, view_limits
from sowline_gateway.context import GatewayContext
from sowline_gateway.nodes.announcements import Announcements
from sowline_gateway.nodes.connections import ConnectionPool
from sowline_gateway.nodes.http import NodeHttp
from sowline_gateway.nodes.node_set import NodeSet
from sowline_gateway.server.commands import GatewayCommands
from sowline_gateway.server.http_api import GatewayHttpApi

USUAL_PORT = 8070


class GatewayService:
    """Answers clients from the query services of the setting `nodes` until it is stopped."""

    def __init__(self, settings: Settings, topics: Topics) -> None:
        credentials = node_credentials(settings)
        urls = node_urls(settings.nodes)
        self._http = NodeHttp(credentials)
        self._announcements = Announcements(urls, self._http)
        definitions = {topic.name: topic for topic in topics.topics}
        self._nodes = NodeSet(definitions, self._announcements, ConnectionPool(credentials))
        context = GatewayContext.of(
            self._nodes,
            self._http,
            query_limits(settings),
            settings.kafka_client,
            slot_limits(settings),
            view_limits(settings),
        )
        self._context = context
        self._writer, self._streams = context.writes.writer, context.streams
        self._slots, self._views = context.slots, context.views
        self._client_port = ClientPort(settings, USUAL_PORT)
        self._server = Server(
            settings,
            partial(GatewayCommands, context),
            lambda rates, backlogs: [
                *GatewayHttpApi(settings, context, rates, backlogs).routes,
                *McpApi(settings).routes,
            ],
            self,
            connections=self._client_port.connections,
            note=self._note,
            details=self._details,
        )
        self._definitions: DefinitionsFollower | None = None

    def follow_definitions(self, settings: Settings, topics: Topics, stop: threading.Event) -> None:
        """Follow `topics.yaml` while the service runs."""
        # The gateway may have no rights in Kafka but to write: the query services create the topics.
        self._definitions = DefinitionsFollower(settings, topics, stop, self._redefine, creates=False)

    def _redefine(self, followed: Followed) -> None:
        """Take changed definitions, in the event loop."""
        end_subscriptions = self._server.sessions.clients.end_subscriptions_to
        self._loop.call_soon_threadsafe(self._context.redefine, followed, end_subscriptions)

    async def run(self, stop: threading.Event) -> None:
        """Serve until `stop` is set; then close every session. Raises `no port`."""
        self._loop = asyncio.get_running_loop()
        following = asyncio.create_task(self._announcements.follow())
        if self._definitions is not None:
            self._definitions.start()
        try:
            # `follow` never returns. If it is done, it has failed, and the gateway would route by old announcements.
            await self._client_port.serve(self._server, lambda: stop.is_set() or following.done())
            if following.done():
                following.result()
        finally:
            stop.set()
            if self._definitions is not None:
                await asyncio.to_thread(self._definitions.join)
            following.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await following
            await self._writer.close()
            await self._streams.close()
            await self._nodes.close()
            await self._http.close()

    def not_started(self) -> str | None:
        """Return which partitions no query service has announced yet; None if all are announced."""
        return self._nodes.missing()

    def not_ready(self) -> str | None:
        """Return None: a gateway that lacks a shard answers requests that need the others."""
        return None

    def not_alive(self) -> str | None:
        """Return None: a restart does not help a gateway."""
        return None

    def _note(self) -> str | None:
        """Return which definitions of the file are not in effect; None if all are."""
        return None if self._definitions is None else self._definitions.note()

    def _details(self) -> dict[str, Any]:
        """Return the state of the query services, and the definitions in effect, for `/status`."""
        known = {node.url: node for node in self._announcements.nodes}
        return {
            "nodes": [
                {"url": url, "answers": url in known, "shard": known[url].shard if url in known else None}
                for url in self._announcements.urls
            ],
            "unavailable": [name for name in self._nodes.topics if not self._nodes.described(name)],
            **({} if self._definitions is None else self._definitions.details()),
        }

    def metrics(self) -> Iterable[Metric]:
        """Yield the metrics; docs/metrics.md describes each."""
        answers = GaugeMetricFamily(
            "sowline_gateway_nodes", "Query services of a gateway, by whether they answer", labels=["answers"]
        )
        known = len(self._announcements.nodes)
        answers.add_metric(["yes"], known)
        answers.add_metric(["no"], len(self._announcements.urls) - known)
        yield answers
        yield CounterMetricFamily(
            "sowline_gateway_nodes_lost",
            "Times that a query service failed while a gateway asked it",
            value=self._announcements.lost,
        )
        yield GaugeMetricFamily(
            "sowline_gateway_streams", "Streams that the gateway follows", value=len(self._streams)
        )
        yield CounterMetricFamily(
            "sowline_subscriptions_fell_behind",
            "Times that a subscription left live delivery because its client was too slow",
            value=self._streams.fell_behind,
        )
        if self._definitions is not None:
            yield from self._definitions.metrics()
        yield from self._client_port.metrics(self._server, self._slots, self._views)


def node_credentials(settings: Settings) -> Credentials:
    """Return the credentials for query services; a token is read from its file for each connection."""
    file = settings.nodes_token_file
    token = None if file is None else lambda: file.read_text().strip()
    return Credentials(token, settings.nodes_ca_file, settings.nodes_cert_file, settings.nodes_key_file)


def serve(settings: Settings, topics: Topics, stop: threading.Event) -> None:
    """Run the gateway until `stop` is set."""
    service = GatewayService(settings, topics)
    service.follow_definitions(settings, topics, stop)
    asyncio.run(service.run(stop))
