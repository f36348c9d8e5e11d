"""The manifest for the Spark operator is what that accepts, and names what there is here."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from sowline.config.settings import Settings
from sowline.runtime.jars import SPARK_CONNECTOR
from sowline_ingest.__main__ import main
from sowline_ingest.definition import load_pipeline
from sowline_ingest.submit import APPLICATION
from tests.chart.conftest import CHART, Check, Objects

DEPLOY = CHART.parents[1] / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()


@pytest.fixture
def manifest() -> Objects:
    """Its objects."""
    return list(yaml.safe_load_all((DEPLOY / "spark-application.yaml").read_text()))


@pytest.fixture
def application(manifest: Objects) -> Any:
    """What it says of the application."""
    return next(item for item in manifest if item["kind"] == "SparkApplication")["spec"]


@pytest.fixture
def file(manifest: Objects, tmp_path: Path) -> Path:
    """The file of its pipeline."""
    (config,) = [item for item in manifest if item["kind"] == "ConfigMap"]
    path = tmp_path / "pipeline.yaml"
    path.write_text(config["data"]["pipeline.yaml"])
    return path


def test_operator_accepts_it(manifest: Objects, check: Check) -> None:
    """Every object is valid by Kubernetes' and the operator's own schemas, which allow no unknown field."""
    assert check(manifest) == []


def test_check_finds_mistakes(manifest: Objects, application: Any, check: Check) -> None:
    """The check is one: it finds an unknown field, and a value that there is not."""
    application["driver"]["memry"] = "1g"
    application["restartPolicy"]["type"] = "Sometimes"
    found = "\n".join(check(manifest))
    assert "memry" in found
    assert "/spec/restartPolicy/type" in found


def test_it_runs_what_the_image_has(application: Any) -> None:
    """The application is the pipelines' own, of the Spark that is in the image, as the image's user."""
    path = application["mainApplicationFile"].removeprefix("local://")
    assert f"print(sowline_ingest.submit.APPLICATION)')\" {path} " in DOCKERFILE
    assert APPLICATION.is_file()
    command, file = application["arguments"]
    assert command in main.commands
    assert Path(file).parent == Path(application["driver"]["volumeMounts"][0]["mountPath"])
    assert application["sparkVersion"] == SPARK_CONNECTOR.modules[0][2]
    for part in ("driver", "executor"):
        path = application[part]["javaOptions"].removeprefix("-Dlog4j2.configurationFile=file:")
        assert f"print(sowline_ingest.submit.LOG_SETTINGS)')\" {path} " in DOCKERFILE
        user = application[part]["podSecurityContext"]
        assert f"USER {user['runAsUser']}:{user['runAsGroup']}" in DOCKERFILE


def test_variables_are_understood(application: Any, file: Path) -> None:
    """Those that begin with SOWLINE_ are settings; with them and the secret's the file is whole."""
    variables = {variable["name"]: variable["value"] for variable in application["driver"]["env"]}
    ours = {name.removeprefix("SOWLINE_").lower() for name in variables if name.startswith("SOWLINE_")}
    assert ours <= set(Settings.model_fields)
    pipeline = load_pipeline(file, variables | {"KAFKA_JAAS": "secret"})
    assert pipeline.kafka_options["sasl.jaas.config"] == "secret"
    for part in ("driver", "executor"):
        mounted = [mount["mountPath"] for mount in application[part]["volumeMounts"]]
        assert str(Path(pipeline.checkpoint).parent) in mounted


def test_it_goes_on_after_whatever_ended_it(application: Any) -> None:
    """A pipeline has no end of its own."""
    assert application["restartPolicy"]["type"] == "Always"
    assert "--once" not in application["arguments"]


def test_names_meet(manifest: Objects, application: Any) -> None:
    """Volumes are of objects that come with it."""
    names = {(item["kind"], item["metadata"]["name"]) for item in manifest}
    config, state = application["volumes"]
    assert ("ConfigMap", config["configMap"]["name"]) in names
    assert ("PersistentVolumeClaim", state["persistentVolumeClaim"]["claimName"]) in names
