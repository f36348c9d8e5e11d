"""The partitions of a shard: together all shards hold each partition once."""

import pytest
from hypothesis import given
from hypothesis.strategies import integers, text

from sowline.config.settings import read_settings
from sowline.config.shard import WHOLE, Shard, read_shard
from sowline.config.topic_definition import TopicDefinition
from sowline.config.topics import parse_topics

CHARACTERS = "abcdefghijklmnopqrstuvwxyz0123456789-."


def topic(name: str, partitions: int) -> TopicDefinition:
    """Return the definition of a topic."""
    return parse_topics(f"topics: [{{name: {name}, key: /id, partitions: {partitions}}}]").topics[0]


@given(text("abcxyz", min_size=1, max_size=20), integers(1, 64), integers(1, 20))
def test_each_partition_is_in_one_shard(name: str, partitions: int, count: int) -> None:
    """No partition is missing and none is held twice; the sizes of two shards differ by one at most."""
    definition = topic(name, partitions)
    held = [Shard(number, count).partitions(definition) for number in range(count)]
    assert sorted(partition for one in held for partition in one) == list(range(partitions))
    assert max(map(len, held)) - min(map(len, held)) <= 1


def test_the_partitions_are_those_of_the_documentation() -> None:
    """The rule is part of the contract: a change of it would move partitions between running nodes."""
    # h("orders") is 0x9d76f3171970f186, computed once: printf orders | b2sum, its first 16 digits.
    assert int("9d76f3171970f186", 16) % 8 == 6
    assert Shard(2, 8).partitions(topic("orders", 16)) == [4, 12]
    assert WHOLE.partitions(topic("orders", 3)) == [0, 1, 2]


def test_topics_with_one_partition_are_spread() -> None:
    """Of many topics with one partition, each shard holds some."""
    held = [Shard(number, 4).partitions(topic(f"t{n}", 1)) for number in range(4) for n in range(40)]
    assert all(sum(map(len, held[number * 40 : number * 40 + 40])) >= 4 for number in range(4))


@pytest.mark.parametrize(
    "text", ["", "1", "1/", "/4", "4/4", "-1/4", "0/0", "0/1025", "a/b", "1/4/2", "1 / 4"]
)
def test_what_is_no_shard_is_refused(text: str) -> None:
    """With what was expected and what came."""
    with pytest.raises(ValueError, match="expected a shard"):
        read_shard(text)


def test_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read as text, and everything is held without it."""
    assert read_settings().shard is WHOLE
    monkeypatch.setenv("SOWLINE_SHARD", "2/8")
    assert read_settings().shard == Shard(2, 8)
    assert str(Shard(2, 8)) == "2/8"
