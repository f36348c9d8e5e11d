"""Which Java is taken, and what is said where there is none."""

import shutil
from pathlib import Path

import pytest

from sowline.errors import SowlineError
from sowline.runtime.java import find_java, parse_release


def fake_java(directory: Path, version: str) -> Path:
    """Write a `java` below `directory` that answers `-version` as the real one of `version` does."""
    java = directory / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    java.chmod(0o755)
    return java


@pytest.mark.parametrize(
    ("text", "release"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment', 17),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_292"', 8),
        ('openjdk version "25-ea" 2025-09-16', 25),
        ("command not found", None),
    ],
)
def test_release(text: str, release: int | None) -> None:
    """The release is the first number of the version, or the second one where the first is 1."""
    assert parse_release(text) == release


def test_java_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`JAVA_HOME/bin/java` is taken, whatever is on PATH."""
    java = fake_java(tmp_path / "home", "21.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(fake_java(tmp_path / "path", "17.0.1").parent))
    assert find_java() == java


def test_path_without_java_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without JAVA_HOME, or with an empty one, the first `java` on PATH is taken."""
    java = fake_java(tmp_path, "17.0.15")
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.setenv("PATH", str(java.parent))
    assert find_java() == java


@pytest.mark.parametrize("version", ["1.8.0_292", "11.0.2", "25.0.1"])
def test_other_release(version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another release is refused in one sentence: what was expected, what came, what to do."""
    fake_java(tmp_path, version)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SowlineError) as caught:
        find_java()
    release = version.removeprefix("1.").split(".")[0]
    assert caught.value.reason == "no java"
    assert (
        f"expected Java 17 or 21, but {tmp_path}/bin/java is release {release}: install"
        in caught.value.message
    )
    assert "\n" not in caught.value.message


def test_java_that_does_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A `java` that cannot be run is refused like one of another release."""
    fake_java(tmp_path, "17").write_text("#!/no/such/interpreter\n")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SowlineError, match="does not report its release"):
        find_java()


def test_no_java_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no Java, the sentence says so."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SowlineError, match="there is no java on PATH"):
        find_java()


def test_java_home_without_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A JAVA_HOME that holds no Java is an error even if PATH has a good one: Spark would not look there."""
    assert shutil.which("java", path=str(fake_java(tmp_path / "path", "17.0.1").parent))
    monkeypatch.setenv("PATH", str(tmp_path / "path" / "bin"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "empty"))
    with pytest.raises(SowlineError, match="JAVA_HOME has no"):
        find_java()
