"""The compose file and the image say what the services understand."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import sowline_fanout.service
import sowline_materializer.service
import sowline_query_service.service
import sowline_views.service
from sowline.cli import main
from sowline.config.settings import Settings
from sowline.config.topics import load_topics
from sowline.runtime.jars import KAFKA_VERSION
from tests.brokers import IMAGE, container_settings

DEPLOY = Path(__file__).parents[3] / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
PROMETHEUS = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yaml").read_text())
PROVISIONING = DEPLOY / "grafana" / "provisioning"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
PORTS = {
    "materializer": sowline_materializer.service.USUAL_PORT,
    "query-service": sowline_query_service.service.USUAL_PORT,
    "views": sowline_views.service.USUAL_PORT,
    "fanout": sowline_fanout.service.USUAL_PORT,
}


def stages() -> dict[str, list[str]]:
    """Return the instructions of each stage of the Dockerfile by the stage's name; the last has none."""
    logical = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", DOCKERFILE, flags=re.MULTILINE)).splitlines()
    found: dict[str, list[str]] = {}
    for line in filter(str.strip, logical):
        if line.startswith("FROM"):
            found[line.partition(" AS ")[2]] = []
        elif found:
            list(found.values())[-1].append(line)
    return found


def test_hadolint_finds_nothing() -> None:
    """Whatever it knows of Dockerfiles, down to style."""
    hadolint = Path(sys.executable).with_name("hadolint")
    found = subprocess.run([hadolint, DEPLOY / "Dockerfile"], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout) == (0, "")


@pytest.mark.parametrize("service", PORTS)
def test_command(service: str) -> None:
    """Each service is started by a `sowline` command of its name."""
    assert COMPOSE[service]["command"] == [service]
    assert service in main.commands
    assert 'ENTRYPOINT ["sowline"]' in stages()["services"]


@pytest.mark.parametrize("service", PORTS)
def test_port(service: str) -> None:
    """Each service listens on its usual port on all addresses, where its health is asked for."""
    environment = COMPOSE[service]["environment"]
    assert environment["SOWLINE_PORT"] == PORTS[service]
    assert environment["SOWLINE_HOST"] == "0.0.0.0"
    assert f"127.0.0.1:{PORTS[service]}/readyz" in COMPOSE[service]["healthcheck"]["test"][-1]


@pytest.mark.parametrize("service", PORTS)
def test_settings(service: str) -> None:
    """Each variable is a setting, Kafka is where it says it is, and the topics are where they are mounted.

    Whereto traces go is not ours: it is handed on from outside, and is nowhere without that.
    """
    environment: dict[str, Any] = {**COMPOSE[service]["environment"]}
    assert environment.pop("OTEL_EXPORTER_OTLP_ENDPOINT") == "${OTEL_EXPORTER_OTLP_ENDPOINT:-}"
    assert {name.removeprefix("SOWLINE_").lower() for name in environment} <= set(Settings.model_fields)
    assert (
        f"INSIDE://{environment['SOWLINE_KAFKA']}"
        in COMPOSE["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]
    )
    mounted = dict(volume.split(":")[:2] for volume in COMPOSE[service]["volumes"])
    # The directory: a file that is mounted by itself stays what it was when an editor replaces it.
    assert f"{mounted['./config']}/topics.yaml" == environment["SOWLINE_CONFIG"]


def test_data_is_kept_on_volumes() -> None:
    """What the materializer, the query service and the views service write is on a volume for each."""
    data = COMPOSE["materializer"]["environment"]["SOWLINE_DATA_DIR"]
    kept = {name: [v for v in COMPOSE[name]["volumes"] if v.endswith(f":{data}")] for name in PORTS}
    assert {name: volumes for name, volumes in kept.items() if volumes} == {
        "materializer": [f"sow:{data}"],
        "query-service": [f"snapshots:{data}"],
        "views": [f"views:{data}"],
    }
    assert COMPOSE["query-service"]["environment"]["SOWLINE_SNAPSHOT_DIR"].startswith(f"{data}/")


def test_topics() -> None:
    """The topics that come with the compose file are ones."""
    assert load_topics(DEPLOY / "config" / "topics.yaml").topics


def test_nothing_is_open_to_the_network() -> None:
    """Ports are published on loopback only."""
    published = [port for service in COMPOSE.values() for port in service.get("ports", [])]
    assert published
    assert all(port.startswith("127.0.0.1:") for port in published)


@pytest.mark.parametrize("service", COMPOSE)
def test_least_privilege(service: str) -> None:
    """Nothing is root or gains anything, and only Kafka, whose image does, writes beside its volumes."""
    about = COMPOSE[service]
    assert about["cap_drop"] == ["ALL"]
    assert about["security_opt"] == ["no-new-privileges:true"]
    assert not about["user"].startswith("0:")
    assert (about["read_only"], about["tmpfs"]) == ((True, ["/tmp"]) if service != "kafka" else (False, []))


@pytest.mark.parametrize("service", COMPOSE)
def test_health_is_asked_for(service: str) -> None:
    """Of whatever runs, within limits."""
    assert COMPOSE[service]["healthcheck"].keys() >= {
        "test",
        "interval",
        "timeout",
        "retries",
        "start_period",
    }


def mounted(service: str) -> dict[str, str]:
    """Return what of the repository a container sees, by where it sees it."""
    volumes = (volume.split(":") for volume in COMPOSE[service]["volumes"])
    return {at: what for what, at, *_ in volumes if what.startswith("./")}


def test_prometheus_asks_every_service() -> None:
    """At its port, under the name of a job that the alerts ask for; what it reads is mounted."""
    asked = {
        job["job_name"]: target
        for job in PROMETHEUS["scrape_configs"]
        for about in job["static_configs"]
        for target in about["targets"]
    }
    assert asked == {f"sowline-{service}": f"{service}:{port}" for service, port in PORTS.items()}
    files = [argument.partition("=")[2] for argument in COMPOSE["prometheus"]["command"][:1]]
    assert {*files, *PROMETHEUS["rule_files"]} == set(mounted("prometheus"))
    assert all((DEPLOY / what).is_file() for what in mounted("prometheus").values())


def test_grafana_shows_the_dashboard() -> None:
    """It is where Grafana is told to look, and asks the Prometheus that is there."""
    sources = yaml.safe_load((PROVISIONING / "datasources" / "prometheus.yaml").read_text())["datasources"]
    assert [source["url"] for source in sources] == ["http://prometheus:9090"]
    assert "127.0.0.1:9090:9090" in COMPOSE["prometheus"]["ports"]
    providers = yaml.safe_load((PROVISIONING / "dashboards" / "sowline.yaml").read_text())["providers"]
    home = COMPOSE["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert [provider["options"]["path"] for provider in providers] == [str(Path(home).parent)]
    assert mounted("grafana")[home] == "./grafana/sowline.json"
    assert "./grafana/provisioning" in mounted("grafana").values()
    asked = json.loads((DEPLOY / "grafana" / "sowline.json").read_text())["templating"]["list"][0]
    assert asked["current"]["value"] == sources[0]["uid"]


def test_kafka_is_the_one_that_is_tested() -> None:
    """Compose, tests and jars are of one version of Kafka."""
    assert COMPOSE["kafka"]["image"] == IMAGE
    assert IMAGE.split(":")[1] == KAFKA_VERSION


def test_image() -> None:
    """No stage that runs is root or asks for its own health, and every usual port is exposed."""
    found = stages()
    assert list(found) == ["native", "build", "services", "pipeline", ""]
    for stage in ("services", "pipeline"):
        assert [line for line in found[stage] if line.startswith("USER")][-1] == "USER 10001:10001"
    assert "HEALTHCHECK NONE" in found["services"]
    exposed = next(line for line in found["services"] if line.startswith("EXPOSE"))
    assert set(map(int, exposed.split()[1:])) == set(PORTS.values())
    assert DOCKERFILE.rstrip().endswith("FROM services")


def test_image_has_every_package() -> None:
    """What the build is given is what the wheel is made of."""
    project = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text())
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    given = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    assert {f"!{name}" for name in [*wheel, "pyproject.toml", project["project"]["readme"]]} <= set(given)


def test_test_container() -> None:
    """The container that tests may use is set up like the local broker, but for its addresses."""
    settings = container_settings("somewhere:1234")
    assert settings["KAFKA_ADVERTISED_LISTENERS"].startswith("PLAINTEXT://somewhere:1234,")
    assert settings["KAFKA_AUTO_CREATE_TOPICS_ENABLE"] == "false"
    assert not any("@" in value and "1@localhost" not in value for value in settings.values())
