"""The partitions that a look-up by SOW keys needs. Pure."""

from collections.abc import Mapping, Sequence

from sowline.config.command_key import owner_of
from sowline.config.topic_definition import TopicDefinition
from sowline.wire.request import Read
from sowline_gateway.nodes.routing import Share, partitions_of

KEYS_MAX = 1000
"""For more keys, all partitions are asked: most of them have one, and finding the owners would take long."""


def partitions_of_keys(
    definitions: Mapping[str, TopicDefinition], request: Read, topics: Sequence[str]
) -> Share | None:
    """Return the partitions that own the SOW keys of a request for current records; None if any may have records.

    A SOW key from a publisher or a key generator is the key text, which determines the partition. One that is made
    from key fields is a hash of it.
    """
    keys = request.sow_keys
    # The positions of a past instant are known to the nodes only, and its bookmark has those of all partitions.
    if not keys or len(keys) > KEYS_MAX or request.bookmark:
        return None
    needed: Share = frozenset()
    for name in topics:
        definition = definitions[name]
        # Only these SOW keys are key texts: hashes would be taken for other keys, and the records be missing.
        if definition.has_sow and not definition.key_paths:
            needed |= {(name, owner_of(definition, key)) for key in keys}
        else:
            needed |= partitions_of({name: definition.partitions})
    return needed
