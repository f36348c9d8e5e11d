"""Every function has one name, and other spellings lead to it."""

import pytest

from sowline.language.filter.functions.catalog import ALIASES, FUNCTIONS, canonical_name


@pytest.mark.parametrize(
    ("written", "canonical"),
    [("upper", "UPPER"), ("Amps_Group_Name", "GROUP_NAME"), ("no_such", "NO_SUCH")],
)
def test_names_have_one_spelling(written: str, canonical: str) -> None:
    """In upper case, without an alias; whether there is such a function is not asked."""
    assert canonical_name(written) == canonical


def test_each_alias_leads_to_a_function() -> None:
    """And is none itself."""
    assert set(ALIASES.values()) <= FUNCTIONS.keys()
    assert not ALIASES.keys() & FUNCTIONS.keys()


def test_each_function_stands_under_its_own_name() -> None:
    """Which is canonical."""
    assert {name: function.name for name, function in FUNCTIONS.items()} == {name: name for name in FUNCTIONS}
    assert [name for name in FUNCTIONS if canonical_name(name) != name] == []
