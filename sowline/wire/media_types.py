"""The media types of HTTP bodies that are neither JSON nor plain text."""

from typing import Final

NATIVE: Final = "application/vnd.sowline.native"
"""One message in the message type of its topic, as it is on Kafka; for a topic of JSON that is JSON."""
