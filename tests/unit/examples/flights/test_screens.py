"""The names of the screens that are taken before a release."""

from examples.flights.screens import chosen


def test_screens_are_chosen_by_their_names() -> None:
    """With wildcards; without any name, each screen is taken once."""
    everything = chosen([])
    assert len({*everything}) == len(everything)
    light, dark = "landing-1440-light-healthy", "landing-1440-dark-healthy"
    assert chosen(["landing-1440-*-healthy"]) == [light, dark]
    assert chosen([dark]) == [dark]
    assert chosen(["*"]) == everything
    assert chosen(["harbor-*"]) == []
