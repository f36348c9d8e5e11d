"""The error of a text that is not a filter."""

from sowline.errors import SowlineError
from tests.unit.sowline.language.filter.refusals import refusal


def test_a_filter_error_is_a_sowline_error() -> None:
    """A FilterError has the reason code `bad filter`, a column, and the sentence as its text."""
    error = refusal("/a = 1 AND")
    assert isinstance(error, SowlineError)
    assert (error.reason, error.column) == ("bad filter", 11)
    assert str(error) == "expected an operand after AND at column 11, got end of filter"
