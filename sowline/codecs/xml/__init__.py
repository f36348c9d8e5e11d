"""The codec of XML messages: `XmlCodec`. Expat, of Python's standard library, parses them; the rest is here.

`nodes` says which JSON members stand for which nodes, `options` has what a topic sets, `reading` turns XML into
canonical JSON, `writing` turns JSON into XML, and `merging` applies a delta by element path.
"""

from sowline.codecs.xml.codec import XmlCodec

__all__ = ["XmlCodec"]
