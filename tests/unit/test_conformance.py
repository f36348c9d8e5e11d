"""The conformance corpus is where the tests look for it, and whole."""

from pathlib import Path

import pytest

from tests.conformance import cases, corpus

KINDS = {"delta", "condition", "canonical", "parse_error"}


@pytest.fixture
def directory() -> Path:
    """The corpus, which lies beside the clone or where SOWLINE_CONFORMANCE says."""
    found = corpus()
    if found is None:
        pytest.skip("no conformance corpus beside the clone; SOWLINE_CONFORMANCE names its directory")
    return found


def test_every_case_is_of_a_known_kind_and_has_an_id_of_its_own(directory: Path) -> None:
    """The cases of the corpus are what the tests of the delta language will ask."""
    found = list(cases(directory, "emodb-cases.jsonl"))
    assert {case["kind"] for case in found} == KINDS
    assert len({case["id"] for case in found}) == len(found) > 1000


def test_the_variable_comes_before_the_place_beside_the_clone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever keeps the corpus elsewhere says so once."""
    monkeypatch.setenv("SOWLINE_CONFORMANCE", str(tmp_path))
    assert corpus() == tmp_path
    monkeypatch.setenv("SOWLINE_CONFORMANCE", str(tmp_path / "nowhere"))
    assert corpus() is None
