"""The codec of BSON messages: `BsonCodec`. pymongo's `bson` converts bytes.

`values` has the values that JSON lacks, by the names of MongoDB Extended JSON v2.
"""

from sowline.codecs.bson.codec import BsonCodec

__all__ = ["BsonCodec"]
