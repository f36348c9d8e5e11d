"""What may be given to the chart, what is refused, and that every value is described."""

import json
import re
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import Any

import pytest
import yaml

from tests.chart.conftest import CHART, Render, Values, least


def wrong(path: str, value: Any) -> Values:
    """Return the least values with `value` at a dotted path."""
    values = least()
    *parents, last = path.split(".")
    node: Any = values
    for parent in parents:
        node = node.setdefault(parent, {})
    node[last] = value
    return values


ORDERS = least()["config"]["topics"][0]
CALM = {"name": "calm", "from": "orders", "interval": "1s"}


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("kafka.bootstrap", "", "/kafka/bootstrap"),
        ("kafka.bootstrap", "kafka", "/kafka/bootstrap"),
        ("config.topics", [], "/config/topics"),
        ("config.topics", [{"key": ["/id"]}], "'name'"),
        ("config.views", [{"name": "open"}], "'from'"),
        ("config.fanouts", [{"name": "late"}], "'topic'"),
        ("config.topics", [ORDERS | {"partition": 4}], "'partition' not allowed"),
        ("config.topics", [ORDERS | {"partitions": 0}], "/config/topics/0/partitions"),
        ("config.topics", [ORDERS | {"name": ""}], "/config/topics/0/name"),
        ("config.topics", [ORDERS | {"history": {"windw": "1d"}}], "'windw' not allowed"),
        ("config.views", [{"name": "open", "from": "orders", "filtr": "/a = 1"}], "'filtr' not allowed"),
        ("config.conflated", [{"name": "calm", "from": "orders"}], "'interval'"),
        ("config.conflated", [CALM | {"intervals": "2s"}], "'intervals' not allowed"),
        ("config.fanouts", [{"name": "late", "topic": "orders", "option": "oof"}], "'option' not allowed"),
        ("config", {"topics": [ORDERS], "topic": []}, "'topic' not allowed"),
        ("image.pullPolicy", "Sometimes", "/image/pullPolicy"),
        ("materializer.replicas", -1, "/materializer/replicas"),
        ("materializer.replicas", "two", "/materializer/replicas"),
        ("materializer.standby", "yes", "/materializer/standby"),
        ("materializer.storage.size", "big", "/materializer/storage/size"),
        ("materializer.autoscaling", {"enabled": True}, "'autoscaling' not allowed"),
        ("materializer.topologySpreadConstraints", [{"maxSkew": 1}], "'topologyKey'"),
        ("queryService.autoscaling.minReplicas", 0, "/queryService/autoscaling/minReplicas"),
        ("fanout.autoscaling.external.averageValue", "much", "/fanout/autoscaling/external/averageValue"),
        ("fanout.podLabels", {"app.kubernetes.io/name": "mine"}, "invalid propertyName"),
        ("commonLabels", {"app.kubernetes.io/instance": "mine"}, "invalid propertyName"),
        ("networkPolicy.clients", [{}], "/networkPolicy/clients/0"),
        ("networkPolicy.monitoring", [{"namespace": "monitoring"}], "'namespace' not allowed"),
        ("networkPolicy.kafka.ports", [0], "/networkPolicy/kafka/ports/0"),
        ("serviceMonitor.interval", "often", "/serviceMonitor/interval"),
        ("queryService.port", 70000, "/queryService/port"),
        ("queryService.service.type", "ExternalName", "/queryService/service/type"),
        ("queryService.maxUnavailable", "half", "/queryService/maxUnavailable"),
        ("queryService.access.key", "", "/queryService/access/key"),
        ("queryService.access.key", "../topics.yaml", "/queryService/access/key"),
        ("queryService.access.file", "access.yaml", "'file' not allowed"),
        ("queryService.tls.clientCa", "/etc/ca.crt", "/queryService/tls/clientCa"),
        ("queryService.tls.clientRequired", "yes", "/queryService/tls/clientRequired"),
        ("materializer.tls", {"secret": "own"}, "'tls' not allowed"),
        ("settings.tls_cert", "/etc/tls.crt", "'tls_cert' not allowed"),
        ("settings.access", "/etc/access.yaml", "'access' not allowed"),
        ("pipelines.files", {"orders": {"name": "orders"}}, "/pipelines/files/orders"),
        ("pipelines.files", {"orders": " \n"}, "/pipelines/files/orders"),
        ("pipelines.files", {"my.orders": "name: orders"}, "invalid propertyName 'my.orders'"),
        ("pipelines.files", {"o" * 41: "name: orders"}, "invalid propertyName"),
        ("pipelines.secrets", "kafka", "/pipelines/secrets"),
        ("pipelines.storage.size", "big", "/pipelines/storage/size"),
        ("pipelines.volumeMounts", ["/drops"], "/pipelines/volumeMounts"),
        ("settings.port", 1, "'port' not allowed"),
        ("settings.standby", True, "'standby' not allowed"),
        ("settings.group", ["x"], "/settings/group"),
        ("settings.batch_records_max", 0, "/settings/batch_records_max"),
    ],
)
def test_wrong_value(path: str, value: Any, message: str, refusal: Callable[[Values], str]) -> None:
    """A wrong value is refused before anything is installed, and Helm says where it is."""
    answer = refusal(wrong(path, value))
    assert "don't meet the specifications of the schema" in answer
    assert message in answer


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"preStopSeconds": 30},
            "expected preStopSeconds below terminationGracePeriodSeconds, got 30 and 30",
        ),
        (
            {"autoscaling": {"enabled": True, "maxReplicas": 1}},
            "expected autoscaling.minReplicas of at most maxReplicas, got 2 and 1",
        ),
        (
            {"autoscaling": {"enabled": True, "cpuPercent": 0}},
            "expected autoscaling.cpuPercent above 0 or the name of autoscaling.external.metric, got neither",
        ),
        (
            {"access": {"secret": "a", "configMap": "b"}},
            "expected access.secret or access.configMap, got a and b",
        ),
        (
            {"tls": {"clientCa": "ca.crt"}},
            "expected tls.secret, in which tls.clientCa is a key, got none",
        ),
        (
            {"tls": {"secret": "own", "clientRequired": True}},
            "expected tls.clientCa where tls.clientRequired is true, got none",
        ),
        (
            {"autoscaling": {"enabled": True}, "resources": {"requests": {"cpu": None}}},
            "expected resources.requests.cpu, of which autoscaling.cpuPercent is a share, got none",
        ),
    ],
)
def test_values_that_do_not_go_together(
    values: Values, message: str, refusal: Callable[[Values], str]
) -> None:
    """They are refused with a sentence that names the service, what was expected and what came."""
    assert f"query-service: {message}" in refusal(least() | {"queryService": values})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"queryService": {"shards": 2}, "gateway": {"nodes": {"secret": "token"}}},
            "query-service: expected queryService.access with shards",
        ),
        (
            {"queryService": {"shards": 2, "access": {"secret": "nodes"}}},
            "gateway: expected gateway.nodes.secret, with the token",
        ),
        (
            {
                "queryService": {"shards": 2, "autoscaling": {"enabled": True}},
                "gateway": {"nodes": {"secret": "a"}},
            },
            "query-service: expected no autoscaling with shards",
        ),
    ],
)
def test_shards_need_a_gateway(values: Values, message: str, refusal: Callable[[Values], str]) -> None:
    """Which the query services must know."""
    assert message in refusal(least() | values)


def test_variables_of_the_environment(render: Render) -> None:
    """Definitions may have them instead of any value, as in topics.yaml, and numbers and switches as such."""
    topic = {"name": "${TOPIC}", "key": "/id", "partitions": "${PARTITIONS:-2}", "expiration": "${LIFETIME}"}
    fanout = {"name": 7, "topic": "${TOPIC}", "delta": "${DELTA}", "as": "${TYPE:-json}"}
    config = {"topics": [topic], "conflated": [CALM | {"delta": True}], "fanouts": [fanout]}
    maps = [one["data"] for one in render(least() | {"config": config}) if one["kind"] == "ConfigMap"]
    written = yaml.safe_load(next(data["topics.yaml"] for data in maps if "topics.yaml" in data))
    assert written == config | {"views": []}


SCHEMA = json.loads((CHART / "values.schema.json").read_text())

OPEN = {
    "/global": "Helm fills it in with values of the chart that this one is part of",
    "*/labels": "users name labels",
    "*Labels": "users name labels",
    "*nnotations": "users name annotations",
    "*/nodeSelector": "users name the labels of Kubernetes nodes",
    "*/external/selector": "users name the labels of a metric",
    "*/resources/requests": "clusters have resources of their own, such as GPUs",
    "*/resources/limits": "clusters have resources of their own, such as GPUs",
    "*/podSelector": "Kubernetes defines and checks it",
    "*/namespaceSelector": "Kubernetes defines and checks it",
    "*/ipBlock": "Kubernetes defines and checks it",
    "/networkPolicy/egress/0": "Kubernetes defines and checks it",
    "*/tolerations/0": "Kubernetes defines and checks it",
    "*/topologySpreadConstraints/0": "Kubernetes defines and checks it",
    "*/affinity": "Kubernetes defines and checks it",
    "/pipelines/volumes/0": "Kubernetes defines and checks it",
    "/pipelines/volumeMounts/0": "Kubernetes defines and checks it",
    "/pipelines/files": "users name pipelines",
    "/config/topics/0/template": "users name the fields of their records",
    "/config/topics/0/key/options": "each key generator has options of its own",
    "/config/topics/0/schemas": "users name schemas",
    "/config/*/references": "schemas name those that they refer to",
    "/config/*/names": "FIX has numbers for fields",
    "/config/*/groups": "FIX has numbers for fields",
    "/config/*/data": "FIX has numbers for fields",
    "/config/*/namespaces": "users name the prefixes of XML",
}
"""The objects that can have any field, by the pattern of their path, and why."""


def objects(schema: Any, path: str = "", inside: tuple[str, ...] = ()) -> Iterator[tuple[str, bool]]:
    """Yield the path of each object that a schema accepts, and whether it refuses unknown fields.

    A schema without a type accepts objects, too. `inside` has the definitions that lead to this one.
    """
    if schema in (True, False):
        schema = {} if schema else {"enum": []}
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/definitions/")
        schema, inside = {"enum": []} if name in inside else SCHEMA["definitions"][name], (*inside, name)
    if "type" not in schema and schema.keys() & {"anyOf", "oneOf", "enum"}:
        for alternative in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
            yield from objects(alternative, path, inside)
        return
    if "object" in schema.get("type", ["object"]):
        others = schema.get("additionalProperties", True)
        yield path, others is False
        fields = {"any": others} if "type" in schema and others is not True else {}
        for name, field in (fields | schema.get("properties", {})).items():
            yield from objects(field, f"{path}/{name}", inside)
    if "array" in schema.get("type", []):
        yield from objects(schema.get("items", True), f"{path}/0", inside)


OBJECTS = list(objects(SCHEMA))


def test_every_object_is_closed_or_open_on_purpose() -> None:
    """An object whose fields the chart knows refuses any other; the reasons for the rest are in `OPEN`."""
    reasons = {
        path: [one for one in OPEN if fnmatchcase(path, one)] for path, closed in OBJECTS if not closed
    }
    assert [path for path, found in reasons.items() if not found] == []
    assert {one for found in reasons.values() for one in found} == OPEN.keys()


def add_unknown(values: Values, path: str) -> None:
    """Put an unknown field into the object at a path, and make what leads to it."""
    node: Any = values
    steps = path.split("/")[1:]
    for step, following in pairwise([*steps, ""]):
        new: Any = [{}] if following == "0" else {}
        node = node.setdefault(step, new) if isinstance(node, dict) else node[0]
    node["unknown"] = 1


def test_unknown_values(refusal: Callable[[Values], str]) -> None:
    """A value that the chart does not know is refused in every closed object: a misspelt one is not ignored."""
    values = least()
    del values["config"]["topics"][0]["key"]
    closed = {path for path, is_closed in OBJECTS if is_closed}
    for path in sorted(closed):
        add_unknown(values, path)
    message = refusal(values)
    complained = set(re.findall(r"at '(.*)': additional properties 'unknown' not allowed", message))
    assert len(closed) > 60
    assert complained == closed


def described(schema: Values, path: str = "") -> dict[str, str]:
    """Return the description of each value by its path."""
    found = {path: schema.get("description", "")} if path else {}
    for name, child in schema.get("properties", {}).items():
        found |= described(child, f"{path}.{name}" if path else name)
    return found


def commented() -> dict[str, str]:
    """Return the comment above each value of values.yaml by its path."""
    found: dict[str, str] = {}
    stack: list[str] = []
    comment = ""
    for line in (CHART / "values.yaml").read_text().splitlines():
        key = re.match(r"( *)(\w+):", line)
        if key:
            stack = [*stack[: len(key[1]) // 2], key[2]]
            found[".".join(stack)] = comment
        comment = line.strip().removeprefix("# ") if line.strip().startswith("#") else ""
    return found


def test_every_value_is_described() -> None:
    """Each value has a description in the schema, and the same one above it in values.yaml."""
    in_schema = described(SCHEMA)
    assert [path for path, text in in_schema.items() if not text] == []
    in_values = {
        path: text for path, text in commented().items() if not path.endswith((".requests", ".limits"))
    }
    assert in_values == {path: in_schema[path] for path in in_values}


def test_every_value_has_a_default() -> None:
    """values.yaml holds every value that the schema knows, but for `settings`, whose defaults are the services'."""
    values = yaml.safe_load((CHART / "values.yaml").read_text())

    def is_there(path: str) -> bool:
        node: Any = values
        for step in path.split("."):
            if not isinstance(node, dict) or step not in node:
                return False
            node = node[step]
        return True

    missing = {path for path in described(SCHEMA) if not is_there(path)}
    assert {path for path in missing if not path.startswith("settings.")} == {"global"}


def test_documented_values(render: Render) -> None:
    """The values that docs/deploy.md shows install a chart, the first alone and the others beside it."""
    text = (CHART.parents[1] / "docs" / "deploy.md").read_text(encoding="utf-8")
    first, *others = (
        yaml.safe_load(example) for example in re.findall(r"```yaml\n(# values.yaml.*?)```", text, re.DOTALL)
    )
    assert render(first)
    assert len(others) == 4
    for values in others:
        assert render(first | values) != render(first)
