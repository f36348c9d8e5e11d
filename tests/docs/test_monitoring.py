"""Dashboard and alerts ask Prometheus for metrics that there are; each alert has a runbook."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml

from tests.docs.metric_names import ROOT, metrics

DEPLOY = ROOT / "deploy"
ALERTS: list[dict[str, Any]] = [
    rule
    for group in yaml.safe_load((DEPLOY / "prometheus" / "alerts.yaml").read_text())["groups"]
    for rule in group["rules"]
]
DASHBOARD = json.loads((DEPLOY / "grafana" / "sowline.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
CASES = Path(__file__).with_name("alerts_test.yaml")
RUNBOOKS = (ROOT / "docs" / "runbooks.md").read_text()
OF_PROMETHEUS = {"up"}
# What Grafana puts in place of its variables before it asks.
GRAFANA = {"$__rate_interval": "1m", "$namespace": ".*", "$instance": ".*"}


def grafana() -> list[str]:
    """Return the dashboard's expressions as Prometheus is asked them."""
    asked = [target["expr"] for panel in PANELS for target in panel["targets"]]
    for name, value in GRAFANA.items():
        asked = [expression.replace(name, value) for expression in asked]
    return asked


def alerts() -> list[str]:
    """Return the alerts' expressions."""
    return [rule["expr"] for rule in ALERTS]


def named(expression: str) -> set[str]:
    """Return the metrics that an expression names; of a histogram the series are no metrics of their own."""
    series = re.findall(r"\bsowline_\w+", expression)
    return {re.sub(r"_seconds_(bucket|sum|count)$", "_seconds", one) for one in series}


def complaint(expression: str) -> str | None:
    """Return what Prometheus would say of an expression; None if it takes it."""
    try:
        promql_parser.parse(expression)
    except ValueError as error:
        return str(error)
    return None


def test_prometheus_takes_the_expressions() -> None:
    """They are PromQL, and nothing that Grafana was to replace is left in them."""
    asked = [*alerts(), *grafana()]
    assert [expression for expression in asked if "$" in expression] == []
    assert {expression: complaint(expression) for expression in asked if complaint(expression)} == {}


@pytest.mark.parametrize("wrong", ["ratio(up[5m])", "rate(up[5m]", "rate(up)", "up{job=}", "up and > 0"])
def test_mistakes_would_be_found(wrong: str) -> None:
    """What Prometheus refuses is complained of."""
    assert complaint(wrong)


def test_every_alert_is_tried() -> None:
    """The file of series has a case in which it fires."""
    tried = yaml.safe_load(CASES.read_text())["tests"]
    firing = {case["alertname"] for of in tried for case in of["alert_rule_test"] if case.get("exp_alerts")}
    assert firing == {rule["alert"] for rule in ALERTS}


@pytest.mark.needs("promtool")
def test_alerts_fire_when_they_should() -> None:
    """And not when they shouldn't: Prometheus' own tool tries every one, on series that a file gives."""
    answer = subprocess.run(["promtool", "test", "rules", CASES], capture_output=True, text=True)
    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_every_metric_asked_for_is_there() -> None:
    """Alerts and dashboard name metrics of the services; the dashboard shows every one."""
    assert {name for expression in alerts() for name in named(expression)} <= set(metrics())
    assert {name for expression in grafana() for name in named(expression)} == set(metrics())


def test_counters_are_asked_for_their_rate() -> None:
    """And gauges are not: their rate means nothing."""
    kinds = metrics()
    for expression in [*alerts(), *grafana()]:
        rated = named(" ".join(re.findall(r"(?:rate|increase)\((sowline_\w+)", expression)))
        assert {kinds[name] for name in rated} <= {"counter", "histogram"}, expression
        assert {name for name in named(expression) if kinds[name] != "gauge"} <= rated, expression


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_an_alert_says_what_to_do(rule: dict[str, Any]) -> None:
    """It waits, tells how bad it is and what to do, and leads to its section, which says the three things."""
    assert rule["for"]
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    assert rule["annotations"]["summary"]
    assert rule["annotations"]["description"].endswith(f". See docs/runbooks.md, {rule['alert']}")
    page, _, section = rule["annotations"]["runbook_url"].partition("#")
    assert (page, section) == ("docs/runbooks.md", rule["alert"].lower())
    text = RUNBOOKS.split(f"## {rule['alert']}\n")[1].split("\n## ")[0]
    assert re.findall(r"^\*\*(\w+)\.\*\*", text, re.MULTILINE) == ["Meaning", "Diagnosis", "Fix"]


def test_every_runbook_has_its_alert() -> None:
    """No section is left of an alert that went, and none has two."""
    assert re.findall(r"^## (.*)$", RUNBOOKS, re.MULTILINE) == [rule["alert"] for rule in ALERTS]


def test_every_metric_is_described_as_what_it_is() -> None:
    """The page has each metric with its kind, and no other."""
    text = (ROOT / "docs" / "metrics.md").read_text()
    assert dict(re.findall(r"^\| `(sowline_\w+)` \| (\w+) \|", text, re.MULTILINE)) == metrics()


def test_the_dashboard_can_be_read() -> None:
    """Each panel has a title, a unit and an expression, and a place that no other has."""
    cells: set[tuple[int, ...]] = set()
    for panel in PANELS:
        assert panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"]
        assert panel["targets"]
        at = panel["gridPos"]
        taken = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & taken, panel["title"]
        cells |= taken
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
