"""Pipelines that the chart installs: each is one pod, which runs its file."""

from pathlib import Path

from sowline_ingest.definition import load_pipeline
from tests.chart.conftest import PIPELINE, Render, everything
from tests.chart.objects import PIPELINES, configuration, environment, pods, workloads


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
