"""Aggregation: the groups of a topic's records, kept up to date change by change (`docs/aggregation.md`)."""

from sowline.groups.engine import GroupChange, Groups, GroupStates
from sowline.groups.merged import MergedGroups

__all__ = ["GroupChange", "GroupStates", "Groups", "MergedGroups"]
