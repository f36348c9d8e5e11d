"""What the chart installs is what Kubernetes accepts, and what the services expect."""

import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from sowline.config.settings import Settings, read_settings
from sowline.config.topics import load_topics
from sowline_ingest.definition import load_pipeline
from tests.chart.conftest import (
    CHART,
    PIPELINE,
    Check,
    HelmTemplate,
    Objects,
    Render,
    Values,
    everything,
    least,
    sharded,
)
from tests.chart.kubernetes_schemas import NEWEST, OLDEST, VERSIONS

ROOT = CHART.parents[1]
PLATFORMS = ROOT / "docs/platforms.md"
SERVICES = {"materializer": 8081, "query-service": 8080, "views": 8083, "fanout": 8082}
GATEWAY = "gateway"
PORTS = {**SERVICES, GATEWAY: 8070}
PIPELINES = ["pipeline-clicks", "pipeline-orders"]


def installing(service: str) -> Values:
    """Return values that install the service; a gateway comes with shards only."""
    return sharded() if service == GATEWAY else everything()


def pods(objects: Objects) -> dict[str, Any]:
    """Return the pod of each service and pipeline by its name."""
    workloads = [item for item in objects if item["kind"] in ("Deployment", "StatefulSet")]
    return {
        pod["containers"][0]["name"]: pod for pod in (item["spec"]["template"]["spec"] for item in workloads)
    }


def environment(pod: Any) -> dict[str, str | None]:
    """Return a pod's environment; None is a value from elsewhere."""
    return {variable["name"]: variable.get("value") for variable in pod["containers"][0]["env"]}


def test_the_versions_are_on_the_page() -> None:
    """Those whose schemas the chart is checked against, and the oldest that it accepts."""
    (row,) = (line for line in PLATFORMS.read_text().splitlines() if line.startswith("| Kubernetes |"))
    minors = [version.removeprefix("v").rpartition(".")[0] for version in VERSIONS]
    assert f"schemas of {', '.join(minors[:-1])} and {minors[-1]} | {minors[0]} and later |" in row


@pytest.mark.parametrize("kubernetes", VERSIONS)
@pytest.mark.parametrize("values", [least(), everything(), sharded()], ids=["least", "everything", "sharded"])
def test_kubernetes_accepts_it(kubernetes: str, values: Values, render: Render, check: Check) -> None:
    """Every object is valid by the schemas of that version of Kubernetes, which allow no unknown field."""
    assert check(render(values, kubernetes), kubernetes) == []


def test_each_version_has_its_own_schemas(render: Render, check: Check) -> None:
    """The oldest refuses the field that version 1.27 brought to the budgets of disruptions."""
    found = check(render(least(), NEWEST), OLDEST)
    assert found
    assert all("unhealthyPodEvictionPolicy" in one for one in found)


def test_the_oldest_version_is_the_first_that_the_chart_accepts(helm_template: HelmTemplate) -> None:
    """Older versions are refused, and all of its own patches are accepted."""
    declared = yaml.safe_load((CHART / "Chart.yaml").read_text())["kubeVersion"]
    first = declared.removeprefix(">=").removesuffix(".0-0")
    assert OLDEST.startswith(f"v{first}.")
    assert helm_template(least(), f"{first}.0").returncode == 0
    refused = helm_template(least(), "1.24.17")
    assert "incompatible with Kubernetes v1.24.17" in refused.stderr


def test_check_finds_mistakes(render: Render, check: Check) -> None:
    """The check is one: it finds an unknown field deep in a pod, and a value of the wrong type."""
    objects = render(least())
    pods(objects)["materializer"]["containers"][0]["redinessProbe"] = {}
    next(item for item in objects if item["kind"] == "Deployment")["spec"]["replicas"] = "two"
    found = "\n".join(check(objects))
    assert "redinessProbe" in found
    assert "/spec/replicas" in found


def test_views_and_fanout_are_there_when_needed(render: Render) -> None:
    """Each is installed if there is something to compute or to write, a pipeline if there is its file."""
    assert set(pods(render(least()))) == {"materializer", "query-service"}
    assert set(pods(render(everything()))) == {*SERVICES, *PIPELINES}


@pytest.mark.parametrize("service", PORTS)
def test_probes(service: str, render: Render) -> None:
    """Each service is asked for its three health answers, at the port that it is told to listen on."""
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
    """What a pod is told is what the services' settings take it for, large numbers and booleans too."""
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


def configuration(objects: Objects, name: str) -> dict[str, str]:
    """Return the files of a ConfigMap."""
    (found,) = [item for item in objects if (item["kind"], item["metadata"]["name"]) == ("ConfigMap", name)]
    data: dict[str, str] = found["data"]
    return data


def test_topics_are_understood(render: Render, tmp_path: Path) -> None:
    """The services can read the topics that the chart writes."""
    path = tmp_path / "topics.yaml"
    path.write_text(configuration(render(everything()), "blue-sowline")["topics.yaml"])
    topics = load_topics(path)
    assert [topic.name for topic in topics.topics] == ["orders", "open"]
    assert [fanout.name for fanout in topics.fanouts] == ["late"]


def test_services_follow_changed_topics(render: Render) -> None:
    """Their pods stay, and read the file in a directory, where Kubernetes replaces it; a single file it does not."""
    other = everything()
    other["config"]["topics"][0]["expiration"] = "1h"
    before, after = (
        {item["metadata"]["name"]: item["spec"]["template"] for item in workloads(render(values))}
        for values in (everything(), other)
    )
    assert before == after
    mounts = [
        mount
        for template in before.values()
        for container in template["spec"]["containers"]
        for mount in container["volumeMounts"]
        if mount["name"] == "config"
    ]
    assert mounts
    assert all("subPath" not in mount for mount in mounts)


def workloads(objects: Objects) -> Objects:
    """Return the objects that make pods."""
    return [item for item in objects if item["kind"] in ("Deployment", "StatefulSet")]


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


def test_selectors_meet(render: Render) -> None:
    """Services, disruption budgets and network policies select the pods of their component, and of no other."""
    objects = render(everything())
    labels = [item["spec"]["template"]["metadata"]["labels"] for item in workloads(objects)]
    selectors = [item["spec"]["selector"] for item in of_kind(objects, "Service").values()]
    selectors += [
        item["spec"]["selector"]["matchLabels"] for item in of_kind(objects, "PodDisruptionBudget").values()
    ]
    selectors += [
        item["spec"]["podSelector"]["matchLabels"] for item in of_kind(objects, "NetworkPolicy").values()
    ]
    assert len(selectors) == 4 + 4 + 6
    for selector in selectors:
        assert sum(selector.items() <= candidate.items() for candidate in labels) == 1


def of_kind(objects: Objects, kind: str) -> dict[str, Any]:
    """Return the objects of a kind by the name of their component."""
    return {
        item["metadata"]["name"].removeprefix("blue-sowline-"): item
        for item in objects
        if item["kind"] == kind
    }


@pytest.mark.parametrize(
    "kind", ["NetworkPolicy", "ServiceMonitor", "PrometheusRule", "HorizontalPodAutoscaler"]
)
def test_what_is_off_by_default(kind: str, render: Render) -> None:
    """What needs something of the cluster is not installed unless it is asked for."""
    assert not of_kind(render(least()), kind)
    assert of_kind(render(everything()), kind)


def test_labels_and_annotations_of_ones_own(render: Render) -> None:
    """They are on every object, labels on pods too, where those of the pods go before; ours stay what they are."""
    objects = render(everything())
    for item in objects:
        labels = item["metadata"]["labels"]
        assert (labels["team"], labels["release"]) == ("data", "prometheus")
        assert labels["app.kubernetes.io/instance"] == "blue"
        assert item["metadata"]["annotations"]["example.com/owner"] == "data"
    for item in workloads(objects):
        labels = item["spec"]["template"]["metadata"]["labels"]
        assert (labels["team"], labels["release"], labels["tier"]) == ("orders", "prometheus", "data")
        assert item["spec"]["selector"]["matchLabels"].keys().isdisjoint(("team", "release", "tier"))


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


def test_autoscaling(render: Render) -> None:
    """It is by CPU, by a metric from elsewhere or by both, and the number of pods is left to it."""
    objects = render(everything())
    scalers = {name: item["spec"] for name, item in of_kind(objects, "HorizontalPodAutoscaler").items()}
    deployments = of_kind(objects, "Deployment")
    assert set(scalers) == {"query-service", "views", "fanout"}
    for name, spec in scalers.items():
        assert spec["scaleTargetRef"]["name"] == deployments[name]["metadata"]["name"]
        assert "replicas" not in deployments[name]["spec"]
    assert (scalers["query-service"]["minReplicas"], scalers["query-service"]["maxReplicas"]) == (2, 8)
    (cpu,) = scalers["query-service"]["metrics"]
    assert cpu["resource"] == {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}}
    (cpu,) = scalers["views"]["metrics"]
    assert cpu["resource"]["target"]["averageUtilization"] == 60
    (lag,) = scalers["fanout"]["metrics"]
    assert lag["external"]["metric"] == {
        "name": "lag",
        "selector": {"matchLabels": {"group": "blue-fanout-late"}},
    }
    assert lag["external"]["target"] == {"type": "AverageValue", "averageValue": "500"}


def test_a_query_service_goes_on_until_no_client_is_sent_to_it(render: Render) -> None:
    """It waits before it closes its sessions; the others have nobody who would be sent to them."""
    found = {name: pod["containers"][0].get("lifecycle") for name, pod in pods(render(everything())).items()}
    assert found.pop("query-service") == {"preStop": {"exec": {"command": ["sleep", "5"]}}}
    assert set(found.values()) == {None}


def ports(rule: Any) -> set[int]:
    """Return the ports of a rule."""
    return {port["port"] for port in rule["ports"]}


def test_network_policies(render: Render) -> None:
    """Clients come to the APIs only, monitoring to each service; from there to Kafka, DNS and what is named."""
    given = everything()["networkPolicy"]
    found = {name: item["spec"] for name, item in of_kind(render(everything()), "NetworkPolicy").items()}
    assert set(found) == {*SERVICES, *PIPELINES}
    for service, port in SERVICES.items():
        (ingress,) = found[service]["ingress"]
        assert ports(ingress) == {port}
        clients = given["clients"] if service == "query-service" else []
        assert ingress["from"] == clients + given["monitoring"]
        dns, kafka, other = found[service]["egress"]
        assert (dns["to"], ports(dns)) == (given["dns"], {53})
        assert (kafka["to"], ports(kafka)) == (given["kafka"]["peers"], {9092, 9094})
        assert [other] == given["egress"]
    for pipeline in PIPELINES:
        assert (found[pipeline]["policyTypes"], found[pipeline]["ingress"]) == (["Ingress"], [])


def test_network_policies_by_default(render: Render) -> None:
    """Anybody may come to the APIs and only nodes elsewhere; Kafka is at the ports of its bootstrap servers."""
    values = least() | {"networkPolicy": {"enabled": True}, "kafka": {"bootstrap": "a:9092,b:9093,c:9092"}}
    found = {name: item["spec"] for name, item in of_kind(render(values), "NetworkPolicy").items()}
    assert [rule.keys() for rule in found["query-service"]["ingress"]] == [{"ports"}]
    assert found["materializer"]["ingress"] == []
    dns, kafka = found["materializer"]["egress"]
    assert "to" not in dns
    assert "to" not in kafka
    assert [port["port"] for port in kafka["ports"]] == [9092, 9093]


def test_monitor_finds_every_service(render: Render) -> None:
    """Each has a Service with the port that is scraped, and becomes the job that alerts ask for."""
    objects = render(everything())
    spec = of_kind(objects, "ServiceMonitor")["blue-sowline"]["spec"]
    (endpoint,) = spec["endpoints"]
    assert (endpoint["path"], endpoint["interval"]) == ("/metrics", "30s")
    assert endpoint["relabelings"][0] == {
        "sourceLabels": ["__meta_kubernetes_service_label_app_kubernetes_io_component"],
        "targetLabel": "job",
        "replacement": "sowline-$1",
    }
    services = of_kind(objects, "Service")
    assert set(services) == set(SERVICES)
    for service in services.values():
        assert spec["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
        assert [port["name"] for port in service["spec"]["ports"]] == [endpoint["port"]]


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


def test_pipeline_is_run_from_its_file(render: Render, tmp_path: Path) -> None:
    """The pod runs the text that was given, letter for letter, and has what its variables stand for."""
    objects = render(everything())
    files = {name: configuration(objects, f"blue-sowline-{name}")["pipeline.yaml"] for name in PIPELINES}
    assert files["pipeline-orders"] == PIPELINE
    path = tmp_path / "pipeline.yaml"
    for name, text in files.items():
        pod = pods(objects)[name]
        container = pod["containers"][0]
        assert container["args"] == ["pipeline", "run", "/etc/sowline/pipeline.yaml"]
        assert container["envFrom"] == [{"secretRef": {"name": "kafka-tls"}}]
        mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        path.write_text(text)
        variables = {key: value for key, value in environment(pod).items() if value is not None}
        pipeline = load_pipeline(path, variables | {"KAFKA_JAAS": "secret"})
        assert Path(pipeline.checkpoint).parent == Path(mounted["data"])
        assert pipeline.sources["drops"].directory == mounted["drops"]
        assert pipeline.sources["drops"].options == {"nullValue": "NO", "comment": "007"}


def test_pipeline_is_one_pod(render: Render) -> None:
    """A checkpoint has one writer, also while the pod is replaced, and its volume outlives the release."""
    objects = render(everything())
    deployments = {item["metadata"]["name"]: item["spec"] for item in workloads(objects)}
    claims = {item["metadata"]["name"]: item for item in objects if item["kind"] == "PersistentVolumeClaim"}
    assert set(claims) == {f"blue-sowline-{name}" for name in PIPELINES}
    for name, claim in claims.items():
        assert (deployments[name]["replicas"], deployments[name]["strategy"]) == (1, {"type": "Recreate"})
        volumes = deployments[name]["template"]["spec"]["volumes"]
        assert {"name": "data", "persistentVolumeClaim": {"claimName": name}} in volumes
        assert claim["spec"]["storageClassName"] == "fast"
        assert claim["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"


def test_changed_file_begins_its_pipeline_again(render: Render) -> None:
    """And no other."""
    other = everything()
    other["pipelines"]["files"]["orders"] += "rows_per_second: 10\n"
    before, after = (
        {item["metadata"]["name"]: item["spec"]["template"] for item in workloads(render(values))}
        for values in (everything(), other)
    )
    changed = {name for name, template in before.items() if template != after[name]}
    assert changed == {"blue-sowline-pipeline-orders"}


def test_version() -> None:
    """The chart installs the version of Sowline that it comes with."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"] == project["version"]


def guarded(**tls: Any) -> Values:
    """Return values with an access file and a certificate."""
    access = {"access": {"secret": "who", "key": "who.yaml"}, "tls": {"secret": "own"} | tls}
    return everything() | {"queryService": access}


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


def test_with_a_certificate_all_is_https(render: Render) -> None:
    """Probes, the service's port and monitoring; those of other services stay as they are."""
    objects = render(guarded())
    container = pods(objects)["query-service"]["containers"][0]
    asked = [container[f"{name}Probe"]["httpGet"] for name in ("startup", "readiness", "liveness")]
    assert {(get["port"], get["scheme"]) for get in asked} == {("https", "HTTPS")}
    (port,) = of_kind(objects, "Service")["query-service"]["spec"]["ports"]
    assert (container["ports"][0]["name"], port["name"], port["targetPort"]) == ("https", "https", "https")
    (monitor,) = of_kind(objects, "ServiceMonitor").values()
    assert [(one["port"], one.get("scheme")) for one in monitor["spec"]["endpoints"]] == [
        ("http", None),
        ("https", "https"),
    ]
    other = pods(objects)["fanout"]["containers"][0]
    assert other["readinessProbe"]["httpGet"]["scheme"] == "HTTP"


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


def test_each_shard_has_pods_of_its_own(render: Render) -> None:
    """A gateway asks all of them, by their names; no query service holds everything."""
    objects = render(sharded())
    sets = {
        name: item
        for name, item in of_kind(objects, "StatefulSet").items()
        if name.startswith("query-service")
    }
    assert set(sets) == {"query-service-0", "query-service-1", "query-service-2"}
    assert set(of_kind(objects, "Deployment")) == {"gateway", "views", "fanout", *PIPELINES}
    for number, item in enumerate(sets.values()):
        template = item["spec"]["template"]
        assert environment(template["spec"])["SOWLINE_SHARD"] == f"{number}/3"
        own = item["spec"]["selector"]["matchLabels"].items()
        assert [
            own <= other["spec"]["template"]["metadata"]["labels"].items() for other in sets.values()
        ] == [other is item for other in sets.values()]
    service = of_kind(objects, "Service")["query-service"]
    assert service["spec"]["clusterIP"] == "None"
    domain = service["metadata"]["name"]
    wanted = [
        f"http://{domain}-{shard}-{replica}.{domain}:8080" for shard in range(3) for replica in range(2)
    ]
    gateway = pods(objects)["gateway"]
    given = environment(gateway)
    assert (given["SOWLINE_NODES"] or "").split(",") == wanted
    mounts = {mount["name"]: mount["mountPath"] for mount in gateway["containers"][0]["volumeMounts"]}
    assert given["SOWLINE_NODES_TOKEN_FILE"] == f"{mounts['nodes']}/token"
    assert given["SOWLINE_NODES_CA_FILE"] == f"{mounts['nodes']}/ca.crt"
    assert of_kind(objects, "HorizontalPodAutoscaler").keys() == {"gateway", "views", "fanout"}
    budgets = of_kind(objects, "PodDisruptionBudget")
    for name, chosen in (("query-service", sets), ("gateway", ["gateway"])):
        selector = budgets[name]["spec"]["selector"]["matchLabels"].items()
        labels = [item["spec"]["template"]["metadata"]["labels"].items() for item in workloads(objects)]
        assert sum(selector <= of for of in labels) == len(chosen)


def test_clients_of_shards_come_to_the_gateway(render: Render) -> None:
    """Only it, and monitoring, may come to the query services; it may go to them."""
    given = sharded()["networkPolicy"]
    found = {name: item["spec"] for name, item in of_kind(render(sharded()), "NetworkPolicy").items()}
    (ingress,) = found["gateway"]["ingress"]
    assert (ports(ingress), ingress["from"]) == ({8070}, given["clients"] + given["monitoring"])
    gateway, nodes = ({"podSelector": found[name]["podSelector"]} for name in ("gateway", "query-service"))
    (ingress,) = found["query-service"]["ingress"]
    assert (ports(ingress), ingress["from"]) == ({8080}, [*given["monitoring"], gateway])
    assert [rule["to"] for rule in found["gateway"]["egress"] if ports(rule) == {8080}] == [[nodes]]
    assert not any(ports(rule) == {8080} for rule in found["query-service"]["egress"])
