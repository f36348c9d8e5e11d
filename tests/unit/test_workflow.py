"""The workflow of the public forge runs what any CI runs, and only code that can't change behind our backs."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*"))


@pytest.fixture(params=WORKFLOWS, ids=lambda path: path.name)
def text(request: pytest.FixtureRequest) -> str:
    """The text of one workflow."""
    return str(request.param.read_text())


@pytest.fixture
def workflow(text: str) -> Any:
    """What the text means."""
    return yaml.safe_load(text)


def test_there_is_one() -> None:
    """The checks below check something."""
    assert [path.name for path in WORKFLOWS] == ["ci.yaml", "native.yaml", "nightly.yaml"]


def test_actions_are_named_by_their_commits(text: str, workflow: Any) -> None:
    """Each with the release that the commit is of: who updates it, sees what it was."""
    used = [step["uses"] for job in workflow["jobs"].values() for step in job["steps"] if "uses" in step]
    assert used
    assert [one for one in used if not re.fullmatch(r"[\w-]+/[\w./-]+@[0-9a-f]{40}", one)] == []
    lines = [line for line in text.splitlines() if "uses:" in line]
    assert [line for line in lines if not re.search(r"@[0-9a-f]{40} # v\d+\.\d+\.\d+$", line)] == []


def test_permissions_are_the_least(workflow: Any) -> None:
    """Reading the clone is all that it may do, and it leaves no credentials in it. Wheels are added to a release."""
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        assert job.get("permissions", {}) == ({"contents": "write"} if name == "wheels" else {})
        (checkout,) = [step for step in job["steps"] if step.get("uses", "").startswith("actions/checkout@")]
        assert checkout["with"] == {"persist-credentials": False}


def test_it_runs_what_any_ci_runs() -> None:
    """One command, and no step of its own."""
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yaml").read_text())
    commands = [step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]
    assert commands == [".ci/run"]
