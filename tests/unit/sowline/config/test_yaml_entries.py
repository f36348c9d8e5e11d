"""Entries that are inserted into a YAML file, and taken out again."""

import pytest
import yaml

from sowline.config.yaml_entries import with_entries, without_entries
from sowline.errors import SowlineError

ADDED = {"topics": [{"name": "a", "key": "/id"}, {"name": "b", "key": "/id"}], "views": [{"name": "v"}]}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "topics:\n- {name: own, key: /id}\n",
        "# mine\ntopics:  # all\n  # the first\n  - name: own\n    key: /id\n\n# the end",
        "views:\n  - name: w\ntopics: [{name: own, key: /id}]\n",
        "topics: []\nviews: []\n",
        '{"topics": [{"name": "own"}], "views": []}\n',
    ],
)
def test_any_layout(text: str) -> None:
    """The entries are in the lists, and everything else stays."""
    given = yaml.safe_load(text) or {}
    found, parts = with_entries(text, ADDED)
    assert yaml.safe_load(found) == given | {
        name: [*entries, *given.get(name, [])] for name, entries in ADDED.items()
    }
    assert without_entries(found, parts) == text


def test_a_file_that_was_changed_meanwhile() -> None:
    """Keeps the changes of others."""
    found, parts = with_entries("topics:\n- {name: own}\n", ADDED)
    assert without_entries(found + "fanouts: []\n", parts) == "topics:\n- {name: own}\nfanouts: []\n"


@pytest.mark.parametrize(
    "text", ["topics: none\n", "topics:\nviews: []\n", "- a\n", "{", '{"topics": []}\n', "topics: []\n...\n"]
)
def test_another_layout(text: str) -> None:
    """Is refused, not guessed at."""
    with pytest.raises(SowlineError, match="expected YAML with room for more topics, views"):
        with_entries(text, ADDED)


def test_entries_that_are_gone() -> None:
    """The error shows them."""
    with pytest.raises(SowlineError, match="once in the file, got it 0 times"):
        without_entries("topics: []\n", ["- {}\n"])
