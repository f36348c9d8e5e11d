"""Plain English: pages, docstrings, comments and messages keep the rules of `tests/docs/prose.py`."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import tracked
from tests.docs.prose import (
    WORDS_OF_PAGES_MAX,
    Sentence,
    faults,
    modules,
    of_module,
    of_page,
    pages,
    sentences,
    sentences_of,
    summary,
    syllables,
    words_of_pages,
)

ROOT = Path(__file__).parents[2]
NAMES = (
    "atLeast",
    "cancelled",
    "cancelling",
    "acknowledgement",
    "acknowledgements",
    "initialised",
    "moddel",
    "organisation",
    "thn",
)
"""Words that stay: those of Python, Kafka and Ivy, the name of a file that stores have, and typos that are examples.
"""


def test_prose_keeps_the_rules() -> None:
    """Sentences that a reader understands at once."""
    found = list(sentences([*pages(), *modules()]))
    assert {sentence.kind for sentence in found} == {"page", "docstring", "comment", "message"}
    wrong = [fault for sentence in found for fault in faults(sentence)]
    assert not wrong, "\n".join(wrong)


def test_prose_is_spelled_as_americans_do() -> None:
    """As that of Kafka and Spark."""
    files = tracked("*.md", "*.py", "*.js", "*.css", "*.yaml", "*.yml", "*.toml", "*.tpl")
    own = [name for name in files if "/vendor/" not in name and "/console/built/" not in name]
    assert len(own) > 500
    options = ["--builtin", "clear,en-GB_to_en-US", "--ignore-words-list", ",".join(NAMES)]
    spelled = subprocess.run(
        [sys.executable, "-m", "codespell_lib", *options, *own], cwd=ROOT, capture_output=True, text=True
    )
    assert spelled.returncode == 0, spelled.stdout


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("word " * 36 + "ends.", "words, expected at most 35"),
        ("It is sent when it was read and has been kept.", "passives"),
        ("Of an error that the client has raised, there is nothing.", "inverted opener"),
        ("It takes what is said of a partition.", "nominal relative"),
        ("The copy is let be.", "private dialect"),
        ("It waits 5 s at the most.", "private dialect"),
        ("It ends after so many tries.", "so many"),
        ("Use such names as these.", "such … as"),
        ("Of a view: its source.", "fronted object"),
        ("The last one; of a view, its source.", "fronted object"),
        ("What it writes is lost.", "nominal opener"),
        ("Return all there is.", "empty there"),
        ("Each has a connection of its own.", "of its own"),
        ("The service goes on.", "goes on"),
        ("It has the sum of the values of the groups of one view.", "chain of"),
    ],
)
def test_what_breaks_a_rule(text: str, fault: str) -> None:
    """Each rule finds what it is for."""
    (found,) = faults(Sentence("page.md", 1, "page", text))
    assert fault in found


def test_what_keeps_the_rules() -> None:
    """A plain sentence, also a passive one."""
    text = (
        "The owner writes the event again; the changes topic then ends with the newest one, which was lost."
    )
    assert list(faults(Sentence("page.md", 1, "page", text))) == []


def test_sentences() -> None:
    """An abbreviation does not end one, and neither does the point of a number."""
    text = "Kafka has it, e.g. a record of 1.5 MB. Then\nit is read. `x` follows."
    assert sentences_of(text) == ["Kafka has it, eg a record of 1.5 MB.", "Then it is read.", "`x` follows."]


def test_sentences_of_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paragraphs, items and cells: no headings and no code."""
    monkeypatch.setattr("tests.docs.prose.ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text(
        "# Title\n\nOne `a b` here.\n\n- An item\n\n```\ncode\n```\n\n| a | b |\n|---|---|\n| c | d |\n"
    )
    found = list(of_page(page))
    assert [(one.line, one.text) for one in found] == [
        (3, "One `code` here."),
        (5, "An item"),
        *((11, text) for text in "ab"),
        *((13, text) for text in "cd"),
    ]


def test_sentences_of_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Docstrings, comments that go on over lines, and messages: what an f-string inserts is a word."""
    monkeypatch.setattr("tests.docs.prose.ROOT", tmp_path)
    module = tmp_path / "module.py"
    module.write_text(
        '"""The module."""\n\nMAX = 3\n"""At most."""\n\n# A comment that\n# goes on.\n'
        'def act(x):\n    """Act."""\n    raise ValueError(f"expected {x}, got none")\n'
    )
    assert {(one.kind, one.text) for one in of_module(module)} == {
        ("docstring", "The module."),
        ("docstring", "At most."),
        ("docstring", "Act."),
        ("comment", "A comment that goes on."),
        ("message", "expected `code`, got none"),
    }


def test_pages_are_short() -> None:
    """What a page gains, a page has to lose: readers have as much time as before."""
    assert words_of_pages() <= WORDS_OF_PAGES_MAX


def test_summary() -> None:
    """Also of one sentence."""
    found = [Sentence("page.md", 1, "page", "The owner writes the event again.")]
    assert summary(found) == "6 words, 1 sentences, 6.0 words each (p95 6, max 6), reading ease 60"


@pytest.mark.parametrize(
    ("word", "count"), [("record", 2), ("the", 1), ("table", 2), ("offset", 2), ("state", 1)]
)
def test_syllables(word: str, count: int) -> None:
    """For the figure of how readable a text is."""
    assert syllables(word) == count
