"""The objects that the chart installs, by their kind and by the service that they are of."""

from typing import Any

from tests.chart.conftest import Objects, Values, everything, sharded

SERVICES = {"materializer": 8081, "query-service": 8080, "views": 8083, "fanout": 8082}
GATEWAY = "gateway"
PORTS = {**SERVICES, GATEWAY: 8070}
PIPELINES = ["pipeline-clicks", "pipeline-orders"]


def installing(service: str) -> Values:
    """Return values that install the service; a gateway comes with shards only."""
    return sharded() if service == GATEWAY else everything()


def workloads(objects: Objects) -> Objects:
    """Return the objects that make pods."""
    return [item for item in objects if item["kind"] in ("Deployment", "StatefulSet")]


def pods(objects: Objects) -> dict[str, Any]:
    """Return the pod of each service and pipeline by its name."""
    made = (item["spec"]["template"]["spec"] for item in workloads(objects))
    return {pod["containers"][0]["name"]: pod for pod in made}


def environment(pod: Any) -> dict[str, str | None]:
    """Return a pod's environment; None is a value from elsewhere."""
    return {variable["name"]: variable.get("value") for variable in pod["containers"][0]["env"]}


def configuration(objects: Objects, name: str) -> dict[str, str]:
    """Return the files of a ConfigMap."""
    (found,) = [item for item in objects if (item["kind"], item["metadata"]["name"]) == ("ConfigMap", name)]
    data: dict[str, str] = found["data"]
    return data


def of_kind(objects: Objects, kind: str) -> dict[str, Any]:
    """Return the objects of a kind by the name of their component."""
    return {
        item["metadata"]["name"].removeprefix("blue-sowline-"): item
        for item in objects
        if item["kind"] == kind
    }


def guarded(**tls: Any) -> Values:
    """Return values with an access file and a certificate."""
    access = {"access": {"secret": "who", "key": "who.yaml"}, "tls": {"secret": "own"} | tls}
    return everything() | {"queryService": access}
