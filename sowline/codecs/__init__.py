"""Message types other than JSON: codecs between the bytes of a message and the canonical JSON that the SOW holds."""
