"""What a gateway describes of a topic, from what its nodes announce."""

import pytest

from sowline_gateway.server.topics import reflected_by_all


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (["orders:0@5,1@7", "orders:0@6,1@3"], "orders:0@5,1@3"),
        (["orders:0@5,1@7;customers:0@2", "orders:0@6;customers:0@1,1@4"], "orders:0@5;customers:0@1"),
        (["orders:0@5;customers:0@2", "orders:0@6"], "orders:0@5"),
        (["orders:0@5", None], None),
        (["orders:0@5", "customers:0@1"], None),
        ([], None),
    ],
)
def test_all_parts_of_a_view_reflect_what_is_described(parts: list[str | None], expected: str | None) -> None:
    """Of each topic that the view reads, the lowest position of each partition that all parts have."""
    assert reflected_by_all(parts) == expected
