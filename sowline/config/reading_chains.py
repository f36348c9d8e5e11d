"""How topics are computed from each other: chains from a topic over the views that read it. Pure."""

from collections.abc import Iterator, Mapping

from sowline.config.topic_definition import TopicDefinition


def chains_to(
    topics: Mapping[str, TopicDefinition], topic: TopicDefinition, log: str
) -> Iterator[list[TopicDefinition]]:
    """Yield each chain of the topic with this log, a view that reads it, and so on up to `topic`.

    There are several if a view reads the topic more than once: as its source, and through joins.
    """
    if topic.log == log:
        yield [topic]
        return
    for name in () if topic.view is None else topic.view.read_topics:
        for chain in chains_to(topics, topics[name], log):
            yield [*chain, topic]
