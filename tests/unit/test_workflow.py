"""The workflow of the public forge runs what any CI runs, and only code that can't change behind our backs."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from sowline.version import __version__

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*"))
PUBLISHING = {
    "images": {"contents": "read", "packages": "write"},
    "publish": {"contents": "write", "packages": "write", "id-token": "write"},
}
"""What the jobs may that publish a release."""
AGGREGATE = "passed"
"""The job that a branch requires; it has no clone."""


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
    assert [path.name for path in WORKFLOWS] == ["ci.yaml", "nightly.yaml", "release.yaml"]


def test_actions_are_named_by_their_commits(text: str, workflow: Any) -> None:
    """Each with the release that the commit is of: who updates it, sees what it was."""
    used = [step["uses"] for job in workflow["jobs"].values() for step in job["steps"] if "uses" in step]
    assert used
    assert [one for one in used if not re.fullmatch(r"[\w-]+/[\w./-]+@[0-9a-f]{40}", one)] == []
    lines = [line for line in text.splitlines() if "uses:" in line]
    assert [line for line in lines if not re.search(r"@[0-9a-f]{40} # v\d+\.\d+\.\d+$", line)] == []


def test_permissions_are_the_least(workflow: Any) -> None:
    """Reading the clone is all that it may do, but for the two jobs that publish; no clone keeps credentials."""
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        assert job.get("permissions", {}) == (
            PUBLISHING.get(name, {}) if workflow["name"] == "release" else {}
        )
        checkouts = [step for step in job["steps"] if step.get("uses", "").startswith("actions/checkout@")]
        clones = [] if name == AGGREGATE else [{"persist-credentials": False}]
        assert [step["with"] for step in checkouts] == clones


def test_only_a_tag_publishes() -> None:
    """A job that may write anything runs for no pull request, and behind all that build and test."""
    release = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yaml").read_text())
    events = release[True]  # `on` is a truth value in YAML 1.1
    assert events["push"] == {"tags": ["v*"]}
    assert events.keys() == {"push", "pull_request"}
    jobs = release["jobs"]
    assert {name for name, job in jobs.items() if "permissions" in job} == PUBLISHING.keys()
    assert {jobs[name]["if"] for name in PUBLISHING} == {"github.event_name == 'push'"}
    assert {*jobs["images"]["needs"]} == jobs.keys() - PUBLISHING.keys()
    assert jobs["publish"]["needs"] == ["images"]
    assert jobs["publish"]["environment"] == "release"


def test_a_release_is_named_by_its_tag() -> None:
    """The step passes with the tag of this version alone, and before anything is installed."""
    steps = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yaml").read_text())["jobs"]["checks"][
        "steps"
    ]
    (step,) = [one for one in steps if one.get("name") == "The tag is the version"]
    python = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    codes = [
        subprocess.run(
            ["bash", "-ec", step["run"]], cwd=ROOT, env=python | {"GITHUB_REF_NAME": tag}
        ).returncode
        for tag in (f"v{__version__}", __version__, "v0.0.1")
    ]
    assert codes == [0, 1, 1]


def test_the_tag_of_this_commit_is_its_version() -> None:
    """A wrong tag fails in the tests too, before it is pushed; a clone without tags has none to compare."""
    done = subprocess.run(
        ["git", "tag", "--points-at", "HEAD", "v*"], cwd=ROOT, capture_output=True, text=True
    )
    assert set(done.stdout.split()) <= {f"v{__version__}"}


def test_pypi_links_to_the_repository(tmp_path: Path) -> None:
    """The step that writes the links leaves a valid pyproject.toml; each page that it names is in the repository."""
    steps = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yaml").read_text())["jobs"]["packages"][
        "steps"
    ]
    (step,) = [one for one in steps if "[project.urls]" in one.get("run", "")]
    project = tmp_path / "pyproject.toml"
    project.write_text((ROOT / "pyproject.toml").read_text())
    page = "https://forge.example.com/who/sowline"
    subprocess.run(["bash", "-ec", step["run"]], cwd=tmp_path, env={"PAGE": page}, check=True)
    urls = tomllib.loads(project.read_text())["project"]["urls"]
    assert urls.keys() == {"Documentation", "Repository", "Issues", "Changelog"}
    assert (urls.pop("Repository"), urls.pop("Issues")) == (page, f"{page}/issues")
    assert [
        url for url in urls.values() if not (ROOT / url.removeprefix(f"{page}/blob/main/")).is_file()
    ] == []


def test_npm_knows_trusted_publishing() -> None:
    """The npm that comes with Node 24 does; an older one would ask for a token that there is not."""
    steps = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yaml").read_text())["jobs"]["publish"][
        "steps"
    ]
    (number,) = [n for n, step in enumerate(steps) if "actions/setup-node@" in step.get("uses", "")]
    assert steps[number]["with"] == {"node-version": "24", "package-manager-cache": False}
    assert number < next(n for n, step in enumerate(steps) if "npm publish" in step.get("run", ""))


def test_a_release_installs_what_it_publishes() -> None:
    """The packages are tested between being built and being handed on."""
    steps = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yaml").read_text())["jobs"]["packages"][
        "steps"
    ]
    commands = [step.get("run", "") for step in steps]
    built = commands.index("make packages OUT=build/packages")
    tested = commands.index("make test ARGS=tests/distribution/checks.py PACKAGES=build/packages")
    handed = next(n for n, step in enumerate(steps) if step.get("with", {}).get("path") == "build/packages")
    assert built < tested < handed


def test_it_runs_what_any_ci_runs() -> None:
    """One command, and no step of its own, with each version of Python that the distribution declares."""
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yaml").read_text())["jobs"]
    assert [step["run"] for step in jobs["run"]["steps"] if "run" in step] == [".ci/run"]
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    declared = [name.rpartition(" :: ")[2] for name in classifiers if re.search(r":: 3\.\d+$", name)]
    assert jobs["run"]["strategy"]["matrix"]["python"] == declared


def test_one_job_stands_for_all() -> None:
    """It also fails where a job was cancelled or left out: only success is success."""
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yaml").read_text())["jobs"]
    aggregate = jobs[AGGREGATE]
    assert {*aggregate["needs"]} == jobs.keys() - {AGGREGATE}
    assert aggregate["if"] == "always()"
    (step,) = aggregate["steps"]
    wanted = " ".join("success" for _ in aggregate["needs"])
    assert step == {
        "run": f'test "$RESULTS" = "{wanted}"',
        "env": {"RESULTS": "${{ join(needs.*.result, ' ') }}"},
    }


def test_a_clean_clone_is_checked_as_contributors_check_it() -> None:
    """With one command, within minutes."""
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yaml").read_text())["jobs"]
    assert [step["run"] for step in jobs["check"]["steps"] if "run" in step] == ["make check"]
    assert jobs["check"]["timeout-minutes"] <= 10
