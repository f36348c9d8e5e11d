"""A declared pipeline as a Spark job: its session, its frame, its query."""

import os
from pathlib import Path

from pyspark.sql.streaming.query import StreamingQuery

from ingest.definition import Pipeline, open_pipeline
from ingest.frames import Frames
from ingest.progress import observed
from ingest.syntax import syntax_problems
from sowline.config.settings import read_settings
from sowline.config.topics import TopicDefinition, load_topics
from sowline.config.yaml_file import YamlFileError
from sowline.spark.broker import connected
from sowline.spark.session import spark_session, spark_settings
from sowline.spark.sink import Log, start


class Job:
    """The pipeline of a file, in the Spark session of this process, which it creates.

    `rows_per_second` overrides the value in the file. Raises `bad configuration` with every problem in the file,
    before a session is created. Variables of the file and settings come from the environment.
    """

    def __init__(self, file: Path, *, rows_per_second: float | None = None) -> None:
        self._declaration = open_pipeline(file, os.environ)
        self.pipeline = self._declaration.read(Pipeline)
        if rows_per_second is not None:
            self.pipeline = self.pipeline.model_copy(update={"rows_per_second": rows_per_second})
        if problems := syntax_problems(self.pipeline, self._declaration, spark_settings()):
            raise YamlFileError(problems)
        self._settings = read_settings()
        self._check_definition()
        self.spark = spark_session(self.pipeline.name)

    @property
    def log(self) -> Log:
        """The Kafka topics that the rows are written to."""
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
        """Return the builder of the pipeline's frame."""
        kafka = {f"kafka.{name}": value for name, value in self.pipeline.kafka_options.items()}
        kafka["kafka.bootstrap.servers"] = self._settings.kafka
        return Frames(self.spark, self.pipeline, self._declaration, kafka)

    def start(self, *, once: bool = False) -> StreamingQuery:
        """Start the pipeline and return the running query; with `once` it ends with the available input.

        Raises `invalid topic` if a topic that it reads or writes is missing, and `no kafka`.
        """
        target = self.log
        with connected(self.spark, target.kafka, target.options) as broker:
            for source in self.pipeline.sources.values():
                if source.kafka:
                    broker.partitions(source.kafka)
        return start(observed(self.frames().rows()), target, self.pipeline.checkpoint, once=once)

    def log_records(self) -> int:
        """Return the number of records that the log has taken so far, from all producers."""
        target = self.log
        with connected(self.spark, target.kafka, target.options) as broker:
            return sum(broker.ends(target.topic, broker.partitions(target.topic)).values())

    def rows_expected(self) -> int | None:
        """Return the number of rows of all files, if it is known without reading them: that of Parquet files is."""
        sources = list(self.pipeline.sources.values())
        if len(sources) > 1 or sources[0].format != "parquet":
            return None
        return self.spark.read.options(**sources[0].options).parquet(sources[0].directory).count()

    def _check_definition(self) -> None:
        """Compare the file with the topic's definition, if there is a `topics.yaml` that defines the topic."""
        pipeline, config = self.pipeline, self._settings.config
        if not config.exists():
            return
        found = [one for one in load_topics(config).topics if one.name == pipeline.topic]
        for topic in found:
            if topic.log != pipeline.log_topic:
                self._refuse(
                    ("log",),
                    f"expected {topic.log}, the log of the topic in {config}, got {pipeline.log_topic}",
                )
            if topic.key_rule.takes_header != pipeline.key_header and topic.has_sow:
                wanted = "true" if topic.key_rule.takes_header else "false"
                self._refuse(("key_header",), f"expected key_header: {wanted}, by the topic in {config}")
            if topic.preprocess is None and not _can_be(pipeline, topic):
                self._refuse(
                    ("key",), f"expected the key of the topic in {config}, {', '.join(topic.key_sent)}"
                )

    def _refuse(self, location: tuple[str], reason: str) -> None:
        raise YamlFileError([self._declaration.problem(location, reason)])


def _can_be(pipeline: Pipeline, topic: TopicDefinition) -> bool:
    """Whether the columns can be the key's fields: their number fits and, if the columns are the body, their names
    do.
    """
    if not topic.key_paths:  # the body has no key fields: any column will do
        return True
    if pipeline.body is not None:
        return len(pipeline.key) == len(topic.key_sent)
    return [f"/{name}" for name in pipeline.key] == topic.key_sent
