"""Rendering the chart, and checking what was rendered."""

import copy
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import pytest
import yaml

from tests.chart.kubernetes_schemas import NEWEST, schema_locations

CHART = Path(__file__).parents[2] / "helm" / "sowline"
NEEDS = {"helm_template": ("helm",), "check": ("go", "kubeconform")}
"""The tools that fixtures need."""

Objects = list[dict[str, Any]]
Values = dict[str, Any]


class HelmTemplate(Protocol):
    """Run `helm template` with values, for a version of Kubernetes."""

    def __call__(self, values: Values, kubernetes: str = ...) -> subprocess.CompletedProcess[str]:
        """Return how it ended."""


class Render(Protocol):
    """Render the chart with values, which must be right, for a version of Kubernetes."""

    def __call__(self, values: Values, kubernetes: str = ...) -> Objects:
        """Return the objects."""


class Check(Protocol):
    """Validate objects by the schemas of a version of Kubernetes."""

    def __call__(self, objects: Objects, kubernetes: str = ...) -> list[str]:
        """Return what is wrong with them."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests of the chart with the tools that their fixtures need."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            fixtures = NEEDS.keys() & getattr(item, "fixturenames", ())
            item.add_marker(pytest.mark.needs(*(tool for name in sorted(fixtures) for tool in NEEDS[name])))


PIPELINE = """
name: orders
topic: orders
sources:
  drops: {directory: /drops, format: csv, schema: "id INT, note STRING", options: {nullValue: NO, comment: 007}}
key: id
checkpoint: "${SOWLINE_DATA_DIR}/orders"
kafka_options: {sasl.jaas.config: "${KAFKA_JAAS}"}
"""
"""The file of a pipeline, whose texts YAML takes for others when it is read twice."""


def least() -> Values:
    """Return the least that must be given."""
    return {"kafka": {"bootstrap": "kafka:9092"}, "config": {"topics": [{"name": "orders", "key": ["/id"]}]}}


def everything() -> Values:
    """Return values that switch on whatever there is to switch on."""
    component = {
        "resources": {"requests": {"cpu": 2, "memory": "1Gi"}, "limits": {"memory": "2Gi"}},
        "maxUnavailable": "50%",
        "podAnnotations": {"prometheus.io/scrape": "true"},
        "nodeSelector": {"kubernetes.io/arch": "amd64"},
        "podLabels": {"tier": "data", "team": "orders"},
        "priorityClassName": "high",
        "tolerations": [{"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}],
        "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
    }
    spread = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    service = component | {
        "topologySpreadConstraints": [
            spread | {"topologyKey": "topology.kubernetes.io/zone"},
            spread | {"topologyKey": "rack", "labelSelector": {"matchLabels": {"tier": "data"}}},
        ]
    }
    lag = {"metric": "lag", "selector": {"group": "blue-fanout-late"}, "averageValue": 500}
    monitoring = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    return {
        "image": {"tag": "1.2.3", "pullSecrets": ["registry"]},
        "kafka": {
            "bootstrap": "a:9092,b:9092",
            "optionsSecret": {"name": "kafka-tls"},
            "filesSecret": "kafka-ca",
        },
        "config": {
            "topics": [{"name": "orders", "key": ["/id"], "partitions": 4, "record_bytes_max": 10_000_000}],
            "views": [{"name": "open", "from": "orders", "filter": "/status = 'open'"}],
            "fanouts": [{"name": "late", "topic": "orders", "filter": "/status = 'late'", "options": "oof"}],
        },
        "settings": {
            "batch_records_max": 10_000,
            "result_records_max": 10_000_000,
            "accept_loss": False,
            "group": "blue",
        },
        "traces": {"endpoint": "http://collector:4318"},
        "serviceAccount": {"annotations": {"example.com/role": "sowline"}},
        "commonLabels": {"team": "data", "release": "prometheus"},
        "commonAnnotations": {"example.com/owner": "data"},
        "networkPolicy": {
            "enabled": True,
            "clients": [{"podSelector": {"matchLabels": {"sowline": "client"}}}],
            "monitoring": [monitoring],
            "dns": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}}],
            "kafka": {"peers": [{"ipBlock": {"cidr": "10.1.0.0/16"}}], "ports": [9092, 9094]},
            "egress": [{"to": [{"ipBlock": {"cidr": "10.2.0.0/16"}}], "ports": [{"port": 8083}]}],
        },
        "serviceMonitor": {"enabled": True, "interval": "30s", "labels": {"release": "prometheus"}},
        "alerts": {"enabled": True, "labels": {"release": "prometheus"}},
        "dashboard": {"enabled": True},
        "materializer": service | {"storage": {"className": "fast"}, "standby": True},
        "queryService": service
        | {"autoscaling": {"enabled": True, "maxReplicas": 8}}
        | {"service": {"type": "LoadBalancer", "annotations": {"a": "b"}}},
        "views": service | {"autoscaling": {"enabled": True, "cpuPercent": 60}},
        "fanout": service
        | {"autoscaling": {"enabled": True, "cpuPercent": 0, "maxReplicas": 4, "external": lag}},
        "pipelines": {name: value for name, value in component.items() if name != "maxUnavailable"}
        | {
            "image": {"repository": "registry.example.com/sowline-pipeline"},
            "files": {"orders": PIPELINE, "clicks": PIPELINE.replace("orders", "clicks")},
            "secrets": ["kafka-tls"],
            "storage": {"size": "500Mi", "className": "fast"},
            "volumes": [{"name": "drops", "persistentVolumeClaim": {"claimName": "drops"}}],
            "volumeMounts": [{"name": "drops", "mountPath": "/drops", "readOnly": True}],
        },
    }


def sharded() -> Values:
    """Return values with which query services hold shards."""
    given = everything()
    service = given["queryService"]
    nodes = {name: value for name, value in service.items() if name not in ("autoscaling", "service")}
    return given | {
        "queryService": nodes | {"shards": 3, "replicas": 2, "access": {"secret": "nodes"}},
        "gateway": service | {"nodes": {"secret": "gateway-token", "caKey": "ca.crt"}},
    }


def template(values: Values, kubernetes: str = NEWEST) -> subprocess.CompletedProcess[str]:
    """Run `helm template` with values, for a version of Kubernetes."""
    command = ["helm", "template", "blue", str(CHART), "-f", "-", "--kube-version", kubernetes]
    return subprocess.run(command, input=yaml.safe_dump(values), capture_output=True, text=True)


@pytest.fixture(scope="session")
def helm_template() -> HelmTemplate:
    """Run `helm template` with values: a test that takes it needs Helm."""
    return template


@pytest.fixture(scope="session")
def render(helm_template: HelmTemplate) -> Render:
    """Render the chart with values, which must be right, into its objects: once for the same values."""
    rendered: dict[str, Objects] = {}

    def run(values: Values, kubernetes: str = NEWEST) -> Objects:
        key = json.dumps([kubernetes, values])
        if key not in rendered:
            result = helm_template(values, kubernetes)
            assert result.returncode == 0, result.stderr
            rendered[key] = list(yaml.load_all(result.stdout, yaml.CSafeLoader))
        return copy.deepcopy(rendered[key])

    return run


@pytest.fixture(scope="session")
def refusal(helm_template: HelmTemplate) -> Callable[[Values], str]:
    """Render the chart with values, which must be wrong, and return what Helm says."""

    def run(values: Values) -> str:
        result = helm_template(values)
        assert result.returncode != 0
        return result.stderr

    return run


@pytest.fixture(scope="session")
def check() -> Check:
    """Return what kubeconform finds wrong with objects."""

    def run(objects: Objects, kubernetes: str = NEWEST) -> list[str]:
        locations = [word for one in schema_locations(kubernetes) for word in ("-schema-location", one)]
        command = ["kubeconform", "-strict", "-output", "json", "-verbose", *locations]
        answer = subprocess.run(command, input=yaml.safe_dump_all(objects), capture_output=True, text=True)
        results = json.loads(answer.stdout)["resources"]
        assert len(results) == len(objects), answer.stderr
        return [
            f"{result['kind']}: {result['msg']}" for result in results if result["status"] != "statusValid"
        ]

    return run
