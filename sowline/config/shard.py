"""The partitions of each topic that a query service holds, if several share the topics. No I/O.

Shard `k/n` holds the partitions `p` of a topic for which `(p + h(topic)) mod n = k`; `k` counts from zero. `h`
spreads topics with few partitions over the shards. It is an integer: the first 8 bytes of the BLAKE2b hash of the
topic's name, most significant byte first.
"""

from dataclasses import dataclass
from hashlib import blake2b

from sowline.config.topic_definition import TopicDefinition

SHARDS_MAX = 1024


@dataclass(frozen=True, slots=True)
class Shard:
    """One of `count` shards; the default holds everything."""

    number: int = 0
    count: int = 1

    @property
    def is_whole(self) -> bool:
        """Whether it holds all partitions of all topics."""
        return self.count == 1

    def partitions(self, topic: TopicDefinition) -> list[int]:
        """Return the partitions of a topic that the shard holds, in ascending order; possibly none."""
        # The length is a parameter of BLAKE2b: a hash of 8 bytes differs from the first 8 of 64. Nodes would disagree
        # about who holds a partition (test_the_partitions_are_those_of_the_documentation).
        shift = int.from_bytes(blake2b(topic.name.encode(), digest_size=64).digest()[:8])
        return [p for p in range(topic.partitions) if (p + shift) % self.count == self.number]

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"


WHOLE = Shard()


def read_shard(text: str) -> Shard:
    """Return the shard that a setting names, such as `2/8`; raise `ValueError` if it is none."""
    number, slash, count = text.partition("/")
    if not (slash and number.isascii() and number.isdecimal() and count.isascii() and count.isdecimal()):
        raise ValueError(f"expected a shard such as 0/4, got {text!r}")
    shard = Shard(int(number), int(count))
    if not 1 <= shard.count <= SHARDS_MAX or shard.number >= shard.count:
        raise ValueError(
            f"expected a shard k/n with n from 1 to {SHARDS_MAX} and k from 0 to n - 1, got {text!r}"
        )
    return shard
