"""The positions that an answer must have reached, so that each query service can judge its part.

A record of a view may be in another partition than the record that it is computed from, and then often at another
query service. So a query service knows what a topic reflects only of the topics that it reads, and not of those from
which these are computed in turn. The gateway asks for the positions of the views between.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping

from sowline.config.reading_chains import chains_to
from sowline.config.topic_definition import TopicDefinition
from sowline.model.bookmark import Positions, PositionsByLog
from sowline_gateway.query.seen import newest

PositionsOf = Callable[[str, Mapping[str, Positions]], Awaitable[PositionsByLog]]
"""Returns the positions of a topic, once it has reached a floor."""


def views_between(topics: Mapping[str, TopicDefinition], names: Collection[str], log: str) -> list[str]:
    """Return the views that `names` read, and that are computed from the topic with this log."""
    chains = (chain for name in names for chain in chains_to(topics, topics[name], log))
    return list(dict.fromkeys(chain[-2].name for chain in chains if len(chain) > 2))


async def with_views_between(
    topics: Mapping[str, TopicDefinition],
    names: Collection[str],
    floor: Mapping[str, Positions],
    positions_of: PositionsOf,
) -> PositionsByLog:
    """Return a floor of some topics, with the positions of the views between them and the logs of the floor."""
    # Copies: the floor has the client's own positions, which its other commands advance while this one waits.
    found: PositionsByLog = {log: dict(held) for log, held in floor.items()}
    # Every query runs this. With hundreds of topics, checking each topic for each log would hold up other queries.
    computed = [name for name in names if _reads_views(topics, name)]
    for log, held in floor.items() if computed else ():
        for view in views_between(topics, computed, log):
            found = newest(found, await positions_of(view, {log: held}))
    return found


def _reads_views(topics: Mapping[str, TopicDefinition], name: str) -> bool:
    view = topics[name].view
    return view is not None and any(topics[read].view is not None for read in view.read_topics)
