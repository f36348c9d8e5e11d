"""The iterator of the blocking client: the messages of one query or subscription, and the bookmark after each."""

import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Protocol

from sowline.client.local_view import Run
from sowline.client.records import Record, record_of
from sowline.client.stream import Stream
from sowline.client.taken_batch import TakenBatch
from sowline.errors import SowlineError
from sowline.subscriptions.ask import Ask
from sowline.wire.client_message import Message


class Opener(Protocol):
    """The part of the asynchronous client that an iterator uses."""

    async def open(self, ask: Ask) -> Stream:
        """Start a query or subscription and return its stream once the server has taken it."""
        ...

    async def pause(self, stream: Stream) -> None:
        """Let the service send nothing to a subscription until it is resumed."""

    async def resume(self, stream: Stream) -> None:
        """Resume a subscription from the position at which it was paused."""

    async def end(self, stream: Stream) -> None:
        """Unsubscribe, if the stream is still open."""


class IteratedStream:
    """The stream of an iterator, from before it is opened until it is ended. Used in the client's loop only.

    A caller can be interrupted at any moment, also just before or after the service accepts its request. So it is the
    loop that holds the stream, and that ends it if the caller has left (test_an_interrupted_call_leaves_no_stream).
    """

    def __init__(self, client: Opener) -> None:
        self.client = client
        self.stream: Stream | None = None
        self.batch = TakenBatch([], None)
        """The last batch that was taken."""
        self._is_left = False

    async def open(self, ask: Ask) -> None:
        """Start the query or subscription; return once it has begun."""
        self.stream = await self.client.open(ask)
        if self._is_left:
            await self.client.end(self.stream)

    async def next_batch(self) -> TakenBatch:
        """Wait for messages. An empty batch is the end."""
        messages = await self.opened().next_batch()
        # Not in another step of the loop: a caller that was interrupted sees by it that messages were taken.
        self.batch = TakenBatch(messages, self.opened().before_batch)
        return self.batch

    async def pause(self) -> None:
        """Let the service send nothing until it is resumed."""
        await self.client.pause(self.opened())

    async def resume(self) -> None:
        """Resume the subscription, with every change since."""
        await self.client.resume(self.opened())

    async def settle(self) -> None:
        """Do nothing. What the loop was given before has run when this returns."""

    async def end(self) -> None:
        """End the stream, also one that is being opened."""
        self._is_left = True
        if self.stream is not None:
            await self.client.end(self.stream)

    def opened(self) -> Stream:
        """Return the stream."""
        assert self.stream is not None, "messages are taken from a stream that was opened"
        return self.stream


class Messages(Iterator[Message]):
    """The messages of one query or subscription, as they arrive. To end it, leave the iteration or call `close`."""

    # A finalizer ends the stream. It does not refer to the iterator: after a loop that is left, only the garbage
    # collector would find such a cycle and unsubscribe (test_leaving_the_iteration_ends_the_stream). A generator
    # would end only a stream that was read (test_an_iterator_that_was_not_begun_ends_its_stream).

    def __init__(self, run: Run, opening: IteratedStream, leave: Callable[[IteratedStream], None]) -> None:
        self._run = run
        self._opening = opening
        self._leave = leave
        self._batch = opening.batch
        self._returned = 0
        """How many messages of the batch were returned."""
        self._is_closed = self._is_interrupted = False
        weakref.finalize(self, leave, opening).atexit = False

    def __next__(self) -> Message:
        """Wait for the next message."""
        if self._is_closed:
            raise StopIteration
        batch, returned = self._batch, self._returned
        try:
            if returned == len(batch.messages):
                self._take_batch()
            message = self._batch.messages[self._returned]
            self._returned += 1
            return message
        except StopIteration:
            self.close()
            raise
        except BaseException:
            # Ctrl-C, for example. It may come after a message was counted, which nobody gets, or while the loop takes
            # messages. They are not behind the bookmark, and are not skipped by an iteration that goes on: it has
            # ended (test_a_message_that_was_not_returned_is_not_behind_the_bookmark).
            self._batch, self._returned = batch, returned
            self._is_interrupted = True
            self.close()
            raise

    def _take_batch(self) -> None:
        batch = self._run(self._opening.next_batch)
        self._batch, self._returned = batch, 0
        if not batch.messages:
            raise StopIteration

    @property
    def bookmark(self) -> str | None:
        """The bookmark to resume from: after the last messages that were returned. None until a group has ended."""
        # Messages are taken in batches. With the bookmark after all of them, a program that saved it and was killed
        # would miss the rest of the batch (test_the_bookmark_is_that_of_the_last_message_returned).
        opening = self._opening
        if self._is_interrupted:
            # The loop may still be taking messages that nobody gets. A closed client has ended that.
            with suppress(SowlineError):
                self._run(opening.settle)
        whole = opening.opened().bookmark
        if whole is None:
            return None
        if self._returned < len(self._batch.messages):
            return self._batch.bookmark_after(self._returned)
        return whole if opening.batch is self._batch else opening.batch.bookmark_after(0)

    def pause(self) -> None:
        """Let the service send nothing until it is resumed; messages that have arrived are still returned."""
        self._run(self._opening.pause)

    def resume(self) -> None:
        """Resume the subscription, with every change since."""
        self._run(self._opening.resume)

    def close(self) -> None:
        """End the query or subscription."""
        # The rest of the batch stays: without it, the bookmark would be the one after all of it
        # (test_the_bookmark_after_the_end_is_that_of_the_last_message_returned).
        self._is_closed = True
        self._leave(self._opening)


class RecordIterator(Iterator[Record]):
    """The records of a query, each as a dict. To end it, leave the iteration or call `close`."""

    def __init__(self, messages: Messages) -> None:
        self._messages = messages

    def __next__(self) -> Record:
        """Wait for the next record."""
        for message in self._messages:
            if message.command == "sow":
                return record_of(message)
        raise StopIteration

    def close(self) -> None:
        """End the query."""
        self._messages.close()
