"""The report of untested lines is about the packages that are pure, and floors hold."""

from pathlib import Path

import pytest

from tests import untested

ROOT = Path(__file__).parents[2]


def test_pure_files_are_those_of_the_contract() -> None:
    """Each pattern names a package or a module that exists."""
    patterns = untested.pure_files()
    assert {
        "sowline/model/*",
        "sowline/language/*",
        "materializer/sowline_materializer/core/*",
        "sowline/subscriptions/engine/*",
    } <= {*patterns}
    assert [pattern for pattern in patterns if not any(ROOT.glob(pattern))] == []


@pytest.mark.parametrize(
    ("share", "share_pure", "code"), [(0, 0, 0), (-0.01, 0, 1), (0, -0.01, 1)], ids=["held", "all", "pure"]
)
def test_floors(share: float, share_pure: float, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Below either, the exit code is 1."""
    given = (untested.FLOOR + share, untested.FLOOR_PURE + share_pure)
    assert untested.verdict(*given) == code
    assert (
        f"{given[1]:.2f} % of the pure packages (at least {untested.FLOOR_PURE})" in capsys.readouterr().out
    )
