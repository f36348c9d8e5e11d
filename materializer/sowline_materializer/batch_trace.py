"""The spans of a batch: one for each log record with a sampled `traceparent`, which its changes pass on."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from sowline.changes.progress import Progress
from sowline.commands.traceparent import traceparent_of
from sowline.runtime.tracing import Attributes, TraceSpan, begin, is_on
from sowline_materializer.core.step import Step
from sowline_materializer.partition.partition import Partition, Prepared


class Became(NamedTuple):
    """The outcome of a log record for its span: attributes, and the reason if it was refused."""

    about: Attributes
    refused: str | None = None


FORWARDED = Became({"outcome": "forwarded"})


class BatchTrace:
    """The spans of the batch that a worker is applying."""

    def __init__(self) -> None:
        self._spans: list[tuple[TraceSpan, Became]] = []

    def traced(self, partition: Partition, prepared: Prepared, began_ns: int) -> Prepared:
        """Begin the spans of a partition's records, and pass their trace context on to their changes.

        Changes that a previous owner emitted without committing already have spans.
        """
        carried = {
            record.offset: parent
            for record in prepared.step.others
            if record.headers and (parent := traceparent_of(record.headers)) is not None
        }
        if not carried:
            return prepared
        if is_on():
            became = _became(prepared.step)
            for offset, parent in carried.items():
                if not partition.was_sent(offset):
                    carried[offset] = self._begun(partition, offset, parent, became, began_ns)
        events = [
            event
            if isinstance(event, Progress) or event.position.offset not in carried
            else event.traced(carried[event.position.offset])
            for event in prepared.events
        ]
        return replace(prepared, events=events)

    def _begun(
        self, partition: Partition, offset: int, parent: str, became: Mapping[int, Became], began_ns: int
    ) -> str:
        """Begin the span of a record; return the trace context for its changes."""
        span = begin("apply", partition.definition.name, parent, (partition.number, str(offset)), began_ns)
        if span is None:
            return parent
        self._spans.append((span, became.get(offset, FORWARDED)))
        return span.traceparent

    def end(self) -> None:
        """End the spans: Kafka has everything that the batch leads to."""
        for span, became in self._spans:
            span.end(became.about, became.refused)
        self._spans.clear()


def _became(step: Step) -> dict[int, Became]:
    """Return the outcomes of a step's records by their offsets, except for those that were forwarded."""
    changes = Counter(change.position.offset for change in step.changes)
    became = {offset: Became({"outcome": "applied", "changes": count}) for offset, count in changes.items()}
    became |= {int(offset): Became({"outcome": outcome}) for offset, outcome in step.outcomes.items()}
    for letter in step.dead:
        became[letter.record.offset] = Became({"outcome": f"dead:{letter.reason}"}, letter.message)
    return became
