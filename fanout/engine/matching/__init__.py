"""Which of many filters are TRUE of a document, for little more than the price of those that are.

Nearly every filter of a live subscription is a conjunction with an equality in it (`/ticker = 'X' AND /price >
10`). Those equalities are a hash table: a document's value leads to the bucket of the filters that want it.
Inside a bucket the ranges of all filters are compared at once. What neither can decide is asked of the filter
itself, so that the answer is always exactly that of trying every filter.
"""

from fanout.engine.matching.index import SubscriptionIndex
from fanout.engine.matching.live import LiveSubscriptions

__all__ = ["LiveSubscriptions", "SubscriptionIndex"]
