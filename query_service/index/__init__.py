"""Indexes of a topic's records, all derived: columns of one path's values, filters over them, hash indexes.

A record stands in a row, 0 to n - 1; rows are reused. Every index may answer with more rows than match, or
name rows it can't decide: the filter's closure always has the last word. One thread at a time.
"""
