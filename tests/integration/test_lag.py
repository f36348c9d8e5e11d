"""How far a query service is behind its log: while nothing applies it, after transactions, after a replacement."""

import json
import signal
import uuid
from collections.abc import Iterator
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
from confluent_kafka import Producer

from sowline.client.client import Client
from sowline.errors import SowlineError
from tests.integration.services import System, http_text, system
from tests.integration.wire import Json
from tests.waiting import wait_for


@pytest.fixture
def lagging(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """A topic of two partitions, without services yet."""
    topics = [{"name": f"t{uuid.uuid4().hex[:12]}", "key": "/id", "partitions": 2}]
    with system(kafka, tmp_path_factory.mktemp("lag"), topics) as made:
        yield made


def about(url: str) -> Json:
    """Return what a query service reports of its only topic."""
    (topic,) = json.loads(http_text(f"{url}/v1/topics"))["topics"]
    return dict(topic)


def test_lag_is_end_to_end(lagging: System) -> None:
    """While the materializer stands still, records wait that the changes topic knows nothing of."""
    name = lagging.topics.topics[0].name
    materializer = lagging.service("materializer", session_timeout_ms=60_000).start().wait_ready()
    query = lagging.service("query_service").start().wait_ready()
    lagging.write(name, *({"id": number} for number in range(10)))
    wait_for(lambda: about(query.url)["lag"] == 0 and about(query.url)["records"] == 10, "no lag")
    assert about(query.url)["lag_seconds"] < 60

    materializer.signal(signal.SIGSTOP)
    lagging.write(name, *({"id": number} for number in range(200)))
    # Both are sampled, at different times: wait until a sample is newer than the materializer's last event.
    behind = wait_for(
        lambda: (found := about(query.url))["lag"] == 200 and found["changes_behind"] == 0 and found,
        "a lag of 200, of which the changes topic knows nothing",
    )
    assert behind["records"] == 10
    assert sum(one["lag"] for one in behind["lags"]) == 200
    assert {one["partition"] for one in behind["lags"]} == {0, 1}
    later = wait_for(
        lambda: (found := about(query.url))["lag_seconds"] > behind["lag_seconds"] + 1 and found, "more lag"
    )
    assert later["lag"] == 200
    assert query.metric("sowline_lag_records") == 200
    assert query.metric('sowline_lag_seconds{partition="0",topic="' + name + '"}') > 1

    materializer.signal(signal.SIGCONT)
    caught_up = wait_for(lambda: (found := about(query.url))["lag"] == 0 and found, "no lag again")
    assert caught_up["records"] == 200
    wait_for(lambda: about(query.url)["lag_seconds"] < behind["lag_seconds"] + 1, "a recent end")


def test_reads_demand_a_fresh_state(lagging: System) -> None:
    """Through each API: refused while nothing is applied, answered once the bookmark is, with the lag named."""
    name = lagging.topics.topics[0].name
    materializer = lagging.service("materializer", session_timeout_ms=60_000).start().wait_ready()
    query = lagging.service("query_service").start().wait_ready()
    lagging.write(name, {"id": 1})
    wait_for(lambda: about(query.url)["lag"] == 0 and about(query.url)["records"] == 1, "no lag")
    with Client(query.url) as client:
        assert [one.data for one in client.sow(name, max_staleness="10s") if one.command == "sow"] == [
            {"id": 1}
        ]
        materializer.signal(signal.SIGSTOP)
        lagging.write(name, {"id": 1, "new": True})
        wait_for(lambda: (about(query.url)["lag_seconds"] or 0) > 2, "a state two seconds old")
        with pytest.raises(
            SowlineError, match=r"at most 1 s behind the log, but it is [2-9]\.\d{3} s behind"
        ) as refused:
            client.record(name, "1", max_staleness="1s")
        assert refused.value.reason == "stale"
        assert client.record(name, "1", max_staleness="10m") == {"id": 1}
        ends = lagging.cluster.ends(name, range(2))
        bookmark = f"{name}:" + ",".join(f"{number}@{end - 1}" for number, end in ends.items() if end)
        materializer.signal(signal.SIGCONT)
        assert client.record(name, "1", at_least=bookmark) == {"id": 1, "new": True}
        messages = client.sow_and_subscribe(name, at_least=bookmark, max_staleness="30s")
        assert [next(messages).data for _ in range(2)] == [{}, {"id": 1, "new": True}]
    status, headers = sow_headers(query.url, name, max_staleness="30s")
    assert status == 200
    assert 0 <= float(headers["sowline-lag-seconds"]) < 30


def sow_headers(url: str, topic: str, **given: str) -> tuple[int, dict[str, str]]:
    """Return status and headers of a query over HTTP."""
    with urlopen(f"{url}/v1/topics/{topic}/sow?{urlencode(given)}", b"", timeout=60) as answer:
        return answer.status, {name.lower(): text for name, text in answer.headers.items()}


def test_offsets_without_records_are_no_lag(lagging: System) -> None:
    """A transaction ends with a marker in each partition, which no reader ever gets; an aborted one has only that."""
    definition = lagging.topics.topics[0]
    lagging.service("materializer").start().wait_ready()
    query = lagging.service("query_service").start().wait_ready()
    producer = Producer(
        {"bootstrap.servers": lagging.kafka, "transactional.id": definition.name, "partitioner": "murmur2"}
    )
    producer.init_transactions(60)

    def logged() -> dict[int, int]:
        return lagging.cluster.ends(definition.log, range(definition.partitions))

    for times, ends in enumerate((producer.commit_transaction, producer.abort_transaction), 1):
        producer.begin_transaction()
        for number in range(20):
            producer.produce(definition.log, json.dumps({"id": number}).encode(), str(number).encode())
        producer.flush(60)
        ends(60)
        offsets = times * (20 + definition.partitions)
        wait_for(lambda end=offsets: sum(logged().values()) == end, "readers to be given the transaction")
        wait_for(lambda: _is_applied(about(query.url), logged()), "the end of a log that ends with markers")
    assert about(query.url)["records"] == 20


def test_an_open_transaction_holds_what_is_behind_it(lagging: System) -> None:
    """Acknowledged writes behind it are not applied: they are lag, a fresh read is refused, and says why."""
    definition = lagging.topics.topics[0]
    lagging.service("materializer").start().wait_ready()
    query = lagging.service("query_service").start().wait_ready()
    producer = Producer({"bootstrap.servers": lagging.kafka, "transactional.id": f"{definition.name}-open"})
    producer.init_transactions(60)
    wait_for(lambda: about(query.url)["lag"] == 0, "no lag")
    producer.begin_transaction()
    producer.produce(definition.log, b'{"id": 1}', partition=0)
    producer.flush(60)
    lagging.write(definition.name, *({"id": number} for number in range(20)))

    def held() -> Json | None:
        (found,) = [one for one in about(query.url)["lags"] if one["partition"] == 0]
        return found if found.get("transaction", {}).get("written") else None

    found = wait_for(held, "the transaction to be named")
    assert found is not None
    assert (found["transaction"]["offset"], about(query.url)["lag"] > 1) == (0, True)
    with (
        Client(query.url) as client,
        pytest.raises(SowlineError, match=r"held since offset 0, written at 2") as refused,
    ):
        client.record(definition.name, "2", max_staleness="1ms")
    assert refused.value.reason == "stale"
    producer.abort_transaction(60)
    wait_for(
        lambda: (one := about(query.url))["records"] == 20 and one["lag"] == 0, "the end of the transaction"
    )
    assert held() is None


def _is_applied(topic: Json, ends: dict[int, int]) -> bool:
    behind = [ends[one["partition"]] - 1 - int(one["position"]) for one in topic["lags"]]
    return topic["lag"] == 0 and all(offsets > 0 for offsets in behind) and topic["lag_seconds"] is not None


def test_the_lag_of_a_replaced_log_is_not_known_until_an_era_begins_in_it(lagging: System) -> None:
    """Offsets of another log say nothing about the state. Unknown is null, never 0."""
    definition = lagging.topics.topics[0]
    materializer = lagging.service("materializer").start().wait_ready()
    query = lagging.service("query_service").start().wait_ready()
    lagging.write(definition.name, *({"id": number} for number in range(10)))
    wait_for(lambda: about(query.url)["records"] == 10 and about(query.url)["lag"] == 0, "no lag")
    materializer.stop()
    lagging.cluster.delete_topics([definition.log])
    lagging.cluster.ensure_topic(definition)
    lagging.write(definition.name, {"id": 10})
    wait_for(lambda: about(query.url)["lag"] is None, "an unknown lag")
    assert about(query.url)["lag_seconds"] is None
    materializer.start().wait_ready()
    # A sample of the new log may be older than its record: the lag is 0 then before the record is applied.
    wait_for(
        lambda: (found := about(query.url))["lag"] == 0 and found["records"] == 11, "the lag of the new log"
    )
