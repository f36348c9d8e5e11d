"""The changelog has the shape of Keep a Changelog: the newest version first, kinds of change in one order."""

import re

from tests.docs.pages import text_of

CHANGELOG = text_of("docs/changelog.md")
KINDS = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]
"""In the order of https://keepachangelog.com."""


def _headings(level: str, text: str) -> list[str]:
    """Return the headings of a level."""
    return re.findall(rf"^{level} (.+)$", text, re.MULTILINE)


def test_versions_are_dated_but_the_next() -> None:
    """A reader sees what is released, and when."""
    unreleased, *released = _headings("##", CHANGELOG)
    assert unreleased == "Unreleased"
    assert [one for one in released if not re.fullmatch(r"\d+\.\d+\.\d+ - \d{4}-\d\d-\d\d", one)] == []


def test_kinds_of_change_are_in_order() -> None:
    """Each kind stands once in a version, where a reader looks for it."""
    for version in re.split(r"^## ", CHANGELOG, flags=re.MULTILINE)[1:]:
        found = _headings("###", version)
        assert found == [kind for kind in KINDS if kind in found]


def test_every_line_belongs_to_a_change() -> None:
    """A change is an item that ends as a sentence does."""
    _, *sections = re.split(r"^### .+$", CHANGELOG, flags=re.MULTILINE)
    assert sections
    for section in sections:
        first, *changes = re.split(r"^- ", section, flags=re.MULTILINE)
        assert first.strip() == ""
        assert changes
        assert [change for change in changes if not re.search(r"[.:)]\Z", change.strip())] == []
        loose = [line for change in changes for line in change.splitlines()[1:] if line and line[0] != " "]
        assert loose == []
