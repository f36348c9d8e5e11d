"""The imports that need no reference compile, and mean what Confluent's and Google's own files mean."""

import re

from confluent_kafka.schema_registry.confluent import meta_pb2
from confluent_kafka.schema_registry.confluent.type import decimal_pb2, variant_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from sowline.codecs.codec import codec_of
from sowline.codecs.protobuf import compiled
from sowline.codecs.protobuf.built_in_imports import built_in_imports
from sowline.codecs.schema import Schema


def test_built_in_imports() -> None:
    """Each compiles; the ones that are ours have the names and numbers that Confluent's client has."""
    imports = "".join(f'import "{name}"; ' for name in built_in_imports())
    text = f'syntax = "proto3"; {imports} message R {{ int32 n = 1; }}'
    files = {file.name: file for file in compiled._files(text, ())}
    for module in (meta_pb2, decimal_pb2, variant_pb2):
        theirs = FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
        ours = files[theirs.name]
        for file in (theirs, ours):
            file.ClearField("options")
        assert re.sub(r"\s+json_name: .*", "", str(ours)) == str(theirs)
    codec_of(Schema("protobuf", text))
