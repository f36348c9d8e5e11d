"""The services as real processes on free ports, over a real Kafka."""

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote, urlencode, urlsplit

import yaml
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from sowline.client.publisher import Publisher
from sowline.config.kafka_options import kafka_config
from sowline.config.topic_definition import TopicDefinition
from sowline.config.topics import Topics, parse_topics
from sowline.kafka.admin import Cluster, ensure_topics
from sowline.runtime.child_process import bound_to_parent
from sowline.runtime.ports import free_port
from tests.described import check_answer
from tests.integration.forked import Forked
from tests.integration.positions import positions_of
from tests.upgrades.earlier import earlier_tree
from tests.waiting import SECONDS_MAX, wait_for

ROOT = Path(__file__).parents[2]
SESSION_MS = 1500
"""How long the group waits for a worker that was killed: the shortest that a busy machine keeps up with."""

QUIET_SECONDS = 3600
"""Seconds without a message after which a subscription gets a progress message: none in a test, unless it asks."""

SHARDS = int(os.environ.get("SHARDS", "0"))
"""With this variable, each query service of the tests is so many shards behind a gateway."""


class Service:
    """One service process. It can't outlive the tests, and may be killed and started again on the same port."""

    def __init__(self, name: str, directory: Path, **settings: object) -> None:
        self.port = int(str(settings.pop("port", 0))) or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._name = name
        self._log = directory / f"{name}-{self.port}.log"
        own = {"port": self.port, "session_timeout_ms": SESSION_MS, "progress_seconds": QUIET_SECONDS}
        given = own | settings
        self._environment = {f"SOWLINE_{name.upper()}": str(value) for name, value in given.items()}
        self._environment["PYTHONFAULTHANDLER"] = "1"  # SIGABRT logs where each thread is
        self._process: subprocess.Popen[bytes] | Forked | None = None
        # Whether a test has ended the process, or has waited for its end.
        self._is_waited_for = False

    def start(self, before: Sequence[str] = ()) -> Self:
        """Start the process, maybe by another command that ends in it; `wait_ready` waits until it answers."""
        environment = os.environ | self._environment
        self._is_waited_for = False
        with self._log.open("ab") as log:
            if before:
                command = bound_to_parent([*before, sys.executable, "-m", f"sowline_{self._name}"])
                self._process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)
            else:
                self._process = Forked(self._name, environment, self._log)
        return self

    @property
    def running(self) -> bool:
        """Whether the process is there."""
        return self._process is not None and self._process.poll() is None

    @property
    def answers(self) -> bool:
        """Whether the process says that it is alive."""
        return self.running and http_status(f"{self.url}/healthz") == 200

    @property
    def descriptors(self) -> int:
        """How many descriptors the process has open."""
        assert self._process is not None
        return len(list(Path(f"/proc/{self._process.pid}/fd").iterdir()))

    @property
    def threads(self) -> int:
        """How many threads the process has."""
        assert self._process is not None
        return len(list(Path(f"/proc/{self._process.pid}/task").iterdir()))

    @property
    def log(self) -> str:
        """What the process has written to its log, since its first start."""
        return self._log.read_text(errors="replace")

    @property
    def resident_bytes(self) -> int:
        """The memory that the process has now."""
        assert self._process is not None
        pages = int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    @contextmanager
    def needing_at_most(self, bytes_max: int) -> Iterator[None]:
        """Fail where the process needs more memory at any moment of the block, beside what it has now."""
        assert self._process is not None
        about = Path(f"/proc/{self._process.pid}")
        about.joinpath("clear_refs").write_text("5")  # the peak is what it has now
        before = self.resident_bytes
        yield
        (peak,) = (line for line in about.joinpath("status").read_text().splitlines() if line[:6] == "VmHWM:")
        more = int(peak.split()[1]) * 1024 - before
        assert more < bytes_max, f"expected at most {bytes_max >> 20} MiB more, got {more >> 20}"

    def wait_ready(self) -> Self:
        """Wait until `/readyz` says so; fails with the process's own words if it ends before that."""

        def ready() -> bool:
            assert self.running, f"{self._name} ended:\n{self.log[-4000:]}"
            return http_status(f"{self.url}/readyz") == 200

        try:
            wait_for(ready, f"{self._name} to be ready")
        except AssertionError as error:
            raise AssertionError(f"{error}; it says:\n{self.log[-4000:]}") from None
        return self

    def signal(self, number: signal.Signals) -> None:
        """Send the process a signal."""
        assert self._process is not None
        self._is_waited_for |= number in {signal.SIGKILL, signal.SIGTERM, signal.SIGINT}
        self._process.send_signal(number)

    def kill(self) -> None:
        """Kill the process the hard way."""
        self.signal(signal.SIGKILL)
        self.wait()

    def stop(self) -> int:
        """Ask the process to end, wait for that, and return its exit code."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def wait(self) -> int:
        """Wait until the process has ended and return its exit code; fails with its stacks if it does not end."""
        assert self._process is not None
        self._is_waited_for = True
        try:
            return self._process.wait(SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._process.send_signal(signal.SIGABRT)
            self._process.wait(SECONDS_MAX)
            message = f"{self._name} did not end within {SECONDS_MAX:g} s:\n{self.log[-8000:]}"
            raise AssertionError(message) from None

    def close(self) -> None:
        """Leave nothing behind; fails if the process has ended by itself, and no test has waited for that."""
        ended = None if self._process is None or self._is_waited_for else self._process.poll()
        assert ended is None, f"{self._name} ended by itself with {ended}; it says:\n{self.log[-4000:]}"
        if self.running:
            self.signal(signal.SIGCONT)
            self.kill()

    def metric(self, name: str) -> float:
        """Return a metric, given with its labels, or the sum over all of its labels."""
        lines = (line.rpartition(" ") for line in http_text(f"{self.url}/metrics").splitlines())
        return sum(float(value) for given, _, value in lines if name in (given, given.partition("{")[0]))


class EarlierService(Service):
    """A process of a service as it was in the version before."""

    def start(self, before: Sequence[str] = ()) -> Self:
        """Start the process. Its native core may not be the one that is installed."""
        assert not before
        tree = earlier_tree()
        own = {"PYTHONPATH": str(tree), "SOWLINE_CORE": "python"}
        with self._log.open("ab") as log:
            command = bound_to_parent([sys.executable, "-m", self._name])
            environment = os.environ | self._environment | own
            self._process = subprocess.Popen(command, cwd=tree, env=environment, stdout=log, stderr=log)
        return self


class ShardedService(Service):
    """A gateway with one node for each shard; it is started, killed and stopped as a whole."""

    def __init__(self, shards: int, name: str, directory: Path, **settings: object) -> None:
        self.nodes = [
            NODE(name, directory, **settings, shard=f"{number}/{shards}") for number in range(shards)
        ]
        super().__init__("gateway", directory, **settings, nodes=",".join(one.url for one in self.nodes))

    def start(self, before: Sequence[str] = ()) -> Self:
        """Start all processes."""
        for node in self.nodes:
            node.start(before)
        return super().start(before)

    def wait_ready(self) -> Self:
        """Wait until all nodes are ready, then the gateway."""
        for node in self.nodes:
            node.wait_ready()
        return super().wait_ready()

    def signal(self, number: signal.Signals) -> None:
        """Send all processes that run a signal."""
        for node in self.nodes:
            if node.running:
                node.signal(number)
        super().signal(number)

    def wait(self) -> int:
        """Wait until all processes have ended; return the exit code of the gateway."""
        for node in self.nodes:
            node.wait()
        return super().wait()

    def close(self) -> None:
        """Leave nothing behind."""
        for node in self.nodes:
            node.close()
        super().close()

    @property
    def log(self) -> str:
        """What all processes have written to their logs."""
        return "".join([super().log, *(node.log for node in self.nodes)])


NODE = EarlierService if os.environ.get("NODES") == "previous" else Service
"""What a node of a `ShardedService` is."""


def http_status(url: str) -> int:
    """Return the status of a GET, 0 where nobody answers."""
    return _answered(url)[0]


def http_refusal(url: str) -> str:
    """Return the sentence with which a GET is refused; empty where it is not, or nobody answers."""
    status, answer = _answered(url)
    return "" if status in (0, 200) else str(json.loads(answer)["message"])


def http_message(url: str) -> str:
    """Return the message in an answer to a GET, whatever its status; empty without one, or where nobody answers."""
    return str(json.loads(_answered(url)[1] or b"{}").get("message", ""))


def _answered(url: str) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()
    except OSError:
        return 0, b""


def http_text(url: str, body: bytes | None = None) -> str:
    """Return the answer to a GET, or to a POST of `body`, that must succeed, as the protocol description has it."""
    with urllib.request.urlopen(url, body, timeout=5) as response:
        answer: bytes = response.read()
    path = urlsplit(url).path
    if path.startswith("/v1/"):
        method = "GET" if body is None else "POST"
        check_answer(method, path, response.status, response.headers["content-type"], answer)
    return answer.decode()


def post_commands(
    service: str, topic: str, command: str, body: bytes, type: str, **given: str
) -> dict[str, Any]:
    """POST commands to a service's topic; returns what is answered, a refusal too, with its `status`."""
    path = f"/v1/topics/{quote(topic)}/{command}?{urlencode(given)}"
    headers = {"content-type": type} if type else {}
    request = urllib.request.Request(service + path, body, headers, method="POST")
    try:
        with urllib.request.urlopen(request) as answer:
            text = answer.read()
            content_type = answer.headers["content-type"]
            check_answer("POST", urlsplit(request.full_url).path, answer.status, content_type, text)
            return {"status": answer.status, **json.loads(text)}
    except urllib.error.HTTPError as error:
        with error:
            return {"status": error.code, **json.load(error)}


class System:
    """A Kafka, the topics defined on it, and the services started over them."""

    def __init__(
        self,
        kafka: str,
        directory: Path,
        topics: list[dict[str, Any]],
        fanouts: list[dict[str, str]],
        views: list[dict[str, Any]],
        conflated: list[dict[str, Any]],
    ) -> None:
        self.kafka = kafka
        self.directory = directory
        self.config = directory / "topics.yaml"
        self._given = {"topics": topics, "fanouts": fanouts, "views": views, "conflated": conflated}
        self.redefine()
        self.group = f"{topics[0]['name']}-group"
        self.cluster = Cluster(kafka_config(kafka))
        self._services = ExitStack()

    def redefine(self, **given: list[dict[str, Any]]) -> None:
        """Change parts of `topics.yaml`, which running services follow."""
        self.config.write_text(yaml.safe_dump(self._given | given))
        self.topics: Topics = parse_topics(self.config.read_text())

    def service(self, name: str, **settings: object) -> Service:
        """Return a service of this system, to be started; it ends with the system."""
        if name == "query_service" and SHARDS and "shard" not in settings:
            return self._lent(ShardedService(SHARDS, name, self.directory, **self._given_to(settings)))
        return self._lent(Service(name, self.directory, **self._given_to(settings)))

    def earlier_service(self, name: str, **settings: object) -> Service:
        """Return a service of this system as it was in the version before."""
        return self._lent(EarlierService(name, self.directory, **self._given_to(settings)))

    def _given_to(self, settings: dict[str, object]) -> dict[str, object]:
        common: dict[str, object] = {"kafka": self.kafka, "config": self.config, "group": self.group}
        common["data_dir"] = self.directory / "sow"
        return {**common, **settings}

    def _lent(self, service: Service) -> Service:
        self._services.callback(service.close)
        return service

    def node(self, shard: str) -> Service:
        """Return a query service that holds a shard, such as `0/2`."""
        return self.service("query_service", shard=shard)

    def close(self) -> None:
        """End every service."""
        self._services.close()

    def create_topics(self) -> None:
        """Create the Kafka topics, as the first service does that is started."""
        ensure_topics(kafka_config(self.kafka), self.topics)

    def topic(self, name: str) -> TopicDefinition:
        """Return a topic's definition."""
        return self.topics.named(name)

    def publisher(self) -> Publisher:
        """Return a new publisher."""
        return Publisher(kafka_config(self.kafka), self.topics)

    def write(self, topic: str, *records: dict[str, Any]) -> None:
        """Publish records and wait until Kafka has them."""
        publisher = self.publisher()
        for record in records:
            publisher.publish(topic, record)
        publisher.flush()

    def produce(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        partition: int = 0,
        headers: Sequence[tuple[str, bytes | None]] = (),
    ) -> int:
        """Write one plain Kafka record and return its offset."""
        offsets: list[int] = []
        producer = Producer({"bootstrap.servers": self.kafka, "message.max.bytes": 16_000_000})
        producer.produce(
            topic,
            value,
            key,
            partition,
            lambda error, message: offsets.append(message.offset() or 0),
            headers=list(headers),
        )
        assert producer.flush(SECONDS_MAX) == 0
        return offsets[0]

    def read(self, topic: str) -> list[Message]:
        """Return what a Kafka topic holds now: partition after partition, each in its order."""
        return read_topic(self.kafka, topic)

    def bookmark(self, url: str, topic: str) -> dict[int, tuple[int, int]]:
        """Return how far a query service is in a topic, as (offset, index) by partition."""
        about = json.loads(http_text(f"{url}/v1/topics"))["topics"]
        return positions_of(next(one["bookmark"] for one in about if one["name"] == topic))

    def wait_settled(self, url: str, topic: str) -> dict[int, int]:
        """Wait until a query service has all that the log's records lead to; returns the ends of the log.

        A log record may make others in other partitions. Until Kafka has written their commit, the committed end is
        before all that follows them: the newest ends must stand still meanwhile.
        """
        definition = self.topic(topic)

        def settled() -> dict[int, int] | None:
            ends = self.cluster.newest_ends(definition.log, range(definition.partitions))
            held = self.bookmark(url, topic)
            if any(held.get(p, (-1, 0))[0] < end - 1 for p, end in ends.items()):
                return None
            return ends if self.cluster.newest_ends(definition.log, ends) == ends else None

        return wait_for(settled, f"all of {topic}'s log to be applied")


def read_topic(kafka: str, topic: str) -> list[Message]:
    """Return what a Kafka topic holds now: partition after partition, each in its order."""
    config = {"bootstrap.servers": kafka, "group.id": topic, "enable.partition.eof": True}
    with closing(Consumer(config)) as consumer:
        partitions = consumer.list_topics(topic, SECONDS_MAX).topics[topic].partitions
        consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        left, found = len(partitions), []
        while left:
            message = consumer.poll(SECONDS_MAX)
            assert message is not None, "Kafka did not answer"
            if message.error():
                left -= 1
            else:
                found.append(message)
    return sorted(found, key=lambda message: (message.partition() or 0, message.offset() or 0))


def headers_of(message: Message) -> dict[str, bytes]:
    """Return a message's headers by name; of a repeated one the last."""
    return dict(message.headers() or ())  # type: ignore[arg-type]


@contextmanager
def system(
    kafka: str,
    directory: Path,
    topics: list[dict[str, Any]],
    fanouts: Sequence[dict[str, str]] = (),
    views: Sequence[dict[str, Any]] = (),
    conflated: Sequence[dict[str, Any]] = (),
) -> Iterator[System]:
    """Lend a system without services yet."""
    with closing(System(kafka, directory, topics, list(fanouts), list(views), list(conflated))) as made:
        yield made
