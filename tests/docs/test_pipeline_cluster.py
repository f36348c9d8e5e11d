"""docs/pipeline-cluster.md says what is so."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from sowline.config.settings import Settings
from sowline_ingest.submit import submit

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "pipeline-cluster.md").read_text(encoding="utf-8")
VALUES: dict[str, Any] = yaml.safe_load((ROOT / "helm" / "sowline" / "values.yaml").read_text())


def test_options() -> None:
    """Each option of `submit` is described, and no other."""
    described = re.findall(r"^\| `(--[a-z-]+)` \|", TEXT, re.MULTILINE)
    assert described == [option for of in submit.params for option in of.opts if option.startswith("--")]


def test_settings() -> None:
    """What begins with SOWLINE_ is a setting."""
    named = {name.lower() for name in re.findall(r"SOWLINE_([A-Z_]+)", TEXT)}
    assert named >= {"kafka", "kafka_options", "data_dir"}
    assert named <= set(Settings.model_fields)


def test_values() -> None:
    """The values of the chart that are shown are ones."""
    (shown,) = re.findall(r"```yaml\n# values.yaml.*?\n(.*?)```", TEXT, re.DOTALL)
    assert set(yaml.safe_load(shown)) == {"pipelines"}
    assert set(yaml.safe_load(shown)["pipelines"]) <= set(VALUES["pipelines"])
    assert all(name in VALUES["pipelines"] for name in re.findall(r"pipelines\.(\w+)\.", TEXT))


@pytest.mark.parametrize(
    "path", sorted(set(re.findall(r"\]\((?:\.\./)?([\w/.-]+)", TEXT)) - {"https"} | {"deploy/Dockerfile"})
)
def test_files(path: str) -> None:
    """What is linked is there."""
    assert (ROOT / path).exists() or (ROOT / "docs" / path).exists()


def test_what_the_image_runs() -> None:
    """Image and manifest have the application where the page says it is."""
    (application,) = set(re.findall(r"local://(/[\w./]+)", TEXT))
    for name in ("Dockerfile", "spark-application.yaml"):
        assert application in (ROOT / "deploy" / name).read_text()
