"""What the pods of the chart are, each for itself: probes, rights, settings, volumes and where they run."""

from pathlib import Path

import pytest

from sowline.config.settings import Settings, read_settings
from tests.chart.conftest import Render, everything, least
from tests.chart.objects import (
    GATEWAY,
    PIPELINES,
    PORTS,
    configuration,
    environment,
    guarded,
    installing,
    pods,
    workloads,
)


@pytest.mark.parametrize("service", PORTS)
def test_probes(service: str, render: Render) -> None:
    """Kubernetes probes startup, readiness and liveness of each service, at the port of its settings."""
    pod = pods(render(installing(service)))[service]
    container = pod["containers"][0]
    asked = {name: container[f"{name}Probe"]["httpGet"] for name in ("startup", "readiness", "liveness")}
    assert {name: get["path"] for name, get in asked.items()} == {
        "startup": "/startupz",
        "readiness": "/readyz",
        "liveness": "/healthz",
    }
    assert {get["port"] for get in asked.values()} == {"http"}
    assert container["ports"] == [{"name": "http", "containerPort": PORTS[service]}]
    assert environment(pod)["SOWLINE_PORT"] == str(PORTS[service])
    assert container["startupProbe"]["failureThreshold"] * container["startupProbe"]["periodSeconds"] == 1800


@pytest.mark.parametrize("service", [*PORTS, *PIPELINES])
def test_least_privilege(service: str, render: Render) -> None:
    """No pod is root, writes outside its volumes, gains privileges, or has a token for the cluster."""
    pod = pods(render(installing(service)))[service]
    container = pod["containers"][0]["securityContext"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["readOnlyRootFilesystem"] is True
    assert container["allowPrivilegeEscalation"] is False
    assert container["capabilities"] == {"drop": ["ALL"]}
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False


@pytest.mark.parametrize("service", PORTS)
def test_settings_are_understood(service: str, render: Render, monkeypatch: pytest.MonkeyPatch) -> None:
    """The services read the variables of a pod as they were set, large numbers and booleans too."""
    variables = environment(pods(render(installing(service)))[service])
    for name, value in variables.items():
        if value is not None:
            monkeypatch.setenv(name, value)
    settings = read_settings()
    assert settings.kafka == "a:9092,b:9092"
    assert settings.config == Path("/etc/sowline/topics.yaml")
    assert settings.host == "0.0.0.0"
    assert (settings.batch_records_max, settings.accept_loss, settings.group) == (10_000, False, "blue")
    assert settings.standby is (service == "materializer")
    assert variables.pop("OTEL_EXPORTER_OTLP_ENDPOINT") == "http://collector:4318"
    assert {name.removeprefix("SOWLINE_").lower() for name in variables} <= set(Settings.model_fields)


def test_numbers_stay_whole(render: Render) -> None:
    """Ten million is not written 1e+07, neither as a setting nor in the topics."""
    objects = render(everything())
    assert environment(pods(objects)["fanout"])["SOWLINE_RESULT_RECORDS_MAX"] == "10000000"
    config = configuration(objects, "blue-sowline")
    assert "record_bytes_max: 10000000\n" in config["topics.yaml"]


def test_who_keeps_data(render: Render) -> None:
    """Each pod of the materializer and each pipeline has a volume of its own. That of views ends with the pod."""
    claims = {
        item["metadata"]["name"]: item["spec"].get("volumeClaimTemplates")
        for item in workloads(render(everything()))
    }
    assert {name for name, claim in claims.items() if claim} == {"blue-sowline-materializer"}
    mounts = {
        service: {mount["name"] for mount in pod["containers"][0]["volumeMounts"]}
        for service, pod in pods(render(everything())).items()
    }
    assert {service for service, names in mounts.items() if "data" in names} == {
        "materializer",
        "views",
        *PIPELINES,
    }


@pytest.mark.parametrize("service", PORTS)
def test_pods_are_spread(service: str, render: Render) -> None:
    """Over nodes by default; a constraint without a selector is about the service's own pods."""
    shards = {
        "queryService": {"shards": 2, "access": {"secret": "nodes"}},
        "gateway": {"nodes": {"secret": "gateway-token"}},
    }
    (usual,) = pods(
        render(least() | {"config": everything()["config"]} | (shards if service == GATEWAY else {}))
    )[service]["topologySpreadConstraints"]
    assert (usual["topologyKey"], usual["whenUnsatisfiable"]) == ("kubernetes.io/hostname", "ScheduleAnyway")
    own, other = pods(render(installing(service)))[service]["topologySpreadConstraints"]
    for constraint in (usual, own):
        assert constraint["labelSelector"]["matchLabels"]["app.kubernetes.io/component"] == service
    assert other["labelSelector"] == {"matchLabels": {"tier": "data"}}


def test_a_query_service_goes_on_until_no_client_is_sent_to_it(render: Render) -> None:
    """It waits before it closes its sessions; the others have nobody who would be sent to them."""
    found = {name: pod["containers"][0].get("lifecycle") for name, pod in pods(render(everything())).items()}
    assert found.pop("query-service") == {"preStop": {"exec": {"command": ["sleep", "5"]}}}
    assert set(found.values()) == {None}


@pytest.mark.parametrize("service", [*PORTS, *PIPELINES])
def test_files_of_a_secret(service: str, render: Render) -> None:
    """Certificates that Kafka's options name are where the values say, and nobody can write them."""
    pod = pods(render(installing(service)))[service]
    assert {"name": "kafka", "secret": {"secretName": "kafka-ca"}} in pod["volumes"]
    mounts = pod["containers"][0]["volumeMounts"]
    assert {"name": "kafka", "mountPath": "/etc/sowline-kafka", "readOnly": True} in mounts
    assert "kafka" not in {volume["name"] for volume in pods(render(least()))["materializer"]["volumes"]}


def test_options_come_from_a_secret(render: Render) -> None:
    """Kafka's credentials are not in the objects: pods take them from the secret that is named."""
    variables = pods(render(everything()))["materializer"]["containers"][0]["env"]
    options = next(variable for variable in variables if variable["name"] == "SOWLINE_KAFKA_OPTIONS")
    assert options["valueFrom"] == {"secretKeyRef": {"name": "kafka-tls", "key": "options"}}


def test_the_ports_of_the_query_service(render: Render, monkeypatch: pytest.MonkeyPatch) -> None:
    """Access file and certificate are mounted to be read only, and are where the service looks for them."""
    objects = render(guarded(clientCa="ca.crt", clientRequired=True))
    pod = pods(objects)["query-service"]
    mounts = {one["name"]: one for one in pod["containers"][0]["volumeMounts"]}
    volumes = {one["name"]: one for one in pod["volumes"]}
    assert [mounts[name]["readOnly"] for name in ("access", "tls")] == [True, True]
    assert [volumes[name]["secret"] for name in ("access", "tls")] == [
        {"secretName": "who"},
        {"secretName": "own"},
    ]
    for name, value in environment(pod).items():
        if value is not None:
            monkeypatch.setenv(name, value)
    settings = read_settings()
    assert (settings.access, settings.tls_cert) == (
        "/etc/sowline-access/who.yaml",
        "/etc/sowline-tls/tls.crt",
    )
    assert (settings.tls_client_ca, settings.tls_client_required) == ("/etc/sowline-tls/ca.crt", True)
    others = [pods(objects)[service] for service in ("materializer", "views", "fanout")]
    assert not any({"access", "tls"} & {one["name"] for one in pod["volumes"]} for pod in others)


def test_an_access_file_of_a_config_map(render: Render) -> None:
    """It holds no secret, so it may be one."""
    values = least() | {"queryService": {"access": {"configMap": "who"}}}
    (volume,) = [one for one in pods(render(values))["query-service"]["volumes"] if one["name"] == "access"]
    assert volume["configMap"] == {"name": "who"}


def test_fractions_stay_fractions(render: Render) -> None:
    """Half a second is not none."""
    values = least() | {"settings": {"progress_seconds": 0.5, "logon_seconds_max": 30}}
    variables = environment(pods(render(values))["query-service"])
    assert (variables["SOWLINE_PROGRESS_SECONDS"], variables["SOWLINE_LOGON_SECONDS_MAX"]) == ("0.5", "30")
