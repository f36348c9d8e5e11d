"""What the console takes from others is what the lock says."""

import base64
import hashlib
import io
import subprocess
import tarfile
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from tests.vendored import differences, fetched, kept, lock


def test_every_file_is_what_was_published() -> None:
    """Neither changed, nor lacking, nor beside the list."""
    assert differences(kept(), lock()["sha256"]) == []


def test_a_change_is_found() -> None:
    """Of contents, and of what there is."""
    files, checksums = kept(), lock()["sha256"]
    name = "preact-11.2.0/LICENSE"
    assert differences(files | {name: b"other"}, checksums) == [name]
    assert differences(files | {"more.js": b""}, checksums) == ["more.js"]
    del files[name]
    assert differences(files, checksums) == [name]


def test_licenses_and_versions() -> None:
    """Each package comes with its license, in a folder with its version; the grid's parts are of one version."""
    packages = lock()["packages"]
    for package in packages:
        assert package["license"] in ("MIT", "Apache-2.0")
        assert [file for file in package["files"] if "LICENSE" in file]
        assert package["version"] in package["into"]
    grid = [package for package in packages if package["name"].startswith("@perspective-dev/")]
    assert len(grid) == 4
    assert len({package["version"] for package in grid}) == 1


@pytest.fixture
def npm(tmp_path: Path) -> dict[str, Any]:
    """A package as `npm pack` brings it."""
    archive = tmp_path / "some-1.0.0.tgz"
    with tarfile.open(archive, "w:gz") as packed:
        content = b'import{h}from"other";'
        about = tarfile.TarInfo("package/dist/some.mjs")
        about.size = len(content)
        packed.addfile(about, io.BytesIO(content))
    digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    return {
        "archive": archive,
        "name": "some",
        "version": "1.0.0",
        "integrity": f"sha512-{digest}",
        "into": "some-1.0.0",
        "files": ["dist/some.mjs"],
        "edits": {'from"other"': 'from"./other.mjs"'},
    }


def test_a_package_is_taken_apart(npm: dict[str, Any]) -> None:
    """The files that are kept, with the edits that are listed."""
    with patch("subprocess.run", _pack(npm)):
        assert fetched([npm]) == {"some-1.0.0/dist/some.mjs": b'import{h}from"./other.mjs";'}


def test_another_package_by_the_same_name_is_refused(npm: dict[str, Any]) -> None:
    """Whatever the registry says that it is."""
    with (
        patch("subprocess.run", _pack(npm)),
        pytest.raises(ValueError, match=r"expected some@1\.0\.0 to be sha512"),
    ):
        fetched([npm | {"integrity": "sha512-other"}])


def _pack(npm: dict[str, Any]) -> Any:
    def run(command: list[str], cwd: Path, **given: Any) -> subprocess.CompletedProcess[str]:
        assert command[:2] == ["npm", "pack"]
        archive: Path = npm["archive"]
        (cwd / archive.name).write_bytes(archive.read_bytes())
        return subprocess.CompletedProcess(command, 0, f"{archive.name}\n", "")

    return run
