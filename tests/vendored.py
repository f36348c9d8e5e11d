"""What the console takes from others: packages of npm, by version and checksum, of which some files are kept here.

`console/vendor/lock.json` names them. `python -m tests.vendored` fetches the packages again with `npm pack`
and compares; `--write` makes the files, and writes their checksums into the lock. No service runs any of this.
"""

import base64
import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

VENDOR = Path(__file__).parents[1] / "sowline" / "serving" / "console" / "vendor"
LOCK = VENDOR / "lock.json"

Files = dict[str, bytes]
"""Contents by the path below `vendor`."""


def sha256_of(content: bytes) -> str:
    """Return a file's checksum as the lock has it."""
    return hashlib.sha256(content).hexdigest()


def lock() -> dict[str, Any]:
    """Return the files that should exist."""
    read: dict[str, Any] = json.loads(LOCK.read_text())
    return read


def kept() -> Files:
    """Return the files that exist."""
    paths = (path for path in sorted(VENDOR.rglob("*")) if path.is_file() and path != LOCK)
    return {path.relative_to(VENDOR).as_posix(): path.read_bytes() for path in paths}


def differences(files: Files, checksums: dict[str, str]) -> list[str]:
    """Return the paths that only one of both has, or whose contents differ."""
    return sorted(
        path
        for path in files.keys() | checksums.keys()
        if path not in files or checksums.get(path) != sha256_of(files[path])
    )


def fetched(packages: list[dict[str, Any]]) -> Files:
    """Fetch the packages; raises `ValueError` if one differs from the lock."""
    files: Files = {}
    with tempfile.TemporaryDirectory() as directory:
        for package in packages:
            files |= _files_of(package, _fetch(package, Path(directory)))
    return files


def _fetch(package: dict[str, Any], directory: Path) -> Path:
    name = f"{package['name']}@{package['version']}"
    command = ["npm", "pack", "--silent", "--pack-destination", str(directory), name]
    packed = subprocess.run(command, check=True, capture_output=True, text=True, cwd=directory)
    archive = directory / packed.stdout.split()[-1]
    digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    if f"sha512-{digest}" != package["integrity"]:
        raise ValueError(f"expected {name} to be {package['integrity']}, got sha512-{digest}")
    return archive


def _files_of(package: dict[str, Any], archive: Path) -> Files:
    """Return the files that are kept of a package; `edits` replaces what a browser can't resolve."""
    files = {}
    with tarfile.open(archive) as packed:
        for path in package["files"]:
            member = packed.extractfile(f"package/{path}")
            assert member is not None, f"{path} is a file"
            content = member.read()
            for old, new in package.get("edits", {}).items():
                content = content.replace(old.encode(), new.encode())
            files[f"{package['into']}/{path}"] = content
    return files


def main() -> int:
    """Compare what is kept with what npm has, or write it; return the exit code."""
    wanted = lock()
    files = fetched(wanted["packages"])
    if "--write" in sys.argv[1:]:
        for path, content in files.items():
            (VENDOR / path).parent.mkdir(parents=True, exist_ok=True)
            (VENDOR / path).write_bytes(content)
        checksums = {path: sha256_of(content) for path, content in sorted(files.items())}
        LOCK.write_text(json.dumps({**wanted, "sha256": checksums}, indent=2) + "\n")
    wrong = differences(files, lock()["sha256"]) + differences(kept(), lock()["sha256"])
    print("\n".join(f"differs: {path}" for path in wrong) or f"{len(files)} files are what npm has")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
