"""The message functions: names for facts that only a record's metadata has."""

from sowline.language.filter.functions.message import FUNCTIONS
from sowline.language.filter.metadata import Metadata


def test_each_function_names_a_fact() -> None:
    """Each fact is a member of the metadata, or the hash of the SOW key."""
    facts = {function.fact for function in FUNCTIONS}
    assert facts - {*Metadata._fields} == {"sow_key_hash"}
    assert len(facts) == len(FUNCTIONS)


def test_a_fact_is_unknown_without_metadata() -> None:
    """A document alone knows none of them: all are NULL."""
    assert [function.applied_to(0)() for function in FUNCTIONS] == [None] * len(FUNCTIONS)


def test_only_reading_changes_a_fact_without_a_write() -> None:
    """LAST_READ is the one that differs between two queries of an unchanged record."""
    assert [function.name for function in FUNCTIONS if not function.deterministic] == ["LAST_READ"]
