"""Key generators: how installed code is found and made ready."""

from pathlib import Path

import pytest

from sowline.commands.key_generator import load_generator
from sowline.errors import SowlineError
from tests.unit.generators import install, install_package


@pytest.fixture(autouse=True)
def _generators(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The generators of the tests, installed."""
    install(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))


def refusal(name: str) -> str:
    """Return why a generator can't be used."""
    with pytest.raises(SowlineError) as error:
        load_generator(name, {})
    assert error.value.reason == "bad configuration"
    return error.value.message


def test_a_generator_is_made_with_the_options_of_its_topic() -> None:
    """It is found by the name of its entry point."""
    generator = load_generator("desk", {"separator": "/"})
    assert generator.version == "1"
    assert generator.key({"desk": "NY", "id": 5}, None) == "NY/5"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "unknown",
            "expected an installed key generator (broken, desk, placed, strict, unversioned), got 'unknown'",
        ),
        ("broken", "expected to load the key generator broken from desk_keys:missing, got: "),
        (
            "strict",
            "expected options that the key generator strict accepts, got ValueError: no options will do",
        ),
        ("unversioned", "expected options that the key generator unversioned accepts, got AttributeError: "),
    ],
)
def test_a_generator_that_is_not_there_or_not_ready(name: str, message: str) -> None:
    """The refusal shows whether to install it, to repair it, or to change the options."""
    assert refusal(name).startswith(message)


def test_a_version_is_a_text(tmp_path: Path) -> None:
    """It is part of the definition of a topic, so there must be one."""
    (tmp_path / "numbered_keys.py").write_text(
        "class Numbered:\n    version = 2\n    __init__ = lambda *_: None\n"
    )
    install_package(
        tmp_path, "numbered", "1", "[sowline.key_generators]\nnumbered = numbered_keys:Numbered\n"
    )
    assert refusal("numbered").startswith(
        "expected a version, a non-empty text, of the key generator numbered"
    )


def test_two_packages_with_one_name_are_refused(tmp_path: Path) -> None:
    """Which one makes the keys must not depend on the order of the path."""
    for package in ("one", "other"):
        # A name of its own: what was loaded once in this process is not looked for again.
        install_package(tmp_path, package, "1", f"[sowline.key_generators]\ntwice = {package}:Twice\n")
    assert "got one:Twice and other:Twice: uninstall one" in refusal("twice")
