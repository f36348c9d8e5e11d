"""One client's session: its commands, its queries and its subscriptions."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import structlog

from fanout.subscription import Subscription
from query_service.catch_up import BookmarkExpired, CatchUp
from query_service.hub import Active, Hub
from query_service.outbox import Outbox
from query_service.query import Query
from query_service.state import State, TopicState
from sowline.bookmark import EPOCH, NOW, Positions, named_place, parse_bookmark
from sowline.errors import SowlineError
from sowline.filter import compile_filter
from sowline.kafka import KafkaConfig
from sowline.position import before_the_log
from sowline.wire import (
    Request,
    ack,
    command_id_of,
    failure,
    message,
    read_request,
    sow_batch,
    split_frame,
)

log = structlog.get_logger()

BEHIND_SECONDS_MAX = 10.0
SUBSCRIPTIONS_MAX = 10_000


class Session:
    """Takes frames of requests, and puts what they lead to into an outbox."""

    def __init__(self, state: State, hub: Hub, kafka: KafkaConfig, outbox: Outbox, records_max: int) -> None:
        self._state = state
        self._hub = hub
        self._kafka = kafka
        self._records_max = records_max
        self.outbox = outbox
        self._subscriptions: dict[str, Active] = {}
        self._queries: dict[str, asyncio.Task[None]] = {}

    def receive(self, frame: bytes) -> None:
        """Take one frame; whatever is wrong with it is answered, and harms nothing else."""
        try:
            requests = split_frame(frame)
        except SowlineError as error:
            self.outbox.put(failure("", error))
            return
        for text in requests:
            self._receive_one(text)

    def _receive_one(self, text: bytes) -> None:
        try:
            request = read_request(text)
        except SowlineError as error:
            self.outbox.put(failure(command_id_of(text), error))
            return
        try:
            if "received" in request.acks:
                self.outbox.put(ack("received", request.command_id))
            _HANDLERS[request.command](self, request)
        except SowlineError as error:
            self.outbox.put(failure(request.command_id, error))

    # commands

    def _heartbeat(self, request: Request) -> None:
        self.outbox.put(message("heartbeat", command_id=request.command_id))

    def _sow(self, request: Request) -> None:
        topic = self._topic(request)
        if request.bookmark:
            raise SowlineError(
                "not supported", "a sow at a bookmark needs history, which this topic does not have"
            )
        query = self._query(request, topic)
        self._start_query(request, self._run_sow(request, query))

    def _subscribe(self, request: Request) -> None:
        self._begin(request, self._place(request, default=NOW), snapshot=False)

    def _sow_and_subscribe(self, request: Request) -> None:
        place = self._place(request, default=NOW)
        self._begin(request, place, snapshot=place == NOW)

    def _begin(self, request: Request, place: str | Positions, *, snapshot: bool) -> None:
        """Register a subscription from its start: a snapshot of this instant, this instant, or a bookmark."""
        topic = self._topic(request)
        active = self._activate(request, topic)
        query = self._query(request, topic) if snapshot else None
        if place == NOW:
            active.positions = topic.positions
        elif isinstance(place, dict):
            active.positions = {p: place.get(p, before_the_log()) for p in range(len(topic.partitions))}
        active.start(self._run_subscription(request, active, query))

    def _unsubscribe(self, request: Request) -> None:
        if not request.sub_id and not request.query_id:
            raise SowlineError(
                "invalid subid", "expected a sub_id (one, several with commas, or all) or a query_id"
            )
        for sub_id in self._named_subscriptions(request.sub_id):
            self._end(sub_id)
        if request.query_id in self._queries:
            self._queries.pop(request.query_id).cancel()
        self._processed(request)

    def _named_subscriptions(self, text: str) -> list[str]:
        if text == "all":
            return list(self._subscriptions)
        return [name.strip() for name in text.split(",") if name.strip()]

    # what commands have in common

    def _topic(self, request: Request) -> TopicState:
        topic = self._state.topics.get(request.topic)
        if topic is None:
            known = ", ".join(self._state.topics) or "none"
            raise SowlineError("invalid topic", f"expected a topic ({known}), got {request.topic!r}")
        if topic.loading:
            raise SowlineError("not ready", f"topic {request.topic} is still being loaded; try again shortly")
        return topic

    def _query(self, request: Request, topic: TopicState) -> Query:
        return Query(topic, compile_filter(request.filter), request.parsed_options, self._records_max)

    def _place(self, request: Request, default: str) -> str | Positions:
        """Return where a subscription begins: `now`, or positions per partition."""
        place = named_place(request.bookmark) if request.bookmark else default
        if place == EPOCH:
            return {}
        if place is not None:
            return place
        log = self._topic(request).definition.log
        positions = parse_bookmark(request.bookmark)
        if set(positions) != {log}:
            raise SowlineError(
                "invalid bookmark", f"expected a bookmark of {log}, got one of {', '.join(positions)}"
            )
        beyond = [p for p in positions[log] if p >= len(self._topic(request).partitions)]
        if beyond:
            raise SowlineError("invalid bookmark", f"topic {request.topic} has no partition {beyond[0]}")
        return positions[log]

    def _activate(self, request: Request, topic: TopicState) -> Active:
        sub_id = request.id_of_subscription
        if not sub_id:
            raise SowlineError("invalid subid", "expected a sub_id or a command_id to name the subscription")
        if sub_id in self._subscriptions:
            raise SowlineError(
                "subid in use", f"subscription {sub_id!r} exists already; unsubscribe it first"
            )
        if len(self._subscriptions) >= SUBSCRIPTIONS_MAX:
            raise SowlineError(
                "too many subscriptions", f"expected at most {SUBSCRIPTIONS_MAX} on one connection"
            )
        options = request.parsed_options
        engine = Subscription(compile_filter(request.filter), options.oof)
        active = Active(self.outbox, sub_id, topic, engine, options)
        self._subscriptions[sub_id] = active
        return active

    def _processed(self, request: Request, **fields: Any) -> None:
        if "processed" in request.acks:
            self.outbox.put(ack("processed", request.command_id, **fields))

    # queries

    def _start_query(self, request: Request, run: Coroutine[Any, Any, None]) -> None:
        query_id = request.id_of_query
        task = asyncio.get_running_loop().create_task(run)
        self._queries[query_id] = task
        task.add_done_callback(lambda done: self._queries.pop(query_id, None))

    async def _run_sow(self, request: Request, query: Query) -> None:
        self._processed(request, bookmark=query.bookmark)
        try:
            await self._send_group(request, query)
        except SowlineError as error:
            self.outbox.put(failure(request.command_id, error, "completed"))
            return
        self._completed(request, query)

    async def _send_group(self, request: Request, query: Query, reset: bool | None = None) -> None:
        query_id, topic = request.id_of_query, request.topic
        self.outbox.put(
            message("group_begin", query_id=query_id, topic=topic, bookmark=query.bookmark, reset=reset)
        )
        for records in query.chunks():
            for start in range(0, len(records), request.batch_size):
                self.outbox.put(sow_batch(query_id, topic, records[start : start + request.batch_size]))
            await self.outbox.wait_drained()
            await asyncio.sleep(0)
        result = query.result
        self.outbox.put(
            message(
                "group_end",
                query_id=query_id,
                topic=topic,
                bookmark=query.bookmark,
                records=result.matches,
                hash=f"{result.hash:016x}",
            )
        )

    def _completed(self, request: Request, query: Query) -> None:
        if "completed" in request.acks:
            self.outbox.put(ack("completed", request.command_id, bookmark=query.bookmark))
        if "stats" in request.acks:
            result = query.result
            counts = {
                "topic_matches": result.topic_matches,
                "matches": result.matches,
                "records_returned": result.matches,
                "records_deleted": 0,
            }
            self.outbox.put(ack("stats", request.command_id, **counts))

    # subscriptions

    async def _run_subscription(self, request: Request, active: Active, query: Query | None) -> None:
        """Send the snapshot if there is one, then catch up from its instant, then be live."""
        try:
            await self._serve(request, active, query)
        except SowlineError as error:
            self._fail(request, active, error)
        except Exception as error:
            log.exception("subscription failed", sub_id=active.sub_id)
            self._fail(request, active, SowlineError("internal", f"the subscription failed: {error}"))

    async def _serve(self, request: Request, active: Active, query: Query | None) -> None:
        await self._wait_for_replica(active)
        expired = await self._is_expired(request, active)
        self._processed(request, bookmark=active.topic.bookmark(active.positions), sub_id=active.sub_id)
        if expired:
            await self._send_fresh_group(request, active)
        elif query is not None:
            await self._send_group(request, query)
            self._completed(request, query)
        await self._stay_live(request, active)

    async def _is_expired(self, request: Request, active: Active) -> bool:
        """Tell whether the bookmark is too old, where the client asked for a fresh group then; else that raises."""
        try:
            await CatchUp(self._kafka, active).check()
        except BookmarkExpired:
            if not request.parsed_options.reset:
                raise
            return True
        return False

    def _fail(self, request: Request, active: Active, error: SowlineError) -> None:
        self._end(active.sub_id)
        self.outbox.put(failure(request.command_id, error, sub_id=active.sub_id))

    async def _stay_live(self, request: Request, active: Active) -> None:
        """Catch up and be live, and again whenever the client was too slow for that."""
        while True:
            try:
                await CatchUp(self._kafka, active).run(self._hub)
            except BookmarkExpired:
                if not request.parsed_options.reset:
                    raise
                await self._send_fresh_group(request, active)
                continue
            await active.fell_behind()

    async def _send_fresh_group(self, request: Request, active: Active) -> None:
        """Send the records as they are now, marked as a reset: what the client held before is void."""
        query = self._query(request, active.topic)
        active.positions = query.positions
        await self._send_group(request, query, reset=True)

    async def _wait_for_replica(self, active: Active) -> None:
        """Wait for a replica that is behind the client's bookmark, but not for ever."""
        topic = active.topic
        if not await self._state.wait_until_reached(topic, active.positions, BEHIND_SECONDS_MAX):
            raise SowlineError(
                "behind",
                f"this replica stands at {topic.bookmark(topic.positions)}, before the bookmark; try again later",
            )

    def _end(self, sub_id: str) -> None:
        active = self._subscriptions.pop(sub_id, None)
        if active is not None:
            self._hub.remove(active)
            active.stop()

    def close(self) -> None:
        """End everything that the client asked for."""
        for sub_id in list(self._subscriptions):
            self._end(sub_id)
        for task in list(self._queries.values()):
            task.cancel()


_HANDLERS: dict[str, Callable[[Session, Request], None]] = {
    "heartbeat": Session._heartbeat,
    "sow": Session._sow,
    "subscribe": Session._subscribe,
    "sow_and_subscribe": Session._sow_and_subscribe,
    "unsubscribe": Session._unsubscribe,
}
