"""What the chart installs is what Kubernetes accepts, and what the services expect."""

import tomllib
from pathlib import Path

import pytest
import yaml

from sowline.config.topics import load_topics
from tests.chart.conftest import CHART, Check, HelmTemplate, Render, Values, everything, least, sharded
from tests.chart.kubernetes_schemas import NEWEST, OLDEST, VERSIONS
from tests.chart.objects import PIPELINES, SERVICES, configuration, environment, of_kind, pods, workloads

ROOT = CHART.parents[1]
PLATFORMS = ROOT / "docs/platforms.md"


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


def test_version() -> None:
    """The chart installs the version of Sowline that it comes with."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"] == project["version"]


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
