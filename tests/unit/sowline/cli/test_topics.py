"""`sowline topics` on a terminal: a table that hides nothing that is not known."""

from sowline.cli.reading import topics_table

ORDERS = {
    "name": "orders",
    "sow": True,
    "loading": False,
    "records": 12_345,
    "lag": 28_589,
    "lag_seconds": 3.21,
    "newest_seconds": 0.4,
    "subscriptions": 3,
}


def test_topics_are_a_table_on_a_terminal() -> None:
    """Columns are aligned; a topic without a SOW has no number of records."""
    ticks = ORDERS | {"name": "ticks", "sow": False, "lag": 0, "lag_seconds": 0.0, "newest_seconds": None}
    assert topics_table([ORDERS, ticks]) == [
        "TOPIC   STATE  RECORDS     LAG  LAG S  NEWEST S  SUBSCRIPTIONS",
        "orders  ready   12,345  28,589    3.2       0.4              3",
        "ticks   ready        -       0    0.0         -              3",
    ]


def test_an_unknown_lag_is_no_number() -> None:
    """While a topic is loaded, nothing is known."""
    loading = ORDERS | {"loading": True, "lag": None, "lag_seconds": None}
    assert topics_table([loading])[1] == "orders  loading   12,345    -      -       0.4              3"
