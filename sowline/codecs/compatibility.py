"""Whether messages with a schema can be read under a reader schema."""

from dataclasses import replace

from sowline.codecs.codec import codec_of
from sowline.codecs.schema import Schema
from sowline.errors import SowlineError


def why_unreadable(reader: Schema, writer: Schema) -> str:
    """Return why the reader schema can't read all messages with a writer schema; empty if it can.

    A registry's Protobuf schema does not name a message: then it is the one that the reader schema names. Raise
    `bad configuration` if the library that reads the message type is not installed, and `bad schema` for a reader
    schema that is not valid.
    """
    if writer.type != reader.type:
        return f"expected a schema of {reader.type}, got one of {writer.type}"
    codec = codec_of(reader)
    try:
        # Without the name, the first message of the file would be compared, which may be another one
        # (test_a_writer_without_a_message_has_that_of_the_reader).
        codec.check_reads(writer if writer.message else replace(writer, message=reader.message))
    except SowlineError as error:
        return error.message
    return ""
