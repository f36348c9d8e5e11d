"""A declared pipeline as a Spark job: its session, its frame, its query."""

import os
from dataclasses import replace
from pathlib import Path

from pyspark.sql.streaming.query import StreamingQuery

from ingest.definition import Pipeline, open_pipeline
from ingest.frames import Frames
from ingest.progress import observed
from ingest.syntax import syntax_problems
from sowline.declared import DeclarationError
from sowline.settings import Settings
from sowline.spark.broker import connected
from sowline.spark.session import spark_session, spark_settings
from sowline.spark.sink import Log, start


class Job:
    """The pipeline of a file, in the Spark session of this process, which is made here.

    Raises `bad configuration` with all that is wrong in the file, before there is a session. Variables of the file
    and settings come from the environment.
    """

    def __init__(self, file: Path) -> None:
        self._declaration = open_pipeline(file, os.environ)
        self.pipeline = self._declaration.read(Pipeline)
        if problems := syntax_problems(self.pipeline, self._declaration, spark_settings()):
            raise DeclarationError(problems)
        self._settings = Settings()
        self.spark = spark_session(self.pipeline.name)

    @property
    def log(self) -> Log:
        """Where the rows are written."""
        pipeline = self.pipeline
        return Log(
            pipeline.log_topic,
            self._settings.kafka,
            pipeline.name,
            pipeline.dead_topic,
            pipeline.rows_per_second,
            pipeline.kafka_options,
        )

    def frames(self) -> Frames:
        """Return the builder of its frame."""
        kafka = {f"kafka.{name}": value for name, value in self.pipeline.kafka_options.items()}
        kafka["kafka.bootstrap.servers"] = self._settings.kafka
        return Frames(self.spark, self.pipeline, self._declaration, kafka)

    def start(self, *, once: bool = False, rows_per_second: float | None = None) -> StreamingQuery:
        """Start it, and return the running query; with `once` it ends with the input there is.

        `rows_per_second` takes the place of what the file says. Raises `invalid topic` where one that it reads or
        writes is missing, and `no kafka`.
        """
        target = self.log
        if rows_per_second is not None:
            target = replace(target, rows_per_second=rows_per_second)
        self._check_topics(target)
        return start(observed(self.frames().rows()), target, self.pipeline.checkpoint, once=once)

    def rows_expected(self) -> int | None:
        """Return how many rows there are in all, where the files say so themselves: those of Parquet do."""
        sources = list(self.pipeline.sources.values())
        if len(sources) > 1 or sources[0].format != "parquet":
            return None
        return self.spark.read.options(**sources[0].options).parquet(sources[0].directory).count()

    def _check_topics(self, target: Log) -> None:
        sources = [source.kafka for source in self.pipeline.sources.values() if source.kafka]
        with connected(self.spark, target.kafka, target.options) as broker:
            for name in (target.topic, target.dead or "", *sources):
                broker.partitions(name)
