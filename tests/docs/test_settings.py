"""Each setting is given in a test: one that no test sets may have no effect any more, and nobody would see it."""

import re

import pytest

from sowline.config.settings import Settings
from tests.docs.test_comments import ROOT

LEFT_OUT = {"docs", "chart", "typing"}
"""Directories of tests that name settings and do not try them."""

TEXTS = "\n".join(
    path.read_text()
    for path in sorted((ROOT / "tests").rglob("*.py"))
    if path.relative_to(ROOT / "tests").parts[0] not in LEFT_OUT
)


def is_given(name: str, text: str) -> bool:
    """Whether a text gives a setting: as a field, as a variable, or as an option of a command."""
    forms = (
        rf"\b{name}=(?!=)",
        rf'"{name}": ',
        rf'"{name.upper()}"',
        rf"\bSOWLINE_{name.upper()}\b",
        rf"--{name.replace('_', '-')}\b",
    )
    return any(re.search(form, text) for form in forms)


def test_each_setting_is_given_in_a_test() -> None:
    """Give a new one in a test that shows what it changes."""
    missing = [name for name in Settings.model_fields if not is_given(name, TEXTS)]
    assert not missing, f"expected a test that gives the setting and shows its effect, got none of {missing}"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Settings(ring_bytes_max=1)", True),
        ('{"ring_bytes_max": 1}', True),
        ('setenv("SOWLINE_RING_BYTES_MAX", "1")', True),
        ('run("--ring-bytes-max", 1)', True),
        ("assert settings.ring_bytes_max == 1", False),
        ("Ring(spare_ring_bytes_max=1)", False),
    ],
)
def test_what_gives_a_setting(text: str, found: bool) -> None:
    """Its value; its name alone does not."""
    assert is_given("ring_bytes_max", text) is found
