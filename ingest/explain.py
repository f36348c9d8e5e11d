"""What a declared pipeline will do, as text: where rows come from and go to, their columns, and Spark's plan."""

from pathlib import Path

from ingest.job import Job


def explain(file: Path) -> str:
    """Return the text; nothing is read but what Spark asks of a source before it starts."""
    job = Job(file)
    pipeline, frames = job.pipeline, job.frames()
    query = frames.rows()._jdf.queryExecution()
    plan = job.spark._jvm.PythonSQLUtils.explainString(query, "simple")  # type: ignore[union-attr]
    return "\n".join(
        [
            f"pipeline   {pipeline.name}",
            f"publisher  {', '.join(f'{pipeline.name}/{name}/<partition>' for name in pipeline.sources)}",
            f"log        {pipeline.log_topic}",
            f"dead       {pipeline.dead_topic}",
            f"checkpoint {pipeline.checkpoint}",
            "rows",
            *(f"  {name} {type}" for name, type in frames.columns),
            str(plan).strip(),
        ]
    )
