"""The media types of HTTP bodies that are neither JSON nor plain text."""

from typing import Final

NATIVE: Final = "application/vnd.sowline.native"
"""One message in the message type of its topic, as it is on Kafka; for a topic of JSON that is JSON."""

ARROW: Final = "application/vnd.apache.arrow.stream"
"""A table, as a stream in the IPC format of Apache Arrow."""

ARROW_MESSAGE: Final = b"\xff\xff\xff\xff"
"""The beginning of each message of such a stream; its length follows in four bytes."""

ARROW_END: Final = ARROW_MESSAGE + bytes(4)
"""The end of a whole stream."""
