"""The metrics of a query service about its topics: their records, how far they are behind, and their past."""

from collections.abc import Iterator

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from sowline_query_service.topics.state import ServedTopics


def topic_metrics(state: ServedTopics) -> Iterator[Metric]:
    """Yield the metrics of all topics; docs/metrics.md describes each."""
    records = GaugeMetricFamily("sowline_records", "Records in the State of the World", labels=["topic"])
    for name, topic in state.topics.items():
        records.add_metric([name], topic.record_count)
    yield records
    yield CounterMetricFamily(
        "sowline_replica_changes", "Changes applied to the replica", value=state.changes_applied
    )
    yield from _lag_metrics(state)
    yield from _history_metrics(state)
    yield from _timeline_metrics(state)


def _lag_metrics(state: ServedTopics) -> Iterator[Metric]:
    behind = GaugeMetricFamily(
        "sowline_replica_behind_changes", "Changes that the replica has not yet applied", labels=["topic"]
    )
    lag_records = GaugeMetricFamily(
        "sowline_lag_records",
        "Records of the log that queries do not see yet",
        labels=["topic", "partition"],
    )
    lag_seconds = GaugeMetricFamily(
        "sowline_lag_seconds",
        "Time since the service was last known to have applied the log up to its end",
        labels=["topic", "partition"],
    )
    for name, topic in state.topics.items():
        if (changes := state.changes_behind(topic)) is not None:
            behind.add_metric([name], changes)
        for number, lag in topic.lags().items():
            if lag.records is not None:
                lag_records.add_metric([name, str(number)], lag.records)
            if lag.seconds is not None:
                lag_seconds.add_metric([name, str(number)], lag.seconds)
    yield lag_records
    yield lag_seconds
    yield behind
    yield state.delays.family(
        "sowline_append_to_delivery_seconds",
        "From a change's append to the log until it was put into clients' outboxes",
    )


def _history_metrics(state: ServedTopics) -> Iterator[Metric]:
    states = GaugeMetricFamily(
        "sowline_history_states",
        "Past versions of records that a topic's history keeps",
        labels=["topic"],
    )
    oldest = GaugeMetricFamily(
        "sowline_history_oldest_seconds",
        "Earliest time at which a topic can be queried, in seconds since 1970",
        labels=["topic"],
    )
    for name, topic in state.topics.items():
        if topic.histories:
            states.add_metric([name], sum(history.states for history in topic.histories))
            oldest.add_metric([name], max(history.floor for history in topic.histories) / 1000)
    yield states
    yield oldest
    histories = state.histories
    yield GaugeMetricFamily(
        "sowline_history_bytes", "Estimated memory of all histories", value=histories.nbytes
    )
    yield CounterMetricFamily(
        "sowline_history_dropped",
        "Past versions of records dropped early for lack of memory",
        value=histories.dropped,
    )


def _timeline_metrics(state: ServedTopics) -> Iterator[Metric]:
    writes = GaugeMetricFamily(
        "sowline_timeline_writes", "Writes to documents that timelines keep", labels=["topic"]
    )
    for name, topic in state.topics.items():
        if topic.definition.documents:
            writes.add_metric([name], sum(timeline.writes for timeline in topic.timelines))
    yield writes
    timelines = state.timelines
    yield GaugeMetricFamily(
        "sowline_timeline_bytes", "Estimated memory of all timelines", value=timelines.nbytes
    )
    yield CounterMetricFamily(
        "sowline_timeline_dropped",
        "Writes to documents dropped early for lack of memory",
        value=timelines.dropped,
    )
