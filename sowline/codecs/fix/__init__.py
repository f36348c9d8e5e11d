"""Message types `fix` and `nvfix`: fields of the form `tag=value` with a separator after each."""

from sowline.codecs.fix.codec import FixCodec, NvfixCodec
from sowline.codecs.fix.dictionary import read_dictionary, read_value_names

__all__ = ["FixCodec", "NvfixCodec", "read_dictionary", "read_value_names"]
