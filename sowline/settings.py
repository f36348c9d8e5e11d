"""The settings of a service: `SOWLINE_*` variables, or the command line's options in their place."""

import json
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from sowline.kafka import kafka_config


def _options(given: Any) -> Any:
    """Accept Kafka client options as `key=value` lines or commas, as JSON, or as a mapping."""
    if not isinstance(given, str):
        return given
    if given.lstrip().startswith("{"):
        return json.loads(given)
    pairs = [pair.partition("=") for pair in given.replace("\n", ",").split(",") if pair.strip()]
    return {key.strip(): value.strip() for key, _, value in pairs}


class Settings(BaseSettings):
    """What a service needs to know to run. Every field is the variable `SOWLINE_<FIELD>`."""

    model_config = SettingsConfigDict(env_prefix="SOWLINE_", frozen=True, extra="ignore")

    kafka: str = Field(default="127.0.0.1:9092", description="bootstrap servers, host:port with commas")
    kafka_options: Annotated[dict[str, str], NoDecode, BeforeValidator(_options)] = Field(
        default_factory=dict, description="further librdkafka options, for TLS and SASL"
    )
    kafka_advertised: str = Field(
        default="", description="bootstrap servers that clients are told of; `kafka` if empty"
    )
    config: Path = Field(default=Path("topics.yaml"), description="the file that defines the topics")
    data_dir: Path = Field(default=Path("var"), description="where the materializer keeps its partitions")
    host: str = Field(default="127.0.0.1", description="the address that a service's HTTP port listens on")
    port: int = Field(default=0, ge=0, le=65535, description="a service's HTTP port; 0 = its usual one")
    group: str = Field(default="sowline", max_length=100, description="prefix of the Kafka consumer groups")
    accept_loss: bool = Field(default=False, description="go on where records of the log are gone for good")
    batch_records_max: int = Field(default=1000, ge=1, le=10_000, description="log records applied at once")
    session_timeout_ms: int = Field(
        default=6000, ge=1000, le=300_000, description="until a silent worker's partitions move to another"
    )
    result_records_max: int = Field(default=10_000_000, ge=1, description="records that one query may return")
    result_bytes_max: int = Field(default=1 << 30, ge=1024, description="bytes that one query may return")
    query_seconds_max: float = Field(
        default=60.0,
        gt=0,
        description="seconds of work that one query may take, its client's pace not counted",
    )
    index_bytes_max: int = Field(
        default=1 << 30, ge=0, description="memory for the indexes of all topics; the least used go first"
    )
    history_bytes_max: int = Field(
        default=1 << 30,
        ge=0,
        description="memory for the histories of all topics; the oldest intervals go first",
    )
    backlog_bytes_max: int = Field(
        default=16 * 1024 * 1024,
        ge=1024,
        description="unsent bytes of a connection before it reads at its own pace",
    )
    frame_bytes_max: int = Field(
        default=4 * 1024 * 1024, ge=1024, description="largest frame a client may send"
    )
    ring_changes_max: int = Field(
        default=20_000,
        ge=1,
        description="recent changes of a partition kept in memory for those who come back",
    )
    ring_bytes_max: int = Field(
        default=64 * 1024 * 1024,
        ge=0,
        description="memory for them; those beyond it are read from Kafka again",
    )

    progress_seconds: float = Field(
        default=10.0,
        gt=0,
        description="after so long without a message a subscription is told where it stands",
    )

    @property
    def kafka_client(self) -> dict[str, str]:
        """What every Kafka client of the service is configured with."""
        return kafka_config(self.kafka, self.kafka_options)
