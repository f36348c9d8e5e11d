"""What a declared pipeline will do, as text: where rows come from and go to, their columns."""

from pathlib import Path

from ingest.job import Job


def explain(file: Path, *, with_plan: bool = False) -> str:
    """Return the text, with Spark's plan if wanted; nothing is read but what Spark asks before it starts."""
    job = Job(file)
    pipeline, frames = job.pipeline, job.frames()
    query = frames.rows()._jdf.queryExecution()
    told = [
        f"pipeline   {pipeline.name}",
        f"publisher  {', '.join(f'{pipeline.name}/{name}/<partition>' for name in pipeline.sources)}",
        f"log        {pipeline.log_topic}",
        f"dead       {pipeline.dead_topic}",
        f"checkpoint {pipeline.checkpoint}",
        "rows",
        *(f"  {name} {type}" for name, type in frames.columns),
    ]
    if with_plan:
        told.append(str(job.spark._jvm.PythonSQLUtils.explainString(query, "simple")).strip())  # type: ignore[union-attr]
    return "\n".join(told)
