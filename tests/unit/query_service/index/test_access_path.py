"""Access paths: rows that are known to match, and rows that a filter must still check."""

import numpy as np

from sowline.language.filter import compile_filter
from sowline_query_service.index.access_path import HASH_INDEX, SCAN, AccessPath

ONE, OTHER = compile_filter("/a = 1"), compile_filter("/b = 1")


def test_a_path_without_rows_finds_nothing() -> None:
    """Two paths share no rows."""
    path = AccessPath(SCAN)
    assert (path.decided.tolist(), path.checks, path.keys) == ([], [], None)
    path.checks.append((np.array([1]), ONE))
    assert AccessPath(SCAN).checks == []


def test_rows_can_be_left_out() -> None:
    """Of those that are decided, and of each filter's; all else stays."""
    path = AccessPath(
        HASH_INDEX,
        np.array([0, 2, 4]),
        [(np.array([1, 3]), ONE), (np.array([5]), OTHER)],
        index="/a",
        note="n",
    )
    left = path.without(np.array([2, 3, 5]), 6)
    assert left.decided.tolist() == [0, 4]
    assert [(rows.tolist(), filter) for rows, filter in left.checks] == [([1], ONE), ([], OTHER)]
    assert (left.name, left.index, left.note) == (HASH_INDEX, "/a", "n")
    assert path.decided.tolist() == [0, 2, 4]
