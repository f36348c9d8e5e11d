"""The codecs of composite messages, which consist of parts of other types.

A message is its parts in their order, each after its length in 4 bytes, big-endian. `CompositeLocalCodec` has the
parts of a record by their numbers, `CompositeGlobalCodec` the fields of all parts in one object.
"""

from sowline.codecs.composite.global_fields import CompositeGlobalCodec
from sowline.codecs.composite.local_parts import CompositeLocalCodec

__all__ = ["CompositeGlobalCodec", "CompositeLocalCodec"]
