"""Queries at a bookmark: the records exactly as they were at its positions.

The service undoes the changes since then, with the previous body that each change has. If a change is no longer
available, or there are too many, the bookmark has expired.
"""

from collections.abc import Sequence

import numpy as np

from sowline.changes.change import Change
from sowline.model.bookmark import Positions, PositionsByLog
from sowline.model.bookmark_range import BookmarkRange
from sowline.serving.cooperative import wait_next_turn
from sowline.serving.refusal import no_sow
from sowline.wire.request import Read
from sowline_query_service.context import ServiceContext
from sowline_query_service.index.rows import NOTHING_RARE, UNKNOWN_OFFSET, UNKNOWN_TIME, Rare
from sowline_query_service.query.grouping import GroupedQuery
from sowline_query_service.query.query import Query
from sowline_query_service.query.read_request import (
    ReadRequest,
    bookmark_range_of,
    check_documents,
    only_topic,
    query_of,
)
from sowline_query_service.query.selection import Selection
from sowline_query_service.replica.history import Former
from sowline_query_service.subscriptions.bookmark_resolver import wait_for_start
from sowline_query_service.subscriptions.catch_up import changes_since
from sowline_query_service.topics.topic_state import Past, TopicState


def query_at(context: ServiceContext, request: Read, asked: ReadRequest) -> Query | GroupedQuery:
    """Return the query for a request for current records, or for those at a time or a bookmark.

    A gateway that `relays` may also ask for the start of a window: the bookmark may be a list, or `epoch`.

    Raise `no sow`, `invalid bookmark`, `no history` or `no documents`.
    """
    topics, selection = asked
    bookmark_range = bookmark_range_of(request, topics) if request.bookmark else BookmarkRange()
    if not any(topic.definition.has_sow for topic in topics):
        raise no_sow(topics[0].definition.name)
    [start, *more] = bookmark_range.starts
    is_of_positions = isinstance(start, dict) and not more
    is_start = bookmark_range.is_return if request.of_gateway.relays else is_of_positions
    if bookmark_range.end is not None or not is_start:
        return query_of(request, asked, context.limits)
    check_documents(selection.options, topics)
    if selection.options.projection:
        topic = only_topic(request, topics)
        return GroupedQuery(
            topic,
            selection,
            context.limits,
            make=lambda plain: BookmarkQuery(context, topics, plain, bookmark_range),
        )
    return BookmarkQuery(context, topics, selection, bookmark_range)


class BookmarkQuery(Query):
    """A query whose instant is a bookmark in the past. `begin` it, then use it like any other query."""

    def __init__(
        self,
        context: ServiceContext,
        topics: Sequence[TopicState],
        selection: Selection,
        bookmark_range: BookmarkRange,
    ) -> None:
        super().__init__(topics, selection, context.limits)
        self._context = context
        self._bookmark_range = bookmark_range
        self._begin: PositionsByLog | None = None
        """The positions of the bookmark, once the replica has reached them."""

    async def wait_for_replica(self) -> None:
        """Find the positions, and wait until the replica has reached them.

        Raise `bookmark_expired`, `behind`, or `invalid bookmark` if the bookmark names an era that does not exist.
        """
        await self._wait_for_begin()

    async def _wait_for_begin(self) -> PositionsByLog:
        if self._begin is None:
            self._begin = await wait_for_start(self._context, list(self._topics), self._bookmark_range)
        return self._begin

    async def begin(self) -> None:
        """Find the positions, and undo the changes since then; raise as `reach` does."""
        if self.topic_slices:
            return
        begin = await self._wait_for_begin()
        await wait_next_turn()
        context, topics = self._context, list(self._topics)
        since = [(topic, begin[topic.definition.log]) for topic in topics]
        # The instant must be the one up to which the changes are known, so nothing is awaited between `changes_since`
        # and `begin_now`. A change in between would not be undone. While the changes are read, an index may become
        # outdated: `begin_now` then takes no instant, and both are done again.
        while not self.topic_slices:
            await self.prepare()
            changes = await changes_since(context.kafka, since, context.limits.undo_max)
            self._pasts = {
                topic.definition.name: past_of_changes(topic, positions, found)
                for (topic, positions), found in zip(since, changes, strict=True)
            }
            self.begin_now()
        # `begin_now` has set the positions of its instant. The records that are returned are those at the bookmark
        # (test_what_is_found_at_a_position_is_what_was_found_there).
        assert self.positions.keys() == begin.keys(), "both positions are of the same logs"
        self.positions = {log: dict(positions) for log, positions in begin.items()}
        self.result.lag_seconds = None


def past_of_changes(topic: TopicState, positions: Positions, changes: Sequence[tuple[int, Change]]) -> Past:
    """Return the records to restore so that a topic is as it was before these changes.

    The changes are all changes since the positions, those of each partition in order.
    """
    # A topic without a SOW keeps no records: there is nothing to restore.
    kept = changes if topic.definition.has_sow else ()
    count = len(kept)
    rare = {
        at: Rare(known=change.known_before)
        for at, (_, change) in enumerate(kept)
        if change.previous is not None and change.known_before is not None
    }
    # All changes are passed on: `as_they_were` takes the first one of each record. A change does not
    # contain when its previous body was written, so offset and time are unknown, and answers leave them out
    # (test_what_is_not_known_is_left_out).
    former = Former(
        [change.sow_key for _, change in kept],
        [change.previous for _, change in kept],
        np.zeros(count, np.int64),
        np.full(count, UNKNOWN_OFFSET, np.int64),
        np.zeros(count, np.int64),
        np.full(count, UNKNOWN_TIME, np.int64),
        {at: of for at, of in rare.items() if of != NOTHING_RARE},
    )
    gained = sum((change.body is not None) - (change.previous is not None) for _, change in kept)
    partitions = np.array([number for number, _ in kept], np.uint16)
    return Past(dict(positions), len(topic.rows) - gained, former, partitions)
