"""The effect of a write on a document, under the name that `docs/emodb.md` gives to other programs."""

from sowline.language.emodb.fold import fold

__all__ = ["fold"]
