"""Runs all services on one machine, each as a child process, and restarts those that end (`sowline up`)."""

import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from functools import cached_property
from hashlib import sha256
from pathlib import Path

import httpx2
import structlog

from sowline.config.topics import load_topics
from sowline.errors import SowlineError
from sowline.runtime.child_process import bound_to_parent
from sowline.runtime.directory_lock import DirectoryLock
from sowline.runtime.process import LISTENER, listener, set_up_logs, stop_signal
from sowline.runtime.programs import Program
from sowline.runtime.running_stack import RunningStack, announced, start_of

log = structlog.get_logger()

LOOPBACK = "127.0.0.1"
READY_SECONDS_MAX = 120.0
STOP_SECONDS_MAX = 20.0
RESTART_PAUSE_SECONDS = 1.0
USUAL_PORT = 8080
PORTS_TRIED = 100
TELL_SECONDS = 5.0
"""Seconds between lines about services that are not ready."""


class StackProcess:
    """One process of the stack and how to start it. It inherits the socket that it listens on.

    No other process can take its port, neither before the first start nor during a restart: the answers at the port
    are those of this process (test_services_that_end_are_started_again).
    """

    def __init__(
        self,
        name: str,
        program: Program,
        host: str,
        listening: socket.socket,
        environment: dict[str, str],
        scheme: str = "http",
    ) -> None:
        self.name = name
        self.url = _url(scheme, host, listening)
        self._program = program
        self._listening = listening
        self.environment = environment | {
            "SOWLINE_HOST": host,
            "SOWLINE_PORT": str(listening.getsockname()[1]),
            LISTENER: str(listening.fileno()),
        }
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, lock: int) -> None:
        """Start the process. The kernel kills it when this process ends; it keeps the descriptor of the lock."""
        command = bound_to_parent(self._program.command())
        # In its own session, so that Ctrl-C reaches only this process, which stops the services before the broker.
        self._process = subprocess.Popen(
            command,
            env=os.environ | self.environment,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=(lock, self._listening.fileno()),
        )

    def close(self) -> None:
        """Release its port."""
        self._listening.close()

    @property
    def ended(self) -> bool:
        """Whether the process has ended."""
        return self._process is None or self._process.poll() is not None

    def ask_to_stop(self) -> None:
        """Send SIGTERM if the process is running."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)

    def wait(self, seconds: float) -> None:
        """Wait until the process ends; kill it if that takes too long."""
        if self._process is None:
            return
        try:
            self._process.wait(max(0.1, seconds))
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


ANSWERS = "query service"
"""The name of the service that clients use, also if it is a gateway."""


class LocalStack:
    """Runs a materializer, a query service, fanouts and (unless given) a Kafka broker, until SIGINT or SIGTERM.

    `port` is that of the query service: 0 for any free one, None for 8080 or the next one above it that is free. With
    several `shards`, a gateway has this port, and each of that many query services holds a part of each topic.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - the options of `sowline up`
        self,
        config: Path,
        data_dir: Path,
        host: str,
        port: int | None,
        kafka: str | None,
        accept_loss: bool = False,
        access: Path | None = None,
        origins: tuple[str, ...] = (),
        shards: int = 1,
    ) -> None:
        self._shards = shards
        self._topics = load_topics(config)
        self._config = config.resolve()
        self._directory = data_dir.resolve()
        self._host = host
        self._port = port
        self._lock = DirectoryLock(self._directory)
        self._origins = origins
        self._kafka = kafka
        self._accept_loss = accept_loss
        self._access = access
        self._broker: subprocess.Popen[bytes] | None = None
        self._services: list[StackProcess] = []
        self._stop = threading.Event()

    def run(self) -> int:
        """Start all services, print where they are, and keep them running; return the exit code."""
        set_up_logs()
        self._stop = stop_signal()
        with contextlib.ExitStack() as announcement, self._lock:
            return self._run(announcement)

    def _run(self, announcement: contextlib.ExitStack) -> int:
        try:
            self._lock.note(_url(self._scheme, self._host, self._listening))
            kafka = self._kafka or self._start_broker()
            self._services = self.services(kafka)
            names = [service.name for service in self._services]
            _tell(f"Kafka is at {kafka}; starting {', '.join(names)}")
            for service in self._services:
                service.start(self._lock.descriptor)
            if wait_ready(self._services, self._stop):
                stack = self._description(kafka)
                announcement.enter_context(announced(stack))
                print(
                    "\n".join(_panel(stack)) if sys.stdout.isatty() else json.dumps(_line(stack)), flush=True
                )
            self._keep_running()
        finally:
            self._shut_down()
        return 0

    def _description(self, kafka: str) -> RunningStack:
        """Return where everything is."""
        urls = {service.name: service.url for service in self._services}
        return RunningStack(
            pid=os.getpid(),
            started=start_of(os.getpid()) or "",
            directory=str(Path.cwd()),
            kafka=kafka,
            url=urls.pop(ANSWERS),
            services=urls,
            config=str(self._config),
            data_dir=str(self._directory / "sow"),
        )

    def _start_broker(self) -> str:
        """Start the local broker and return its address."""
        _tell("starting Kafka")
        directory = self._directory / "kafka"
        command = bound_to_parent(Program.SOWLINE.command("kafka", "--data-dir", str(directory)))
        self._broker = subprocess.Popen(
            command, stdout=subprocess.PIPE, start_new_session=True, pass_fds=(self._lock.descriptor,)
        )
        assert self._broker.stdout is not None
        line = self._broker.stdout.readline()
        if not line:
            raise SowlineError("no kafka", "the local Kafka broker did not start; its messages are above")
        return str(json.loads(line)["kafka"])

    def services(self, kafka: str) -> list[StackProcess]:
        """Return all services with this Kafka, not started."""
        common = {
            "SOWLINE_KAFKA": kafka,
            "SOWLINE_CONFIG": str(self._config),
            "SOWLINE_DATA_DIR": str(self._directory / "sow"),
            "SOWLINE_ACCEPT_LOSS": str(self._accept_loss),
        }
        return [
            StackProcess("materializer", Program.MATERIALIZER, LOOPBACK, listener(LOOPBACK, 0), common),
            *self._query_services(common),
            # Without a view or a fanout, too: the file may get its first one while all runs.
            StackProcess("views", Program.VIEWS, LOOPBACK, listener(LOOPBACK, 0), common),
            StackProcess("fanout", Program.FANOUT, LOOPBACK, listener(LOOPBACK, 0), common),
        ]

    def _query_services(self, common: dict[str, str]) -> list[StackProcess]:
        """Return the service that clients use: a query service, or a gateway with the query services behind it."""
        if self._shards == 1:
            more = {"SOWLINE_SNAPSHOT_DIR": str(self._directory / "snapshots")}
            return [self._for_clients(Program.QUERY_SERVICE, common | more)]
        token, access = self._nodes_access()
        nodes = [self._node(number, common, access) for number in range(self._shards)]
        more = {
            "SOWLINE_NODES": ",".join(node.url for node in nodes),
            "SOWLINE_NODES_TOKEN_FILE": str(token),
        }
        return [*nodes, self._for_clients(Program.GATEWAY, common | more)]

    def _node(self, number: int, common: dict[str, str], access: Path) -> StackProcess:
        """Return a query service that holds a shard, for the gateway only."""
        own = {
            "SOWLINE_SHARD": f"{number}/{self._shards}",
            "SOWLINE_SNAPSHOT_DIR": str(self._directory / f"snapshots-{number}-of-{self._shards}"),
            "SOWLINE_ACCESS": str(access),
            # The TLS settings of the environment are for clients, which connect to the gateway.
            **dict.fromkeys(("SOWLINE_TLS_CERT", "SOWLINE_TLS_KEY", "SOWLINE_TLS_CLIENT_CA"), ""),
            "SOWLINE_TLS_CLIENT_REQUIRED": "false",
        }
        name = f"shard {number}"
        return StackProcess(name, Program.QUERY_SERVICE, LOOPBACK, listener(LOOPBACK, 0), common | own)

    def _nodes_access(self) -> tuple[Path, Path]:
        """Write a new token of the gateway, and the access file of its nodes, which accepts no other client."""
        directory = self._directory / "gateway"
        # Only this user may enter the directory: with the token, a client has the rights of a gateway.
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        token, access = directory / "token", directory / "access.yaml"
        secret = secrets.token_urlsafe(32)
        token.write_text(secret)
        digest = sha256(secret.encode()).hexdigest()
        access.write_text(
            f"tokens: [{{user: gateway, sha256: {digest}, roles: [gateway]}}]\n"
            "roles: {gateway: {gateway: true}}\n"
        )
        return token, access

    def _for_clients(self, program: Program, more: dict[str, str]) -> StackProcess:
        """Return the service that clients connect to."""
        if self._access is not None:
            more["SOWLINE_ACCESS"] = str(self._access.resolve())
        if self._origins:
            given = os.environ.get("SOWLINE_ORIGINS", "")
            more["SOWLINE_ORIGINS"] = ",".join((*filter(None, [given]), *self._origins))
        return StackProcess(ANSWERS, program, self._host, self._listening, more, self._scheme)

    @property
    def _scheme(self) -> str:
        return "https" if os.environ.get("SOWLINE_TLS_CERT") else "http"

    @cached_property
    def _listening(self) -> socket.socket:
        """The socket for clients. It is bound before anything is started."""
        if self._port is None:
            return _next_free(self._host)
        try:
            return listener(self._host, self._port)
        except SowlineError as error:
            raise SowlineError(
                error.reason, f"{error.message}; --port auto takes the next free one"
            ) from error

    def _keep_running(self) -> None:
        """Restart services that end, until a signal to stop."""
        while not self._stop.wait(0.2):
            if self._broker is not None and self._broker.poll() is not None:
                raise SowlineError("no kafka", "the local Kafka broker ended; its messages are above")
            for service in self._services:
                if service.ended:
                    # Without the pause, a service that can't start would keep a core busy.
                    log.warning("restarting service", service=service.name)
                    self._stop.wait(RESTART_PAUSE_SECONDS)
                    service.start(self._lock.descriptor)

    def _shut_down(self) -> None:
        """Stop the services, then the broker, which they need until they have stopped."""
        deadline = time.monotonic() + STOP_SECONDS_MAX
        for service in self._services:
            service.ask_to_stop()
        for service in self._services:
            service.wait(deadline - time.monotonic())
        if self._broker is not None:
            self._broker.terminate()
            try:
                self._broker.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                self._broker.kill()
        for service in self._services:
            service.close()


def wait_ready(services: Sequence[StackProcess], stop: threading.Event) -> bool:
    """Wait until every service is ready; raise `not started` if one ends. Return False after a signal to stop."""
    deadline = time.monotonic() + READY_SECONDS_MAX
    next_line = time.monotonic() + TELL_SECONDS
    waiting = list(services)
    while waiting and not stop.wait(0.1):
        for service in waiting:
            if service.ended:
                raise SowlineError("not started", f"the {service.name} ended; its messages are above")
        found = [(service, _not_ready(f"{service.url}/readyz")) for service in waiting]
        waiting = [service for service, why in found if why is not None]
        is_due = time.monotonic() >= next_line
        _tell_states(found, with_waiting=is_due)
        next_line += TELL_SECONDS * is_due
        if waiting and time.monotonic() > deadline:
            service, why = next(one for one in found if one[1] is not None)
            late = f"the {service.name} was not ready after {READY_SECONDS_MAX:g} s"
            raise SowlineError("not started", f"{late}: {why}" if why else late)
    return not waiting


def _tell(progress: str) -> None:
    """Report progress on a terminal: a start takes seconds, and shows nothing else."""
    if sys.stderr.isatty():
        print(f"sowline: {progress}", file=sys.stderr, flush=True)


def _tell_states(found: Sequence[tuple[StackProcess, str | None]], *, with_waiting: bool) -> None:
    """Report the services that have become ready and, `with_waiting`, why the others are not."""
    for service, why in found:
        if why is None:
            _tell(f"ready: {service.name}")
        elif with_waiting:
            _tell(f"not ready yet: {service.name}{why and f': {why}'}")


def _url(scheme: str, host: str, listening: socket.socket) -> str:
    return f"{scheme}://{LOOPBACK if host in ('', '0.0.0.0') else host}:{listening.getsockname()[1]}"  # noqa: S104 - it is replaced


def _line(stack: RunningStack) -> dict[str, object]:
    """Return where everything is, for programs."""
    console = f"{stack.url}/console/"
    return {
        "kafka": stack.kafka,
        "url": stack.url,
        "console": console,
        "pid": stack.pid,
        **stack.services,
    }


def _panel(stack: RunningStack) -> list[str]:
    """Return where everything is, for people."""
    rows = {
        "Console": f"{stack.url}/console/",
        "Queries": stack.url,
        "Kafka": stack.kafka,
        **{name.capitalize(): url for name, url in stack.services.items()},
        "Topics": stack.config,
        "State": stack.data_dir,
    }
    width = max(map(len, rows))
    lines = [f"  {name:<{width}}  {text}" for name, text in rows.items()]
    return ["", "Sowline is ready. Ctrl-C stops it.", "", *lines, ""]


def _next_free(host: str) -> socket.socket:
    """Return a socket that listens at the usual port, or at the next one above it that is free."""
    for port in range(USUAL_PORT, USUAL_PORT + PORTS_TRIED):
        with contextlib.suppress(SowlineError):
            return listener(host, port)
    raise SowlineError(
        "no port", f"expected a free port from {USUAL_PORT} to {USUAL_PORT + PORTS_TRIED - 1}, got none"
    )


def _not_ready(url: str) -> str | None:
    """Return why a process of the stack is not ready, empty if it gives no reason; None if it is ready."""
    # It is on this machine, so use no proxy, and accept a certificate for any name.
    try:
        answer = httpx2.get(url, timeout=2, verify=False, trust_env=False)
        return None if answer.status_code == 200 else str(answer.json().get("message", ""))
    except (httpx2.HTTPError, OSError, ValueError, AttributeError):
        return ""
