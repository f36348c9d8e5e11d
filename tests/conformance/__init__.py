"""The conformance corpus: where it is, how a case of each kind is asked, and what is known to differ."""

from tests.conformance.corpus import cases, corpus

__all__ = ["cases", "corpus"]
