"""The example of a trading desk, built."""

from pathlib import Path

from tests.clients.typescript import ROOT, build, run

DESK = ROOT / "examples" / "trading-desk"
LOCK = DESK / "package-lock.json"
INSTALLED = DESK / "node_modules" / ".package-lock.json"


def build_desk(directory: Path) -> None:
    """Build the page into a directory, with the client of this repository."""
    build()
    if not INSTALLED.exists() or INSTALLED.stat().st_mtime < LOCK.stat().st_mtime:
        run("npm", "ci", "--no-audit", "--no-fund", cwd=DESK)
    run("npm", "run", "build", "--", "--outDir", str(directory), "--emptyOutDir", cwd=DESK)
