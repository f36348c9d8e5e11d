"""Message type `protobuf`: the codec between Protobuf's wire format and canonical JSON."""

from sowline.codecs.protobuf.codec import ProtobufCodec

__all__ = ["ProtobufCodec"]
