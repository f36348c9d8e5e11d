"""The readers of the workload: queries, and subscriptions of every kind, which are ended and resumed."""

import asyncio
import contextlib
import itertools
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from msgspec import structs

from sowline.check.history import ReadEnded, ReadOpened
from sowline.check.judge.bookmarks import Partition, Position, covers, named_position, read_bookmark
from sowline.check.judge.reads import EXPIRED_BOOKMARK
from sowline.check.patience import Patience
from sowline.check.recorder import Recorder
from sowline.check.topics import GROUPED, by_status
from sowline.client.async_client import AsyncClient
from sowline.client.stream import Stream
from sowline.errors import SowlineError
from sowline.subscriptions.ask import Ask
from sowline.wire.client_message import Message

PROOF_SECONDS: Final = 2.0
"""How long to wait for a checksum before it is requested again: the request may have been lost with a connection."""

BOOKMARKS_MAX: Final = 100
"""The bookmarks of a subscription from which it may be resumed: the newest."""


def opened_read(read: str, ask: Ask, at: float, bookmark: str, *, resumed: bool = False) -> ReadOpened:
    """Return the event of a read that the service has accepted."""
    options = ask.options.split(",")
    return ReadOpened(
        read,
        ask.command,  # type: ignore[arg-type]
        ask.topic,
        at,
        ask.filter,
        "oof" in options,
        any(option.startswith("conflation=") for option in options),
        bookmark,
        resumed,
        str(ask.up_to),
        ask.at_least,
        order_by=ask.order_by,
        skip_n=ask.skip_n or 0,
        top_n=ask.top_n,
        groups=by_status(ask.topic) if GROUPED in ask.options else None,
    )


def is_computed(ask: Ask) -> bool:
    """Return whether the messages are steps of a whole result: it resumes with the same command, without an end."""
    return opened_read("", ask, 0, "").is_computed


class WorkloadQueries:
    """Runs queries through one client, and notes them."""

    def __init__(self, name: str, client: AsyncClient, recorder: Recorder, patience: Patience) -> None:
        self._name = name
        self._client = client
        self._recorder = recorder
        self._patience = patience
        self._numbers = itertools.count(1)

    async def query(self, ask: Ask, promise: str = "") -> str:
        """Run a query, and return the bookmark of its group."""
        opened, messages = await self.collect(ask)
        self.note(structs.replace(opened, promise=promise), messages)
        return last_bookmark(messages)

    async def collect(self, ask: Ask) -> tuple[ReadOpened, list[Message]]:
        """Run a query without noting it: what it shows may be known only later."""
        return await self._patience.answered(f"the whole result of {described(ask)}", self._collect(ask))

    async def _collect(self, ask: Ask) -> tuple[ReadOpened, list[Message]]:
        stream = await self._client.open(ask)
        opened = opened_read(f"{self._name}-{next(self._numbers)}", ask, self._recorder.now, "")
        messages: list[Message] = []
        while batch := await stream.next_batch():
            messages += batch
        return opened, messages

    def note(self, opened: ReadOpened, messages: list[Message]) -> None:
        """Note a query with its result."""
        self._recorder.note(opened)
        for message in messages:
            self._recorder.note_message(opened.read, message)
        self._recorder.note(ReadEnded(opened.read, self._recorder.now, last_bookmark(messages)))


def last_bookmark(messages: Sequence[Message]) -> str:
    """Return the bookmark of a result; empty if there is none, which is for the judge to notice."""
    return (messages[-1].bookmark or "") if messages else ""


def described(ask: Ask) -> str:
    """Return a request in words, for the message about an answer that is missing."""
    given = {
        "filter": ask.filter,
        "bookmark": str(ask.bookmark),
        "at_least": ask.at_least,
        "up_to": str(ask.up_to),
    }
    details = ", ".join(f"{name} {value}" for name, value in given.items() if value)
    return f"{ask.command} of {ask.topic}{f' with {details}' if details else ''}"


class WorkloadSubscription:
    """A subscription that is followed to the end of the workload, and resumed now and then."""

    def __init__(
        self, name: str, client: AsyncClient, ask: Ask, recorder: Recorder, patience: Patience
    ) -> None:
        self.ask = ask
        self.client = client
        self._name = name
        self._recorder = recorder
        self._patience = patience
        self._numbers = itertools.count(1)
        self._stream: Stream | None = None
        self._follower: asyncio.Task[None] | None = None
        self._read = ""
        self._proven = self._hash = ""
        self._news = asyncio.Event()
        self.bookmarks: deque[tuple[str, float]] = deque(maxlen=BOOKMARKS_MAX)
        """Bookmarks from which it could be resumed, each with the time at which it was received."""
        self._changes: dict[Partition, set[Position]] = defaultdict(set)

    async def open(self, ask: Ask | None = None, received_at: float = 0) -> None:
        """Subscribe, and follow; where a bookmark, which was received at a time, has expired, begin again without it.

        A request that has a bookmark from the start is not followed then.
        """
        asked = ask or self.ask
        try:
            stream = await self.client.open(asked)
        except SowlineError as error:
            if error.reason != EXPIRED_BOOKMARK:
                raise
            self._note_expired(asked, self._recorder.now - received_at)
            if self.ask.bookmark:
                return
            asked = self.ask
            stream = await self.client.open(asked)
        self._read = f"{self._name}-{next(self._numbers)}"
        self._recorder.note(
            opened_read(
                self._read, asked, self._recorder.now, stream.bookmark or "", resumed=bool(asked.bookmark)
            )
        )
        self._stream = stream
        self._follower = asyncio.create_task(self._follow(self._read, stream))

    def _note_expired(self, asked: Ask, age_seconds: float) -> None:
        read, now = f"{self._name}-{next(self._numbers)}", self._recorder.now
        self._recorder.note(opened_read(read, asked, now, str(asked.bookmark), resumed=True))
        self._recorder.note(ReadEnded(read, now, "", EXPIRED_BOOKMARK, age_seconds))

    async def _follow(self, read: str, stream: Stream) -> None:
        reason = ""
        try:
            while batch := await stream.next_batch():
                for message in batch:
                    self._recorder.note_message(read, message)
                    if message.command in ("publish", "oof") and (
                        stand := named_position(message.bookmark or "")
                    ):
                        self._changes[stand[0]].add(stand[1])
                    if message.command == "progress" and message.hash:
                        self._proven, self._hash = message.bookmark or "", message.hash
                        self._news.set()
                if stream.bookmark:
                    self.bookmarks.append((stream.bookmark, self._recorder.now))
        except SowlineError as error:
            reason = error.reason
        finally:
            self._recorder.note(ReadEnded(read, self._recorder.now, stream.bookmark or "", reason))

    def received(self, bookmark: str) -> Mapping[Partition, Position]:
        """Return the newest change in each partition that it has received up to a bookmark."""
        found: dict[Partition, Position] = {}
        for partition, last in read_bookmark(bookmark).items():
            if changes := [position for position in self._changes[partition] if position <= last]:
                found[partition] = max(changes)
        return found

    async def prove(self, bookmark: str) -> None:
        """Wait until the service has proved that it sent everything up to a bookmark."""
        await self._patience.until_answered(
            f"{self._name} to receive everything up to {bookmark}, with a checksum",
            partial(self._prove, bookmark),
        )

    async def _prove(self, bookmark: str) -> None:
        """Request a checksum; raise `behind` if none came, or an earlier one than that of a bookmark."""
        assert self._stream is not None
        if self._follower is None or self._follower.done():
            await self.open()
        self._news.clear()
        await self.client.prove(self._stream)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._news.wait(), PROOF_SECONDS)
        if not self._proven or not (covers(self._proven, bookmark) or await self._is_current(bookmark)):
            raise SowlineError("behind", f"the last checksum is that of {self._proven or 'no bookmark'}")

    async def _is_current(self, bookmark: str) -> bool:
        """Return whether the last checksum is that of the whole result at a bookmark, or later.

        The bookmarks of groups and live pages at a gateway stay behind changes that don't concern them.
        """
        if not is_computed(self.ask):
            return False
        options = ",".join(one for one in self.ask.options.split(",") if one != "oof")
        stream = await self.client.open(replace(self.ask, command="sow", options=options, at_least=bookmark))
        messages: list[Message] = []
        while batch := await stream.next_batch():
            messages += batch
        return bool(messages) and messages[-1].hash == self._hash

    async def wait_ended(self) -> None:
        """Wait for the end of a subscription that has one."""
        if self._follower is not None:
            # Shielded: the follower notes the end of the read itself.
            await self._patience.answered(
                f"the end of {self._name}: {described(self.ask)}", asyncio.shield(self._follower)
            )

    async def close(self) -> None:
        """Leave the subscription."""
        if self._stream is not None and self._follower is not None:
            await self._patience.answered(f"{self._name} to end", self._leave(self._stream, self._follower))

    async def _leave(self, stream: Stream, follower: asyncio.Task[None]) -> None:
        await self.client.end(stream)
        await follower

    async def resume(self) -> None:
        """Leave the subscription, and go on from its bookmark."""
        assert self._stream is not None
        await self.close()
        if self._stream.bookmark:
            await self.open(going_on(self.ask, self._stream.bookmark), self._recorder.now)
        else:
            await self.open()


def going_on(ask: Ask, bookmark: str, up_to: str = "") -> Ask:
    """Return the request for the changes after a bookmark of a subscription."""
    command = ask.command if is_computed(ask) else ask.command.removeprefix("sow_and_")
    return replace(ask, command=command, bookmark=bookmark, up_to=up_to)
