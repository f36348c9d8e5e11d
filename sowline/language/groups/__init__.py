"""Aggregation: the groups of a topic's records, kept up to date change by change (`docs/aggregation.md`)."""

from sowline.language.groups.engine import GroupChange, Groups, GroupStates
from sowline.language.groups.merged import MergedGroups

__all__ = ["GroupChange", "GroupStates", "Groups", "MergedGroups"]
