"""The archive of a Java program's classes: who makes it, who uses it, and which one is not used."""

import sys
from pathlib import Path

import pytest

from sowline.runtime.class_archive import ClassArchive

JAVA = Path(sys.executable)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of the archives."""
    monkeypatch.setattr("sowline.runtime.class_archive.cache_directory", lambda: tmp_path / "cache")
    return tmp_path / "cache" / "classes"


def run(archive: ClassArchive, status: int) -> str:
    """Return how a program uses an archive, and let it end; without an archive, it writes one."""
    name, path = archive.options()[0].split("=")
    if name == "-XX:ArchiveClassesAtExit":
        Path(path).touch()
    archive.keep(status)
    return name.removeprefix("-XX:")


def test_the_first_run_makes_it(cache: Path) -> None:
    """143 is the status of a JVM that was told to end."""
    archive = ClassArchive(JAVA, "a.jar", "Main")
    assert [run(archive, 143), run(archive, 0)] == ["ArchiveClassesAtExit", "SharedArchiveFile"]
    assert [path.suffix for path in cache.iterdir()] == [".jsa"]


def test_an_archive_is_never_seen_unfinished(cache: Path) -> None:
    """While a program writes it, another one starts without; what a killed one has written is removed."""
    writing, other = (ClassArchive(JAVA, "a.jar", "Main") for _ in range(2))
    path = Path(writing.options()[0].split("=")[1])
    path.touch()
    assert other.options()[0].startswith("-XX:ArchiveClassesAtExit=")
    writing.keep(-9)
    assert list(cache.iterdir()) == []
    other.keep(0)
    assert list(cache.iterdir()) == []


def test_another_class_path_has_another_archive(tmp_path: Path) -> None:
    """The JVM would ignore the archive of other classes, each time."""
    assert run(ClassArchive(JAVA, "a.jar", "Main"), 0) == "ArchiveClassesAtExit"
    java = tmp_path / "java"
    java.touch()
    for given in ((JAVA, "b.jar", "Main"), (JAVA, "a.jar", "Other"), (java, "a.jar", "Main")):
        assert run(ClassArchive(*given), 0) == "ArchiveClassesAtExit"


def test_a_cache_that_cannot_be_written(cache: Path) -> None:
    """The program starts without an archive."""
    cache.parent.touch()
    assert ClassArchive(JAVA, "a.jar", "Main").options() == []
