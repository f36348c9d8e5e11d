"""What an index of subscriptions finds, as tests compare it."""

from operator import itemgetter

from sowline.language.filter import UNKNOWN, Metadata
from sowline.model.path import Document
from sowline.subscriptions.engine.matching.entry import T
from sowline.subscriptions.engine.matching.index import SubscriptionIndex


def matching(index: SubscriptionIndex[T], document: Document, about: Metadata = UNKNOWN) -> list[T]:
    """Return the items whose filter matches the record, in the order in which they were added."""
    found = [pair for entry in index.true_of(document, about) for pair in entry.items.items()]
    return [item for item, _ in sorted(found, key=itemgetter(1))]
