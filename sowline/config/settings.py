"""The settings of a service: `SOWLINE_*` environment variables, overridden by command-line options."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import BeforeValidator, ConfigDict, Field, ValidationError

from sowline.config.expected import expected_by
from sowline.config.kafka_options import kafka_config, read_options
from sowline.config.plain_numbers import PlainNumbers
from sowline.config.shard import WHOLE, Shard, read_shard
from sowline.errors import SowlineError
from sowline.native import Core

PREFIX = "sowline_"
"""The prefix of the names of variables, in lower case."""

WORKERS = "-materializer"
"""The suffix of the names of the materializers' consumer groups, after the setting `group`."""

FANOUTS = "-fanout-"
VIEWS = "-view-"
"""In the names of the consumer groups of fanouts and views, the part between the setting `group` and their name."""


def _options(given: Any) -> Any:
    """Accept Kafka client options as text, or as a mapping."""
    return read_options(given) if isinstance(given, str) else given


def _shard(given: Any) -> Any:
    """Accept a shard as text, such as `2/8`."""
    return read_shard(given) if isinstance(given, str) else given


def node_urls(text: str) -> list[str]:
    """Return the URLs in the setting `nodes`; raise `bad configuration`."""
    urls = [url.strip().rstrip("/") for url in text.split(",") if url.strip()]
    wrong = [url for url in urls if not url.startswith(("http://", "https://"))]
    if not urls or wrong:
        raise SowlineError(
            "bad configuration",
            "expected SOWLINE_NODES to have the URLs of query services, such as http://query-0:8080,"
            f" got {(wrong or [text])[0]!r}",
        )
    return urls


class Settings(PlainNumbers):
    """The settings of a service. Each field is read from the variable `SOWLINE_<FIELD>`."""

    model_config = ConfigDict(frozen=True, extra="ignore", validate_default=True)

    kafka: str = Field(
        default="127.0.0.1:9092", description="bootstrap servers: comma-separated `host:port` pairs"
    )
    kafka_options: Annotated[dict[str, str], BeforeValidator(_options)] = Field(
        default_factory=dict, description="further librdkafka options, such as those for TLS and SASL"
    )
    kafka_advertised: str = Field(
        default="", description="bootstrap servers that the service names to clients; defaults to `kafka`"
    )
    registry: str = Field(
        default="",
        description="URL of a schema registry with Confluent's API, for message types with schemas; may"
        " contain a user and a password",
    )
    config: Path = Field(default=Path("topics.yaml"), description="the file that defines the topics")
    data_dir: Path = Field(
        default=Path("var"),
        description="directory for a materializer's partitions, and for a views service's join data beyond"
        " `join_bytes_max`",
    )
    host: str = Field(default="127.0.0.1", description="the address that a service listens on")
    port: int = Field(
        default=0, ge=0, le=65535, description="a service's HTTP port; 0 means its default port"
    )
    group: str = Field(default="sowline", max_length=100, description="prefix of the Kafka consumer groups")
    accept_loss: bool = Field(
        default=False, description="continue even if records of the log are permanently lost"
    )
    batch_records_max: int = Field(
        default=1000, ge=1, le=10_000, description="log records that a materializer applies at once"
    )
    cache_bytes_max: int = Field(
        default=1 << 27, ge=0, description="memory for the records that a materializer used most recently"
    )
    store_bytes_max: int = Field(
        default=1 << 27,
        ge=1 << 23,
        description="memory for the buffers and blocks of all stores of a materializer",
    )
    join_bytes_max: int = Field(
        default=1 << 28,
        ge=1 << 24,
        description="memory of a views service for joined topics and their sources; the rest is on disk",
    )
    session_timeout_ms: int = Field(
        default=6000,
        ge=1000,
        le=300_000,
        description="time after which the partitions of a silent worker move to another worker",
    )
    standby: bool = Field(
        default=False, description="keep a warm copy of each partition that another worker owns"
    )
    core: Core | None = Field(
        default=None,
        description="the core, `native` or `python`, for ordinary log records, changes and deltas, views and memo"
        " indexes; defaults to `native` if `sowline[native]` is installed",
    )
    result_records_max: int = Field(default=10_000_000, ge=1, description="records that one query may return")
    result_bytes_max: int = Field(default=1 << 30, ge=1024, description="bytes that one query may return")
    query_seconds_max: float = Field(
        default=60.0,
        gt=0,
        description="seconds of work that one query may take, excluding the time in which its client reads",
    )
    queries_max: int = Field(
        default=32, ge=1, description="queries and snapshots that a service runs at once; others wait"
    )
    queries_per_user_max: int = Field(
        default=16,
        ge=1,
        description="how many of `queries_max` one user, or one address without a logon, can use",
    )
    queries_per_connection_max: int = Field(
        default=8, ge=1, description="how many of `queries_max` one connection can use"
    )
    queries_waiting_max: int = Field(
        default=10_000,
        ge=1,
        description="connections whose queries wait for their turn; the service refuses more",
    )
    query_unread_seconds_max: float = Field(
        default=10.0,
        gt=0,
        description="seconds within which a client must read 256 KiB of its results while other queries wait",
    )
    index_bytes_max: int = Field(
        default=1 << 30,
        ge=0,
        description="memory for the indexes of all topics; the service drops the least used first",
    )
    view_bytes_max: int = Field(
        default=1 << 31,
        ge=0,
        description="memory for the live pages and groups of a service; it refuses more",
    )
    view_bytes_per_user_max: int = Field(
        default=1 << 30,
        ge=0,
        description="how much of `view_bytes_max` one user, or one address without a logon, can hold",
    )
    view_bytes_per_connection_max: int = Field(
        default=1 << 29, ge=0, description="how much of `view_bytes_max` one connection can hold"
    )
    history_bytes_max: int = Field(
        default=1 << 30,
        ge=0,
        description="memory for the histories of all topics; the service drops the oldest intervals first",
    )
    timeline_bytes_max: int = Field(
        default=1 << 30,
        ge=0,
        description="memory for the timelines of documents; the service drops the oldest writes first",
    )
    backlog_bytes_max: int = Field(
        default=16 * 1024 * 1024,
        ge=1024,
        description="unsent bytes after which the service serves a connection from the changes topic",
    )
    backlogs_bytes_max: int = Field(
        default=1 << 30,
        ge=1024,
        description="unsent bytes of all connections together; each connection gets at most an equal share",
    )
    sessions_max: int = Field(
        default=10_000,
        ge=1,
        description="client connections, if the process has enough file descriptors; more are refused",
    )
    frame_bytes_max: int = Field(
        default=4 * 1024 * 1024, ge=1024, description="the largest frame that a client may send"
    )
    request_seconds_max: float = Field(
        default=30.0,
        gt=0,
        description="seconds within which an HTTP request, including its body, must arrive",
    )
    silent_seconds_max: float = Field(
        default=60.0,
        ge=1,
        description="seconds after which the service drops a client whose machine acknowledges no data",
    )
    ring_changes_max: int = Field(
        default=20_000,
        ge=1,
        description="recent changes per partition that a service keeps in memory for clients that resume",
    )
    ring_bytes_max: int = Field(
        default=64 * 1024 * 1024,
        ge=0,
        description="memory for these recent changes; the service reads older ones from Kafka",
    )

    shard: Annotated[Shard, BeforeValidator(_shard)] = Field(
        default=WHOLE,
        description="the shard that a query service holds: `k/n` is shard k of n, and `0/1` holds all"
        " partitions",
    )
    nodes: str = Field(
        default="", description="comma-separated URLs of the query services that a gateway uses"
    )
    nodes_token_file: Path | None = Field(
        default=None, description="a file with the gateway's token for query services"
    )
    nodes_ca_file: Path | None = Field(
        default=None,
        description="a PEM file with the CA certificates that a gateway trusts for query services",
    )
    nodes_cert_file: Path | None = Field(
        default=None, description="a PEM file with the gateway's client certificate for query services"
    )
    nodes_key_file: Path | None = Field(
        default=None, description="a PEM file with the key of that certificate, if it is separate"
    )
    snapshot_dir: Path | None = Field(
        default=None,
        description="a query service's directory for snapshots; without it, each start loads whole topics",
    )
    snapshot_seconds: float = Field(
        default=300.0, gt=0, description="seconds between snapshots of a partition"
    )
    snapshot_bytes_per_second_max: int = Field(
        default=32 * 1024 * 1024,
        ge=1024,
        description="bytes per second at which the service writes snapshots",
    )

    progress_seconds: float = Field(
        default=10.0,
        gt=0,
        description="seconds without a message after which the service sends a subscription its bookmark",
    )

    access: str = Field(
        default="",
        description="the file that defines users and their rights; without it, every client may do everything",
    )
    logon_seconds_max: float = Field(
        default=10.0, gt=0, description="seconds after which the service closes a connection without a logon"
    )
    sessions_per_user_max: int = Field(
        default=0, ge=0, description="connections of one user; 0 means no limit"
    )

    tls_cert: str = Field(
        default="", description="a PEM file with the query service's certificate and the chain to its CA"
    )
    tls_key: str = Field(
        default="", description="a PEM file with the key; if empty, the key is in the certificate's file"
    )
    tls_client_ca: str = Field(
        default="",
        description="a PEM file with the CA of client certificates; if empty, the service requests none",
    )
    tls_client_required: bool = Field(
        default=False, description="require a client certificate from every client"
    )

    origins: str = Field(
        default="",
        description="comma-separated origins whose web pages may also send requests, such as"
        " `https://desk.example`",
    )
    trusted_proxies: str = Field(
        default="",
        description="comma-separated addresses or networks of proxies whose `X-Forwarded-For` the service"
        " trusts, such as `10.1.0.0/16`",
    )
    commands_per_second_max: float = Field(
        default=0.0, ge=0, description="commands of one user per second; 0 means no limit"
    )

    @property
    def kafka_client(self) -> dict[str, str]:
        """The options of every Kafka client of the service."""
        return kafka_config(self.kafka, self.kafka_options)


SECRET = frozenset({"kafka_options"})
"""Settings whose values errors never contain."""


class Misfit(NamedTuple):
    """A setting with an invalid value: its variable, the expected value, and the given value (empty if secret)."""

    variable: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.variable}: {self.expected}" + (f", got {self.found}" if self.found else "")


class SettingsError(SowlineError):
    """Invalid settings (`bad configuration`). The error lists all of them."""

    def __init__(self, misfits: Sequence[Misfit]) -> None:
        super().__init__("bad configuration", "; ".join(map(str, misfits)))
        self.misfits = misfits


def read_settings(**given: Any) -> Settings:
    """Return the settings from the environment, overridden by the given ones; raise `SettingsError`."""
    try:
        return Settings.model_validate(_of_environment() | given)
    except ValidationError as error:
        misfits = [_misfit(str(one["loc"][0]), expected_by(one), one["input"]) for one in error.errors()]
    # Outside of the block: as the cause of this error, Pydantic's would show the values of secrets in a traceback.
    raise SettingsError(misfits)


def _of_environment() -> dict[str, str]:
    """Return the settings that variables have, by field; upper and lower case are the same in a variable's name."""
    names = (
        (name.lower().removeprefix(PREFIX), name) for name in os.environ if name.lower().startswith(PREFIX)
    )
    # Commands have further variables, such as SOWLINE_URL.
    return {field: os.environ[name] for field, name in names if field in Settings.model_fields}


def _misfit(name: str, expected: str, found: Any) -> Misfit:
    return Misfit(f"SOWLINE_{name.upper()}", expected, "" if name in SECRET else repr(str(found)[:100]))
