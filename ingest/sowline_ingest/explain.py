"""The explanation of a declared pipeline: its sources, its target and its columns."""

from pathlib import Path
from typing import TypedDict

from sowline_ingest.job import Job


class _Required(TypedDict):
    """An explanation without the plan."""

    pipeline: str
    publishers: list[str]
    log: str
    dead: str
    checkpoint: str
    rows: dict[str, str]


class Explanation(_Required, total=False):
    """The explanation of a pipeline: `rows` are the types of its columns by name, `plan` is Spark's plan."""

    plan: str


def explain(file: Path, *, with_plan: bool = False) -> Explanation:
    """Return the explanation, with Spark's plan if requested. Spark reads only what the plan needs."""
    job = Job(file)
    pipeline, frames = job.pipeline, job.frames()
    query = frames.rows()._jdf.queryExecution()
    explanation: Explanation = {
        "pipeline": pipeline.name,
        "publishers": [f"{pipeline.name}/{name}/<partition>" for name in pipeline.sources],
        "log": pipeline.log_topic,
        "dead": pipeline.dead_topic,
        "checkpoint": str(pipeline.checkpoint),
        "rows": dict(frames.columns),
    }
    if with_plan:
        explanation["plan"] = str(job.spark._jvm.PythonSQLUtils.explainString(query, "simple")).strip()  # type: ignore[union-attr]
    return explanation


def text_of(explanation: Explanation) -> str:
    """Return the explanation as text for a person."""
    lines = [
        f"pipeline   {explanation['pipeline']}",
        f"publisher  {', '.join(explanation['publishers'])}",
        f"log        {explanation['log']}",
        f"dead       {explanation['dead']}",
        f"checkpoint {explanation['checkpoint']}",
        "rows",
        *(f"  {name} {type}" for name, type in explanation["rows"].items()),
    ]
    return "\n".join([*lines, explanation["plan"]] if "plan" in explanation else lines)
