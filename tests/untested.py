"""Report the lines of the pure packages that no test runs, and hold the floors: a part of `make coverage`.

What is pure is in the contract of `.ci/importlinter.ini` that keeps Kafka, RocksDB, clocks and chance out of it.
"""

import io
import sys

from coverage import Coverage

from tests.mutants.scope import directory, pure_packages

FLOOR = 90
"""Of all packages, in percent, where it stood when this was written: what adds untested code lowers it."""
FLOOR_PURE = 97


def pure_files() -> list[str]:
    """Return the patterns of the files of the pure packages."""
    names = [directory(name) for name in pure_packages()]
    return [name if name.endswith(".py") else f"{name}/*" for name in names]


def main() -> int:
    """Print what is untested; the exit code is 1 below a floor."""
    coverage = Coverage()
    coverage.load()
    share_pure = coverage.report(include=pure_files(), show_missing=True, skip_covered=True)
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
