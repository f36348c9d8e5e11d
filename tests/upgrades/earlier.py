"""The code of the version before this one, out of the repository."""

import atexit
import io
import shutil
import subprocess
import tarfile
import tempfile
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
VERSION, COMMIT = Path(__file__).with_name("previous").read_text().split()
PACKAGES = ("sowline", "materializer", "query_service", "gateway", "fanout", "views")


@cache
def earlier_tree() -> Path:
    """Return a directory with its packages."""
    ran = subprocess.run(["git", "archive", COMMIT, *PACKAGES], cwd=ROOT, capture_output=True, check=False)
    why = (
        f"expected the commit {COMMIT} of {VERSION} in this clone: `git fetch --unshallow` brings the history"
    )
    assert ran.returncode == 0, f"{why}; git says: {ran.stderr.decode()}"
    tree = Path(tempfile.mkdtemp(prefix="sowline-earlier-"))
    atexit.register(shutil.rmtree, tree, ignore_errors=True)
    with tarfile.open(fileobj=io.BytesIO(ran.stdout)) as packages:
        packages.extractall(tree, filter="data")
    return tree
