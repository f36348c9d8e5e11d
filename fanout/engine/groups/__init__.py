"""Aggregation: the groups of a topic's records, kept up to date change by change (`docs/aggregation.md`)."""

from fanout.engine.groups.engine import GroupChange, Groups

__all__ = ["GroupChange", "Groups"]
