"""What the chart renders to where nothing is set but what must be, recorded in `defaults.yaml`.

`python -m tests.chart.defaults` records it again. What differs then is what a change of the chart means for those who
install it.
"""

from difflib import unified_diff
from pathlib import Path

from tests.chart.conftest import least, template
from tests.chart.kubernetes_schemas import NEWEST
from tests.tools import extend_path

RECORDED = Path(__file__).with_name("defaults.yaml")
REMAKE = ".venv/bin/python -m tests.chart.defaults"


def rendered(kubernetes: str) -> str:
    """Return what Helm writes for a version of Kubernetes."""
    done = template(least(), kubernetes)
    assert done.returncode == 0, done.stderr
    return done.stdout


def difference(recorded: str, now: str) -> str:
    """Return the lines that differ, with how to record them; nothing where none does."""
    lines = list(unified_diff(recorded.splitlines(), now.splitlines(), "recorded", "rendered", lineterm=""))
    if not lines:
        return ""
    return "\n".join(
        [*lines, f"the chart's defaults render to something else: if that is meant, run {REMAKE}"]
    )


def main() -> None:
    """Record what the newest version of Kubernetes would get."""
    RECORDED.write_text(rendered(NEWEST))


if __name__ == "__main__":
    extend_path()
    main()
