"""What a write does to a document, by the name that `docs/emodb.md` gives to programs outside."""

from sowline.language.emodb.fold import fold

__all__ = ["fold"]
