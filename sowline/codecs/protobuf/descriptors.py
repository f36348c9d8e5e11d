"""The message types of a compiled Protobuf schema. No I/O."""

from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final

from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message

from sowline.codecs.errors import bad_message, bad_schema
from sowline.codecs.protobuf.fields import messages_below

MAIN: Final = "sowline-schema.proto"
"""The file that has the schema's own text; all others are its imports."""


class ProtobufSchema:
    """A compiled schema: the descriptors of a file and all its imports, in a separate pool."""

    def __init__(self, files: Iterable[FileDescriptorProto]) -> None:
        self._pool = DescriptorPool()
        for file in files:
            # Extensions stay unknown fields: they are kept, and JSON has no names for them.
            _remove_extensions(file)
            self._pool.AddSerializedFile(file.SerializeToString())
            if file.name == MAIN:
                self._file = file
        # The pool reports some errors only when descriptors are used.
        self._pool.FindFileByName(MAIN)

    def message(self, name: str) -> Descriptor:
        """Return the message with a name, with or without the package of the file; raise `bad schema`.

        Without a name it is the first one of the file.
        """
        if not name and not self._file.message_type:
            raise bad_schema("expected a schema with a message, got one without messages")
        for full_name in (self._qualified([name or self._file.message_type[0].name]), name):
            with suppress(KeyError):
                return self._pool.FindMessageTypeByName(full_name)
        raise bad_schema(f"expected a schema with the message {name}, got none")

    def message_at(self, indexes: tuple[int, ...]) -> Descriptor:
        """Return the message at a path of indexes; raise `bad message` if the file has none there."""
        messages: Any = self._file.message_type
        names = []
        for index in indexes:
            if not 0 <= index < len(messages):
                raise bad_message(f"expected message indexes of the writer schema, got {list(indexes[:10])}")
            names.append(messages[index].name)
            messages = messages[index].nested_type
        return self._pool.FindMessageTypeByName(self._qualified(names))

    def _qualified(self, names: list[str]) -> str:
        return ".".join([self._file.package, *names] if self._file.package else names)


def message_class(message: Descriptor) -> Any:
    """Return the class of a message type, after making those of all types below it."""
    # The library's own function is recursive: a long chain of types would overflow the stack.
    first, *_ = [_class_of(one) for one in messages_below(message)]
    return first


def _class_of(message: Descriptor) -> Any:
    known = getattr(message, "_concrete_class", None)
    if known is not None:
        return known
    meta: Any = type(FileDescriptorProto)
    return meta(message.name, (Message,), {"DESCRIPTOR": message, "__module__": None})


def _remove_extensions(file: FileDescriptorProto) -> None:
    file.ClearField("extension")
    pending: list[DescriptorProto] = list(file.message_type)
    while pending:
        message = pending.pop()
        message.ClearField("extension")
        pending.extend(message.nested_type)
