"""Indexes of a topic's records: columns with the values of one path, filters over columns, and hash indexes.

Each record has a row, 0 to n - 1; rows are reused. An index may return more rows than match, or rows that it can't
decide: the filter always decides about these. For use by one thread at a time.
"""
