"""The chart installs the alerts and the dashboard that the repository has, and no others."""

from typing import Any

import yaml

from tests.chart.conftest import CHART, Check, Objects, Render, everything, least

DEPLOY = CHART.parents[1] / "deploy"
ALERTS, DASHBOARD = DEPLOY / "prometheus" / "alerts.yaml", DEPLOY / "grafana" / "sowline.json"


def one(objects: Objects, kind: str, name: str) -> Any:
    """Return an object."""
    (found,) = [item for item in objects if (item["kind"], item["metadata"]["name"]) == (kind, name)]
    return found


def test_the_files_of_the_chart_are_those_of_the_repository() -> None:
    """Each exists once: the chart links to it, and Helm follows the link."""
    for name, file in (("alerts.yaml", ALERTS), ("dashboard.json", DASHBOARD)):
        assert (CHART / "files" / name).resolve() == file


def test_the_alerts_are_those_that_are_tried(render: Render) -> None:
    """With their expressions and texts, in which Helm replaces nothing."""
    rule = one(render(everything()), "PrometheusRule", "blue-sowline")
    assert rule["spec"] == yaml.safe_load(ALERTS.read_text())
    assert rule["metadata"]["labels"]["release"] == "prometheus"


def test_the_dashboard_is_found_by_its_label(render: Render) -> None:
    """The one by which the sidecar of Grafana's chart finds dashboards, or others."""
    dashboard = one(render(everything()), "ConfigMap", "blue-sowline-dashboard")
    assert dashboard["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert dashboard["data"]["sowline.json"].strip() == DASHBOARD.read_text().strip()
    given = {"enabled": True, "labels": {"dashboards": "ours"}}
    other = one(render(least() | {"dashboard": given}), "ConfigMap", "blue-sowline-dashboard")
    assert other["metadata"]["labels"]["dashboards"] == "ours"


def test_each_is_there_when_it_is_asked_for(render: Render, check: Check) -> None:
    """Without the other things that the cluster may lack."""
    plain = {(item["kind"], item["metadata"]["name"]) for item in render(least())}
    objects = render(least() | {"alerts": {"enabled": True}, "dashboard": {"enabled": True}})
    added = {(item["kind"], item["metadata"]["name"]) for item in objects} - plain
    assert added == {("PrometheusRule", "blue-sowline"), ("ConfigMap", "blue-sowline-dashboard")}
    assert check(objects) == []
