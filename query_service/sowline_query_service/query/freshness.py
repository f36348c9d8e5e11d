"""Reads that demand a fresh state: `at_least` a bookmark, or within `max_staleness` of the log's end.

A read waits here before it takes its instant. Open this module to find out how long, and when it is refused.
"""

import time
from collections.abc import Sequence
from functools import partial

from sowline.config.reading_chains import chains_to
from sowline.errors import SowlineError
from sowline.model.bookmark import Positions, PositionsByLog, format_bookmark
from sowline.model.position import invalid_bookmark
from sowline.serving.query_slots import QueryTurn, lent
from sowline.wire.request import QueryRequest
from sowline_query_service.topics.reflected import reflects
from sowline_query_service.topics.state import ServedTopics
from sowline_query_service.topics.topic_state import TopicState, lag_seconds

AT_LEAST_SECONDS_MAX = 10.0
"""How long a read waits for the bookmark that it demands."""

FRESH_SECONDS_MAX = 1.0
"""How long a read waits for a state that is fresh enough."""


async def wait_until_fresh(state: ServedTopics, topics: Sequence[TopicState], request: QueryRequest) -> None:
    """Wait until the replica is as fresh as a read demands.

    Raise `behind` if it does not reach `at_least` within 10 seconds, `stale` if its lag is not within `max_staleness`
    within a second, and `invalid bookmark` if `at_least` names a partition that one of these topics lacks.
    """
    if request.at_least:
        await _wait_for_bookmark(state, topics, request.at_least)
    if request.staleness_seconds_max is not None:
        await _wait_for_lag(state, topics, request.staleness_seconds_max)


async def take_when_fresh(
    turn: QueryTurn, state: ServedTopics, topics: Sequence[TopicState], request: QueryRequest
) -> None:
    """Take the turn of a read that has waited until the replica was fresh; raise as `wait_until_fresh` does.

    If the turn comes late, the replica may no longer be as fresh.
    """
    if not await turn.take() or _has_lag_within(topics, request):
        return
    # A replica that has stalled is found here, without the turn. Behind that, the wait is for one sample: without the
    # turn it would be too old again whenever others wait, too.
    async with lent(turn):
        await wait_until_fresh(state, topics, request)
    await wait_until_fresh(state, topics, request)


def _has_lag_within(topics: Sequence[TopicState], request: QueryRequest) -> bool:
    if request.staleness_seconds_max is None:
        return True
    seconds = lag_seconds(topics)
    return seconds is not None and seconds <= request.staleness_seconds_max


async def _wait_for_bookmark(
    state: ServedTopics, topics: Sequence[TopicState], at_least: PositionsByLog
) -> None:
    deadline = time.monotonic() + AT_LEAST_SECONDS_MAX
    definitions = {name: topic.definition for name, topic in state.topics.items()}
    # Logs that these topics are not computed from don't matter: a client demands all its writes, whatever it reads
    # (test_the_positions_of_other_topics_are_no_demand).
    for log, positions in at_least.items():
        chains = [
            [state.topics[one.name] for one in chain]
            for topic in topics
            for chain in chains_to(definitions, topic.definition, log)
        ]
        for chain in chains:
            if beyond := [n for n in positions if n >= chain[0].definition.partitions]:
                raise invalid_bookmark(
                    f"expected a partition of {log} below {chain[0].definition.partitions}, got {beyond[0]}"
                )
            # A shard need not hold the partitions of a view between. Its gateway demands the positions of that view
            # (test_a_view_of_a_view_whose_partitions_are_elsewhere).
            if len(chain) > 2 and not state.shard.is_whole and chain[-2].definition.log in at_least:
                continue
            if (late := await _wait_for_chain(state, chain, positions, deadline)) is not None:
                raise SowlineError(
                    "behind",
                    f"this replica is at {late.bookmark(late.positions)}, before {format_bookmark(at_least)}, which"
                    " the read demands; retry later",
                )


async def _wait_for_chain(
    state: ServedTopics, chain: Sequence[TopicState], positions: Positions, deadline: float
) -> TopicState | None:
    """Wait until the first topic has reached the positions, and each view of it reflects them.

    Return the first one that does not in time.
    """
    first, *views = chain
    topic, read = first, first.definition
    has_reached = await state.wait_until_reached(first, first.held_of(positions), deadline - time.monotonic())
    wanted = positions
    for view in views:
        if not has_reached:
            break
        topic = view
        assert view.definition.view is not None, "it reads a topic"
        source = state.topics[view.definition.view.source].definition
        has = partial(reflects, view, read, source, wanted)
        has_reached = await state.wait_until(has, deadline - time.monotonic())
        # The view's present positions contain the demanded ones. A view of it must reflect that.
        wanted, read = view.positions, view.definition
    return None if has_reached else topic


async def _wait_for_lag(state: ServedTopics, topics: Sequence[TopicState], seconds_max: float) -> None:
    deadline = time.monotonic() + FRESH_SECONDS_MAX
    while (seconds := lag_seconds(topics)) is None or seconds > seconds_max:
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            found = "is not known how old" if seconds is None else f"is {seconds:.3f} s"
            raise SowlineError(
                "stale",
                f"expected a state of at most {seconds_max:g} s behind the log, but it {found}"
                f"{'' if seconds is None else ' behind'}{_transactions(topics)}; retry later, or allow more",
            )
        await state.wait_for_news(topics, remaining)


def _transactions(topics: Sequence[TopicState]) -> str:
    """Return which open transactions hold topics, as a part of a sentence."""
    held = [
        f"{topic.definition.log} [{number}] is {one}"
        for topic in topics
        for number, one in topic.transactions().items()
    ]
    return f" (an open transaction: {'; '.join(held[:3])})" if held else ""
