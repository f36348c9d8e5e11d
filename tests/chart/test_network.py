"""Who may come to the services that the chart installs, and whom they go to."""

from typing import Any

from tests.chart.conftest import Render, everything, least, sharded
from tests.chart.objects import PIPELINES, SERVICES, guarded, of_kind, pods


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
