"""Finds those of many filters that are TRUE for a document, at little more than the cost of these.

Nearly every filter of a live subscription is a conjunction with an equality in it (`/ticker = 'X' AND /price >
10`). Those equalities are a hash table: a document's value leads to the bucket of the filters that want it.
Inside a bucket, one vector operation compares the ranges of all filters. If neither can decide, the filter itself
does. The answer therefore always equals that of trying every filter.
"""

from sowline.subscriptions.engine.matching.index import SubscriptionIndex
from sowline.subscriptions.engine.matching.live import LiveSubscriptions

__all__ = ["LiveSubscriptions", "SubscriptionIndex"]
