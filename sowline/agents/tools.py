"""Carries out the tools over the HTTP API of a service, with the rights that each request has there.

Every answer is one of the HTTP API, so an agent learns nothing that its user could not read there.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any

import httpx2
import msgspec
import orjson

from sowline.agents.answers import (
    CHANGES,
    Collected,
    CollectedChanges,
    failure_in,
    json_array,
    json_object,
    matched_in,
    topics_answer,
    with_notice,
)
from sowline.agents.arguments import (
    ChangesArguments,
    DeleteArguments,
    ExplainArguments,
    PublishArguments,
    QueryArguments,
    RecordArguments,
    TopicArguments,
    WaitArguments,
    changes_parameters,
    page_fields,
    query_fields,
    read_arguments,
    waiting_parameters,
)
from sowline.agents.catalog import TOOLS, WRITE_TOOLS, Tool
from sowline.agents.events import Event, EventReader, Pieces
from sowline.client.http_api import HttpClient, record_path, topic_path
from sowline.errors import SowlineError
from sowline.model.exact_numbers import write_exact
from sowline.serving.sessions.events import FAILURE

NO_FIELDS = "select=[-/]"
"""A listener learns that something has changed, and not what."""

_ARGUMENTS = {tool.name: tool.arguments for tool in (*TOOLS, *WRITE_TOOLS)}
_WRITES = {tool.name for tool in WRITE_TOOLS}


class AgentTools:
    """The tools over one HTTP client, which has the credentials. They remember nothing between two calls."""

    def __init__(self, http: HttpClient) -> None:
        self._http = http
        self._calls: dict[str, Callable[[Any], Awaitable[str]]] = {
            "topics": self._topics,
            "fields": self._fields,
            "query": self._query,
            "record": self._record,
            "explain": self._explain,
            "changes": self.changes,
            "wait_for": self._wait_for,
            "publish": self._publish,
            "delete": self._delete,
        }

    async def call(self, name: str, given: Mapping[str, Any]) -> str:
        """Return the answer of a tool; raise the service's error, or `bad request` for wrong arguments."""
        if name not in self._calls:
            raise SowlineError(
                "bad request", f"expected a tool ({', '.join(self._calls)}), got {name[:100]!r}"
            )
        if name in _WRITES and not await self._allows_writes():
            raise SowlineError(
                "not entitled", "expected a user with a role that has `agent_writes`, got one without"
            )
        return await self._calls[name](read_arguments(_ARGUMENTS[name], given))

    async def available(self) -> tuple[Tool, ...]:
        """Return the tools that the user may call."""
        # An agent lists the tools once, maybe before the service runs. Each call reports the error again.
        with suppress(SowlineError):
            return (*TOOLS, *WRITE_TOOLS) if await self._allows_writes() else TOOLS
        return TOOLS

    async def _allows_writes(self) -> bool:
        # A service of an earlier version has no such right.
        return (await self._http.topics()).get("agent_writes") is True

    async def topic_names(self) -> list[str]:
        """Return the names of the topics that the user may read or write."""
        return [topic["name"] for topic in (await self._http.topics())["topics"]]

    async def changes(self, asked: ChangesArguments) -> str:
        """Return the changes after a bookmark, and the next bookmark."""
        collected = CollectedChanges(asked.after, asked.limit)
        async with self._subscription(asked.topic, changes_parameters(asked)) as events:
            async for event in events:
                collected.take(event)
                if collected.is_over:
                    return collected.answer
        raise _ended()

    @asynccontextmanager
    async def watch(self, asked: ChangesArguments) -> AsyncGenerator[AsyncIterator[Event], None]:
        """Return an iterator with an item for each change after a bookmark, without fields of the record.

        Raise the service's refusal at once.
        """
        given = {"filter": asked.filter, "options": f"oof,{NO_FIELDS}", "bookmark": asked.after or "now"}
        async with self._subscription(
            asked.topic, {name: text for name, text in given.items() if text}
        ) as events:
            yield _changes_among(events)

    async def _topics(self, _: msgspec.Struct) -> str:
        return topics_answer(await self._http.topics())

    async def _fields(self, asked: TopicArguments) -> str:
        async with self._http.open("GET", f"{topic_path(asked.topic)}/fields") as response:
            return with_notice(fields=await response.aread())

    async def _query(self, asked: QueryArguments) -> str:
        found, bookmark, warning = await self._page(asked.topic, page_fields(asked), asked.limit)
        return with_notice(
            bookmark=orjson.dumps(bookmark),
            more=orjson.dumps(found.is_cut),
            **({"warning": orjson.dumps(warning)} if warning else {}),
            records=json_array(found.records),
        )

    async def _page(
        self, topic: str, fields: Mapping[str, Any], records_max: int
    ) -> tuple[Collected, str, str]:
        """Return the records of a query up to a limit, its bookmark, and the warning that it got."""
        found, lines = Collected(records_max), Pieces(b"\n")
        path, content = f"{topic_path(topic)}/sow", orjson.dumps(fields)
        async with self._http.open("POST", path, content=content) as response:
            instant, warning = (
                response.headers.get(f"sowline-{name}", "") for name in ("bookmark", "warning")
            )
            async for chunk in response.aiter_bytes():
                if not all(found.add(line) for line in lines.take(chunk) if line):
                    break
        return found, instant, warning

    async def _record(self, asked: RecordArguments) -> str:
        path = record_path(asked.topic, asked.key)
        async with self._http.open("GET", path) as response:
            parts = {
                "bookmark": orjson.dumps(response.headers.get("sowline-bookmark", "")),
                "record": await response.aread(),
            }
        if asked.timeline:
            async with self._http.open("GET", f"{path}/timeline", params={"limit": asked.limit}) as response:
                parts["timeline"] = await response.aread()
        return with_notice(**parts)

    async def _explain(self, asked: ExplainArguments) -> str:
        content = orjson.dumps(query_fields(asked))
        async with self._http.open("POST", f"{topic_path(asked.topic)}/explain", content=content) as response:
            return json_object({"explained": await response.aread()})

    async def _publish(self, asked: PublishArguments) -> str:
        command = "delta_publish" if asked.merge else "publish"
        return await self._write(asked.topic, command, {}, write_exact(asked.record))

    async def _delete(self, asked: DeleteArguments) -> str:
        return await self._write(
            asked.topic, "sow_delete", {"keys": orjson.dumps(asked.sow_keys).decode()}, None
        )

    async def _write(self, topic: str, command: str, given: Mapping[str, str], body: bytes | None) -> str:
        """Write, and return the outcome once queries include it."""
        written = await self._http.post(topic, command, {**given, "ack": "processed"}, body)
        return write_exact(written).decode()

    async def _wait_for(self, asked: WaitArguments) -> str:
        after, matched = asked.after, Collected(asked.limit)
        if not after:
            page = page_fields(
                QueryArguments(topic=asked.topic, filter=asked.filter, select=asked.select, limit=asked.limit)
            )
            matched, after, _ = await self._page(asked.topic, page, asked.limit)
        if not matched.records:
            after = await self._wait_after(asked, after, matched)
        return with_notice(
            matched=orjson.dumps(bool(matched.records)),
            bookmark=orjson.dumps(after),
            records=json_array(matched.records),
        )

    async def _wait_after(self, asked: WaitArguments, after: str, matched: Collected) -> str:
        """Wait until a record matches after a bookmark; return the bookmark up to which that is known."""
        # Outside of the time limit, because a refusal must not look like a wait without success
        # (test_waiting_for_what_is_refused).
        async with self._subscription(asked.topic, waiting_parameters(asked, after)) as events:
            with suppress(TimeoutError):
                async with asyncio.timeout(asked.seconds):
                    async for event in events:
                        if event.name == FAILURE:
                            raise failure_in(event)
                        after = event.id or after
                        if event.name == "publish":
                            matched.add(matched_in(event))
                            return after
                    raise _ended()
        return after

    @asynccontextmanager
    async def _subscription(
        self, topic: str, given: Mapping[str, str]
    ) -> AsyncGenerator[AsyncIterator[Event], None]:
        """Return the events of a subscription; raise the refusal of its request."""
        path = f"{topic_path(topic)}/subscribe"
        async with (
            self._http.open("GET", path, params=given) as response,
            aclosing(_events(response)) as events,
        ):
            yield events


async def _events(response: httpx2.Response) -> AsyncGenerator[Event, None]:
    reader = EventReader()
    async for chunk in response.aiter_bytes():
        for event in reader.take(chunk):
            yield event


async def _changes_among(events: AsyncIterator[Event]) -> AsyncIterator[Event]:
    async for event in events:
        if event.name == FAILURE:
            raise failure_in(event)
        if event.name in CHANGES:
            yield event


def _ended() -> SowlineError:
    return SowlineError(
        "disconnected", "the service ended the answer, because it stops: call again with the same bookmark"
    )
