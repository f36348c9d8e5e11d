"""Checks a pipeline against the running system: topic, Kafka topics, columns, and a sample of its rows."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from sowline.cli.connection import ConnectionOptions, report
from sowline.cli.http import get_json
from sowline.model.path import parse_path
from sowline.runtime.running_stack import chosen_stack


class FoundSystem(NamedTuple):
    """A running system; `url` is that of its query service, None if only its Kafka is known."""

    url: str | None


def found_system(url: str | None) -> FoundSystem | None:
    """Return the running system: the one at `url`, that of SOWLINE_KAFKA, or a `sowline up` on this machine.

    The settings of that `sowline up` become those of this process, unless the environment has others.
    """
    if "SOWLINE_KAFKA" in os.environ or url is not None:
        return FoundSystem(url)
    stack = chosen_stack()
    if stack is None:
        return None
    report(stack)
    os.environ["SOWLINE_KAFKA"] = stack.kafka
    os.environ.setdefault("SOWLINE_CONFIG", stack.config)
    return FoundSystem(stack.url)


def checked_against(system: FoundSystem, file: Path, connection: ConnectionOptions) -> Iterator[str]:
    """Check the pipeline of a file; yield sentences about its sample.

    Raise `bad configuration` with the lines of the file, `invalid topic` or `no kafka`.
    """
    # These load PySpark, which the check of a file alone does not need.
    from sowline_ingest.job import Job
    from sowline_ingest.sample import sample_of, unknown_fields

    served = None if system.url is None else get_json(f"{system.url}/v1/topics", connection)
    if served is not None:
        # Before the job, which reads its settings when it is created. Otherwise the sample would be read from the
        # default address of Kafka, and not from the one that this service uses.
        os.environ.setdefault("SOWLINE_KAFKA", served["kafka"])
    job = Job(file)
    topic, log = job.pipeline.topic, job.pipeline.log_topic
    if served is not None:
        topics = {one["name"]: one for one in served["topics"]}
        if topic not in topics:
            job.refuse(("topic",), f"expected a topic of {system.url} ({', '.join(topics)}), got {topic}")
        if topics[topic]["log"] != log:
            job.refuse(("log",), f"expected {topics[topic]['log']}, the log of the topic, got {log}")
    job.check_topics()
    sample = sample_of(job)
    yield sample.sentence
    for reason, message in sample.messages.items():
        yield f"refused: {reason}: {message}"
    if served is not None and topics[topic]["sow"]:
        fields = get_json(f"{system.url}/v1/topics/{quote(topic)}/fields", connection)["fields"]
        names = list(dict.fromkeys(str(parse_path(field["path"]).steps[0]) for field in fields))
        for sentence in unknown_fields(sample, names):
            yield f"note: {sentence}"
