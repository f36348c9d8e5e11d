"""A declared pipeline as a Spark job: its session, its frame, its query."""

import os
from pathlib import Path
from typing import NoReturn

from pyspark.sql.streaming.query import StreamingQuery

from sowline.config.declared_topic import JSON
from sowline.config.settings import read_settings
from sowline.config.topic_definition import TopicDefinition
from sowline.config.topics import load_topics
from sowline.config.yaml_file import YamlFileError
from sowline.spark.broker import connected
from sowline.spark.session import spark_session, spark_settings
from sowline.spark.sink import Log, start
from sowline.spark.typed_rows import check_writable, typed_definition
from sowline_ingest.definition import Pipeline, open_pipeline
from sowline_ingest.frames import Frames
from sowline_ingest.progress import observed
from sowline_ingest.sources import without_limits
from sowline_ingest.syntax import syntax_problems


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
        self.definition = self._checked_definition()
        """The topic in `topics.yaml`; None if there is no such file, or it does not define the topic."""
        # Last: a session takes seconds, and a mistake in the file should be reported at once.
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

    def frames(self, *, of_sample: int | None = None) -> Frames:
        """Return the builder of the pipeline's frame; with `of_sample`, for micro-batches of about this many rows."""
        kafka = {f"kafka.{name}": value for name, value in self.pipeline.kafka_options.items()}
        kafka["kafka.bootstrap.servers"] = self._settings.kafka
        pipeline = self.pipeline if of_sample is None else _in_small_batches(self.pipeline, of_sample)
        typed = None
        if self.definition is not None and self.definition.message_type != JSON:
            typed = self.definition
            check_writable(typed)
        return Frames(self.spark, pipeline, self._declaration, kafka, self._settings.registry, typed)

    def check_topics(self) -> None:
        """Raise `invalid topic` if a Kafka topic that the pipeline reads or writes is missing, and `no kafka`.

        Raise `bad configuration` if messages on the log have a schema, and `topics.yaml` does not define the topic.
        """
        target = self.log
        with connected(self.spark, target.kafka, target.options) as broker:
            for source in self.pipeline.sources.values():
                if source.kafka:
                    broker.partitions(source.kafka)
            broker.partitions(target.topic)
            typed_definition(broker, target.topic, self._settings.config)

    def start(self, *, once: bool = False) -> StreamingQuery:
        """Start the pipeline and return the running query; with `once` it ends with the available input.

        Raises `invalid topic` if a topic that it reads or writes is missing, and `no kafka`.
        """
        self.check_topics()
        return start(observed(self.frames().rows()), self.log, self.pipeline.checkpoint, once=once)

    def log_records(self) -> int:
        """Return the number of records that the log has taken so far, from all producers."""
        target = self.log
        with connected(self.spark, target.kafka, target.options) as broker:
            return sum(broker.ends(target.topic, broker.partitions(target.topic)).values())

    def rows_expected(self) -> int | None:
        """Return the number of rows of all files if it is known without reading them, as for Parquet files."""
        sources = list(self.pipeline.sources.values())
        if len(sources) > 1 or sources[0].format != "parquet":
            return None
        return self.spark.read.options(**sources[0].options).parquet(sources[0].directory).count()

    def _checked_definition(self) -> TopicDefinition | None:
        """Return the topic's definition, if there is one, and compare it with the file."""
        pipeline, config = self.pipeline, self._settings.config
        if not config.exists():
            return None
        topic = next((one for one in load_topics(config).topics if one.name == pipeline.topic), None)
        if topic is None:
            return None
        if topic.log != pipeline.log_topic:
            self.refuse(
                ("log",),
                f"expected {topic.log}, the log of the topic in {config}, got {pipeline.log_topic}",
            )
        if topic.key_rule.takes_header != pipeline.key_header and topic.has_sow:
            wanted = "true" if topic.key_rule.takes_header else "false"
            self.refuse(("key_header",), f"expected key_header: {wanted}, by the topic in {config}")
        if topic.preprocess is None and not _can_be(pipeline, topic):
            self.refuse(("key",), f"expected the key of the topic in {config}, {', '.join(topic.key_sent)}")
        return topic

    def refuse(self, location: tuple[str, ...], reason: str) -> NoReturn:
        """Raise `bad configuration` with the line of a field of the file."""
        raise YamlFileError([self._declaration.problem(location, reason)])


def _in_small_batches(pipeline: Pipeline, rows: int) -> Pipeline:
    """Return the pipeline with limits for its micro-batches: `rows` Kafka records, and one file."""
    sources = {}
    for name, source in pipeline.sources.items():
        # Spark takes only one limit of a source, in files or in bytes: the file's own one would conflict with that of
        # the sample.
        limit = {"maxOffsetsPerTrigger": str(rows)} if source.kafka else {"maxFilesPerTrigger": "1"}
        sources[name] = source.model_copy(update={"options": {**without_limits(source.options), **limit}})
    return pipeline.model_copy(update={"sources": sources})


def _can_be(pipeline: Pipeline, topic: TopicDefinition) -> bool:
    """Whether the columns can be the key's fields: their number fits and, if the columns are the body, their names.

    The column of a key field below another field may have any name.
    """
    if not topic.key_paths:  # the body has no key fields: any column will do
        return True
    if pipeline.body is not None:
        return len(pipeline.key) == len(topic.key_sent)
    pairs = zip(pipeline.key, topic.key_paths, strict=False)
    fits = all(len(steps) > 1 or steps == (name,) for name, steps in pairs)
    return fits and len(pipeline.key) == len(topic.key_paths)
