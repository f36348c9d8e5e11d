"""A real, single-node Kafka (KRaft) on this machine, started from its published jars."""

import base64
import json
import os
import signal
import subprocess
import threading
import time
import uuid
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from sowline.errors import SowlineError
from sowline.runtime.child_process import bound_to_parent
from sowline.runtime.class_archive import ClassArchive
from sowline.runtime.directory_lock import DirectoryLock
from sowline.runtime.jars import kafka_jars
from sowline.runtime.java import find_java
from sowline.runtime.ports import HOST, free_port, is_free, is_listening

START_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 15.0
FIRST_STOP_SECONDS_MAX = 60.0
"""The first broker of a machine archives its classes, which takes 5 s of CPU time."""
LAUNCHES_MAX = 5
LOG_TAIL_LINES = 25

SERVER_PROPERTIES = Path(__file__).with_name("server.properties")
"""The broker's settings, with marks for the ports."""

_LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")


class LocalKafka:
    """One broker over one data directory, which keeps topics and offsets from one start to the next.

    It listens on loopback only, and dies with the process that started it. Without `port` a free one is chosen at
    the first start and kept for the next ones, so that clients find the broker again.
    """

    def __init__(self, data_dir: Path, port: int | None = None) -> None:
        self.data_dir = data_dir.resolve()
        self.log_path = self.data_dir / "kafka.log"
        self._fixed_port = port
        self._ports = (0, 0)  # for clients, for the controller
        self._process: subprocess.Popen[bytes] | None = None
        self._keeper = threading.Thread()
        """It started the broker, and ends after it."""
        self._stop_seconds = STOP_SECONDS_MAX
        self._lock = ExitStack()
        self._kept = -1
        """The descriptor of the lock of the data directory, which the broker has too."""

    @property
    def bootstrap(self) -> str:
        """The address for clients, `127.0.0.1:port`; known from the first start on."""
        assert self._ports[0], "not started yet"
        return f"{HOST}:{self._ports[0]}"

    @property
    def pid(self) -> int | None:
        """The broker's process id, or None when it does not run."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    def start(self) -> str:
        """Start the broker, wait until it answers metadata (about 3 s), and return its bootstrap address.

        Raises SowlineError `no kafka`, with the end of the broker's log, if it does not start. If another broker uses
        the directory, raises `already running`: two would damage it.
        """
        assert self.pid is None, "already running"
        self._lock.close()  # the lock of a broker that has ended by itself
        with ExitStack() as lock:
            self._kept = lock.enter_context(DirectoryLock(self.data_dir)).descriptor
            for _ in range(LAUNCHES_MAX):
                self._ports = self._choose_ports()
                if self._launch():
                    self._lock = lock.pop_all()
                    return self.bootstrap
        raise self._failure(f"lost its port to another process {LAUNCHES_MAX} times")

    def stop(self) -> None:
        """Stop the broker in good order, or kill it if that takes too long. Harmless when it does not run."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the broker at once, as `kill -9` does."""
        self._end(signal.SIGKILL)

    def wait(self) -> int:
        """Wait until the broker's process ends, and return its exit code."""
        assert self._process is not None, "not started yet"
        while (code := self._process.poll()) is None:
            time.sleep(0.1)
        return code

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _choose_ports(self) -> tuple[int, int]:
        kept = self._kept_ports()
        if kept and self._fixed_port in (None, kept[0]) and all(map(is_free, kept)):
            return kept
        if self._fixed_port and not is_free(self._fixed_port):
            message = (
                f"expected port {self._fixed_port} for Kafka, but it is taken: free it or choose another"
            )
            raise SowlineError("no port", message)
        return self._fixed_port or free_port(), free_port()

    def _kept_ports(self) -> tuple[int, int] | None:
        """Return the ports of the last run over this directory, or None for a new one."""
        try:
            broker, controller = json.loads((self.data_dir / "ports.json").read_text())
        except (OSError, ValueError):
            return None
        return int(broker), int(controller)

    def _launch(self) -> bool:
        """Start the process and wait for its answer; False if another process took a port that we had chosen."""
        self._write_config()
        self._format()
        self._process = self._spawn()
        deadline = time.monotonic() + START_SECONDS_MAX
        while not self._answers():
            if self.pid is None:
                return self._lost_its_port()
            if time.monotonic() > deadline:
                self.kill()
                raise self._failure(f"did not answer in {START_SECONDS_MAX:.0f} s")
            time.sleep(0.05)
        return True

    def _lost_its_port(self) -> bool:
        if self._fixed_port is None and "failed to bind" in self._log():
            return False
        raise self._failure("ended before it answered")

    def _answers(self) -> bool:
        """Return whether our broker answers metadata.

        The cluster id identifies our broker: another one may have taken the port first.
        """
        # A Kafka client would wait a second for a port that nothing listens on.
        if not is_listening(self._ports[0]):
            return False
        client = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        try:
            answer = client.list_topics(timeout=1.0)
        except KafkaException:
            return False
        return bool(answer.brokers) and f"cluster.id={answer.cluster_id}\n" in self._meta_path.read_text()

    @property
    def _meta_path(self) -> Path:
        return self.data_dir / "data" / "meta.properties"

    def _write_config(self) -> None:
        broker, controller = map(str, self._ports)
        text = SERVER_PROPERTIES.read_text(encoding="utf-8")
        text = text.replace("@BROKER@", broker).replace("@CONTROLLER@", controller)
        (self.data_dir / "server.properties").write_text(text, encoding="utf-8")
        (self.data_dir / "ports.json").write_text(json.dumps(self._ports))

    def _format(self) -> None:
        """Give a new data directory its identity. The file that it writes last marks it as done."""
        if self._meta_path.exists():
            return
        options = ["--standalone", "--ignore-formatted", f"--cluster-id={_new_cluster_id()}"]
        command, archive = _java(
            "kafka.tools.StorageTool", "format", *options, "--config", "server.properties"
        )
        result = subprocess.run(
            command, cwd=self.data_dir, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
        )
        archive.keep(result.returncode)
        if result.returncode != 0:
            reported = result.stdout.decode(errors="replace").strip()
            raise SowlineError(
                "no kafka", f"expected to format {self.data_dir} for Kafka, but it reported: {reported}"
            )

    def _spawn(self) -> subprocess.Popen[bytes]:
        """Start the broker from a thread that lives as long as the broker: the kernel kills it with that thread.

        It gets its own session, so that Ctrl-C reaches only the parent, which stops everything in the right order.
        """
        command, archive = _java("kafka.Kafka", "server.properties")
        self._stop_seconds = FIRST_STOP_SECONDS_MAX if archive.is_missing else STOP_SECONDS_MAX
        launched: Future[subprocess.Popen[bytes]] = Future()

        def keep() -> None:
            # An error here, such as a Java that may not be executed, belongs to `start`, which would wait for ever.
            try:
                with self.log_path.open("wb") as log:
                    process = _popen(bound_to_parent(command), self.data_dir, log.fileno(), self._kept)
            except Exception as error:
                launched.set_exception(error)
                return
            launched.set_result(process)
            archive.keep(process.wait())

        self._keeper = threading.Thread(target=keep, name="local-kafka", daemon=True)
        self._keeper.start()
        return launched.result()

    def _end(self, signal_number: int) -> None:
        process = self._process
        # The lock is kept until the broker has ended: a second one on the same files would damage them.
        if process is not None and process.poll() is None:
            process.send_signal(signal_number)
            try:
                process.wait(self._stop_seconds)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            self._keeper.join()
        self._lock.close()

    def _log(self) -> str:
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def _failure(self, came: str) -> SowlineError:
        expected = f"expected a Kafka broker over {self.data_dir}, but it {came}"
        tail = "\n".join(self._log().splitlines()[-LOG_TAIL_LINES:])
        return SowlineError("no kafka", f"{expected}; the end of {self.log_path}:\n{tail}")


def _new_cluster_id() -> str:
    """Return a fresh UUID in Kafka's spelling: 22 characters of URL-safe Base64."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


def _java(main: str, *arguments: str) -> tuple[list[str], ClassArchive]:
    java, classpath = find_java(), os.pathsep.join(map(str, kafka_jars()))
    archive = ClassArchive(java, classpath, main)
    options = ["-Xms128m", "-Xmx512m", f"-Dlog4j2.configurationFile={_LOG_SETTINGS}", *archive.options()]
    return [str(java), *options, "-cp", classpath, main, *arguments], archive


def _popen(command: list[str], directory: Path, log: int, lock: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
        pass_fds=(lock,),
    )
