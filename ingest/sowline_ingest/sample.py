"""A sample of a pipeline: the results of its first rows in the topic that it writes to. Nothing is written."""

import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

import orjson
from pyspark.sql import DataFrame, Row

from sowline.commands.command import DELTA, LogRecord, read_command
from sowline.commands.key_generator import Appended
from sowline.commands.pipeline_row import HEADERS, KEY, REFUSED, VALUE
from sowline.config.command_key import named_key
from sowline.config.declared_topic import JSON
from sowline.config.outgoing_body import message_body
from sowline.config.topic_definition import TopicDefinition
from sowline.errors import SowlineError
from sowline_ingest.job import Job

SAMPLE_ROWS = 100
"""The number of rows in a sample."""


@dataclass
class Sample:
    """The results of the rows: counts by command, and of refusals by reason, with one message for each reason."""

    rows: int = 0
    commands: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    messages: dict[str, str] = field(default_factory=dict)
    """The first message of each reason."""
    fields: set[str] = field(default_factory=set)
    """The names of the fields in the bodies."""

    def refuse(self, reason: str, message: str) -> None:
        """Count a refused row."""
        self.refused[reason] += 1
        self.messages.setdefault(reason, message)

    @property
    def sentence(self) -> str:
        """The results of the rows as text for a person."""
        if not self.rows:
            return "sample: no rows, the sources have none yet"
        parts = [f"{count:,} {command}" for command, count in self.commands.items()]
        parts += [f"{count:,} refused ({reason})" for reason, count in self.refused.items()]
        return f"sample: of the first {self.rows:,} rows {', '.join(parts)}"


def sample_of(job: Job) -> Sample:
    """Return a sample of the first rows that the sources have now, judged as the topic's owner will judge them."""
    sample = Sample()
    for row in _first_rows(job):
        sample.rows += 1
        _judge(row, job.definition, sample)
    return sample


def unknown_fields(sample: Sample, known: Sequence[str]) -> Iterator[str]:
    """Yield a sentence for each field of the sample that no record has; `known` are the names that records have.

    For a topic without records, nothing is known.
    """
    for name in sorted(sample.fields - set(known)) if known else ():
        near = get_close_matches(name, known, n=1)
        yield f"no record has the field /{name} yet" + (f"; did you mean /{near[0]}?" if near else "")


def _first_rows(job: Job) -> list[Row]:
    rows: list[Row] = []
    done = threading.Event()

    def take(batch: DataFrame, _: int) -> None:
        if not done.is_set():
            rows.extend(batch.limit(SAMPLE_ROWS - len(rows)).collect())
        if len(rows) >= SAMPLE_ROWS:
            done.set()

    # Not the pipeline's checkpoint: that would record the rows of the sample as written, and no run would write them.
    with tempfile.TemporaryDirectory() as checkpoint:
        writer = job.frames(of_sample=SAMPLE_ROWS).rows().writeStream.foreachBatch(take)
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        while query.isActive and not done.wait(0.1):
            pass
        # Once the sample is full, an error is one of a later row, or of the stop.
        failure = None if done.is_set() else query.exception()
        query.stop()
    if failure is not None:
        raise failure
    return rows


def _judge(row: Row, definition: TopicDefinition | None, sample: Sample) -> None:
    headers = {header["key"]: header["value"] for header in row[HEADERS] or ()}
    if row[REFUSED]:
        reason, message = (bytes(headers[f"sow.{name}"]).decode() for name in ("reason", "message"))
        sample.refuse(reason, message)
        return
    key, value = (None if part is None else _bytes(part) for part in (row[KEY], row[VALUE]))
    try:
        given = [(name, None if text is None else _bytes(text)) for name, text in headers.items()]
        command = read_command(given)
        if definition is not None and definition.message_type != JSON and value:
            value = message_body(definition, command.command, value, command.fields or ())
        record = LogRecord(0, 0, key, value, given)
        if definition is not None and definition.has_sow and command.command != DELTA:
            named_key(definition, record, command, lambda _, __: Appended(0, 0, 0))
    except SowlineError as error:
        sample.refuse(error.reason, error.message)
        return
    sample.commands[command.command] += 1
    if value and command.command != DELTA:
        sample.fields.update(orjson.loads(value))


def _bytes(part: str | bytes | bytearray) -> bytes:
    return part.encode() if isinstance(part, str) else bytes(part)
