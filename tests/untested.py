"""Report the lines of the pure packages that no test runs, and hold the floors: a part of `make coverage`.

What is pure is in the contract of pyproject.toml that keeps Kafka, RocksDB, clocks and chance out of it.
"""

import io
import sys
import tomllib
from pathlib import Path

from coverage import Coverage

from tests.mutants.scope import directory

CONTRACT = "pure packages "
FLOOR = 90
"""Of all packages, in percent, where it stood when this was written: what adds untested code lowers it."""
FLOOR_PURE = 97


def pure_files(project: str) -> list[str]:
    """Return the patterns of the files of the pure packages, by the text of pyproject.toml."""
    contracts = tomllib.loads(project)["tool"]["importlinter"]["contracts"]
    (pure,) = [contract for contract in contracts if contract["name"].startswith(CONTRACT)]
    names = [directory(name) for name in pure["source_modules"]]
    return [name if name.endswith(".py") else f"{name}/*" for name in names]


def main() -> int:
    """Print what is untested; the exit code is 1 below a floor."""
    coverage = Coverage()
    coverage.load()
    pure = pure_files(Path("pyproject.toml").read_text())
    share_pure = coverage.report(include=pure, show_missing=True, skip_covered=True)
    return verdict(coverage.report(file=io.StringIO()), share_pure)


def verdict(share: float, share_pure: float) -> int:
    """Print the shares, in percent; return the exit code, 1 if one is below its floor."""
    print(
        f"coverage: {share:.2f} % of all lines (at least {FLOOR}), "
        f"{share_pure:.2f} % of the pure packages (at least {FLOOR_PURE})"
    )
    return int(share < FLOOR or share_pure < FLOOR_PURE)


if __name__ == "__main__":
    sys.exit(main())
