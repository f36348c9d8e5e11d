"""Chooses the query services that answer a request, so that exactly one answers for each partition. No I/O.

A query service is a **node** here. Nodes announce the partitions that they hold. Routing follows what is announced,
never a number of shards: while that number changes, nodes of both generations answer, and one request uses nodes
whose partitions do not overlap.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sowline.errors import SowlineError
from sowline.model.bookmark import Positions
from sowline.wire.node_queries import sample_turn_seconds

UNAVAILABLE = "shard unavailable"

LAG_UNKNOWN = 1e9
"""More seconds than any real lag."""

SAMPLING_SECONDS_MAX = 1.0
"""A sample may be older than its node's turn by this much, because Kafka takes some time to answer."""

FAILED_MAX = 1000
"""The search for nodes that do not overlap ends after this many dead ends."""

TopicPartition = tuple[str, int]
"""A topic's name, and the number of one of its partitions."""

Share = frozenset[TopicPartition]
"""The partitions that a node answers for."""


@dataclass(frozen=True, slots=True)
class AnnouncedTopic:
    """A node's announcement of one topic: the positions of its partitions, and its lag."""

    positions: Positions
    is_loading: bool = False
    lag_seconds: float | None = None
    lag: int | None = None
    """Its lag in records of the log when it last sampled where the log ends."""

    def rank(self, turn_seconds: float) -> int:
        """Return its lag, for comparison with other nodes.

        Nodes sample the ends of many logs in turn. So the times of two nodes differ though neither is behind. A
        sample that is older than a turn shows nothing: its node may have stalled.
        """
        seconds = LAG_UNKNOWN if self.lag_seconds is None else self.lag_seconds
        is_current = seconds <= turn_seconds + SAMPLING_SECONDS_MAX
        return 0 if self.lag == 0 and is_current else round(seconds)


@dataclass(frozen=True, slots=True)
class Announcement:
    """A node's announcement."""

    url: str
    shard: str
    topics: Mapping[str, AnnouncedTopic] = field(default_factory=dict)
    turn_seconds: float = sample_turn_seconds(1)
    """The time within which it samples the ends of all its logs."""

    def note(self, positions: Mapping[str, Positions]) -> None:
        """Note newer positions by topic, which an answer or a live message of the node has shown."""
        for name, held in positions.items():
            mine = self.topics[name].positions if name in self.topics else {}
            for number, position in held.items():
                # A partition that it has not announced stays out: `share` would count the node as its holder.
                if number in mine:
                    mine[number] = max(position, mine[number])

    def share(self, topics: Iterable[str]) -> Share:
        """Return the partitions of these topics that it holds; none at all while it loads one of the topics."""
        held = [(name, self.topics[name]) for name in topics if name in self.topics]
        # A topic without partitions here has nothing to load: it must not hide the partitions of the others.
        if any(topic.is_loading for _, topic in held if topic.positions):
            return frozenset()
        return frozenset((name, number) for name, topic in held for number in topic.positions)

    def lag_seconds(self, topics: Iterable[str]) -> float:
        """Return its lag in these topics in seconds, `LAG_UNKNOWN` if it is unknown."""
        lags = [self.topics[name].lag_seconds for name in topics if name in self.topics]
        return max((LAG_UNKNOWN if lag is None else lag for lag in lags), default=LAG_UNKNOWN)

    def rank(self, topics: Iterable[str]) -> int:
        """Return its lag in these topics, for comparison with other nodes."""
        ranks = (self.topics[name].rank(self.turn_seconds) for name in topics if name in self.topics)
        return max(ranks, default=round(LAG_UNKNOWN))

    def has_reached(self, floor: Mapping[str, Positions]) -> bool:
        """Whether it is known to be at these positions, by topic, or beyond them, in the partitions that it holds."""
        return all(
            self.topics[name].positions.get(number, position) >= position
            for name, positions in floor.items()
            if name in self.topics
            for number, position in positions.items()
        )


@dataclass(frozen=True, slots=True)
class Route:
    """A node of a request, and the partitions that it answers for."""

    node: Announcement
    share: Share


Rank = Callable[[Announcement], object]
"""Ranks nodes that hold the same partitions: the one with the lowest rank is asked."""


class Candidates:
    """The nodes that a request may ask: those that hold partitions of these topics, or some that are `needed`.

    `topics` has the number of partitions of each topic. Nodes whose URL is in `avoid` are left out.
    """

    def __init__(
        self,
        nodes: Collection[Announcement],
        topics: Mapping[str, int],
        rank: Rank,
        avoid: Collection[str] = (),
        needed: Share | None = None,
    ) -> None:
        self._rank = rank
        self._wanted = partitions_of(topics) if needed is None else needed
        self._by_share: dict[Share, list[Announcement]] = defaultdict(list)
        for node in nodes:
            share = node.share(topics) if node.url not in avoid else frozenset()
            # Nodes may overlap in partitions that the request does not need.
            share = share if needed is None else share & needed
            if share:
                self._by_share[share].append(node)

    def routes(self) -> list[Route]:
        """Return nodes that hold all wanted partitions together, each partition once; raise `shard unavailable`."""
        chosen = _cover(sorted(self._by_share, key=_largest_first), self._wanted)
        if chosen is None:
            raise unavailable(self._wanted - frozenset().union(*self._by_share))
        assert frozenset().union(*chosen) == self._wanted, "each wanted partition is answered for"
        assert sum(map(len, chosen)) == len(self._wanted), "no partition is answered for twice"
        return self._ranked(chosen)

    def some_routes(self) -> list[Route]:
        """Return nodes that hold as many of these partitions as are easily found, each partition once."""
        shares = sorted((share for share in self._by_share if share <= self._wanted), key=_largest_first)
        chosen = _cover(shares, frozenset().union(*shares))
        if chosen is None:  # the nodes' partitions overlap
            chosen = []
            for share in shares:
                if not any(share & other for other in chosen):
                    chosen.append(share)
        assert sum(map(len, chosen)) == len(frozenset().union(*chosen)), "no partition is answered for twice"
        return self._ranked(chosen)

    def _ranked(self, chosen: Iterable[Share]) -> list[Route]:
        return [Route(min(self._by_share[share], key=self._rank), share) for share in chosen]  # type: ignore[arg-type]


def partitions_of(topics: Mapping[str, int]) -> Share:
    """Return all partitions of topics with these numbers of partitions."""
    return frozenset((name, number) for name, count in topics.items() for number in range(count))


def holder(
    nodes: Collection[Announcement], topic: str, number: int, rank: Rank, avoid: Collection[str] = ()
) -> Announcement:
    """Return a node that holds one partition; raise `shard unavailable` if none does."""
    found = [node for node in nodes if node.url not in avoid and (topic, number) in node.share([topic])]
    if not found:
        raise unavailable(frozenset({(topic, number)}))
    return min(found, key=rank)  # type: ignore[arg-type]


def _largest_first(share: Share) -> tuple[int, list[TopicPartition]]:
    return -len(share), sorted(share)


def _cover(shares: Sequence[Share], wanted: Share) -> list[Share] | None:
    """Return shares that do not overlap and together are `wanted`; None if they don't exist."""
    shares = [share for share in shares if share <= wanted]
    if frozenset().union(*shares) != wanted:
        return None
    chosen: list[Share] = []
    for some in _components(shares):
        found = _exact_cover(some, frozenset().union(*some), set())
        if found is None:
            return None
        chosen += found
    return chosen


def _components(shares: Sequence[Share]) -> list[list[Share]]:
    """Return groups of shares such that no share overlaps with one of another group."""
    # Without this, two generations of n and 2n shards would have 2 to the power of n covers to try.
    groups: list[tuple[Share, list[Share]]] = []
    for share in shares:
        touched = [group for group in groups if group[0] & share]
        groups = [group for group in groups if not group[0] & share]
        held = share.union(*(held for held, _ in touched))
        groups.append((held, [share, *(one for _, some in touched for one in some)]))
    assert sum(len(some) for _, some in groups) == len(shares), "each share is in one group"
    return [sorted(some, key=_largest_first) for _, some in groups]


def _exact_cover(shares: Sequence[Share], wanted: Share, failed: set[Share]) -> list[Share] | None:
    """Return shares that do not overlap and together are `wanted`, tried in order; `failed` have no such shares."""
    if not wanted:
        return []
    if wanted in failed or len(failed) > FAILED_MAX:
        return None
    # One of the shares must cover it: the others need not be tried at this level.
    first = min(wanted)
    for share in shares:
        if first in share and share <= wanted:
            rest = _exact_cover(shares, wanted - share, failed)
            if rest is not None:
                return [share, *rest]
    # Without this, the same rest is searched again in each order in which the shares before it can be chosen.
    failed.add(wanted)
    return None


def unavailable(missing: Share) -> SowlineError:
    """Return the error for partitions that no node answers for; without any, the nodes' partitions overlap."""
    if not missing:
        return SowlineError(
            UNAVAILABLE,
            "all partitions are held, but only by query services whose partitions overlap: the number of shards is"
            " changing. Retry when all shards of one number are ready",
        )
    listed = "; ".join(f"{name} {', '.join(map(str, held))}" for name, held in by_topic(missing).items())
    return SowlineError(
        UNAVAILABLE,
        f"no query service answers for these partitions now: {listed}. Retry later, or start their shards",
    )


def by_topic(share: Share) -> dict[str, list[int]]:
    """Return the numbers of partitions by topic."""
    numbers: dict[str, list[int]] = defaultdict(list)
    for name, number in sorted(share):
        numbers[name].append(number)
    return dict(numbers)
