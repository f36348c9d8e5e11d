"""Options of Kafka clients: what a user sets, and what every client of the cluster needs."""

import json
from collections.abc import Mapping

KafkaConfig = Mapping[str, str]


def read_options(text: str) -> dict[str, str]:
    """Read options of Kafka's client: `name=value`, with commas or line breaks between, or a JSON object.

    Raises ValueError, which does not repeat the text: it may hold a password.
    """
    if text.lstrip().startswith("{"):
        try:
            given = json.loads(text)
        except json.JSONDecodeError as error:
            where = f"line {error.lineno}, column {error.colno}"
            raise ValueError(f"expected a JSON object of options, got invalid JSON at {where}") from None
        return {str(name): str(value) for name, value in given.items()}
    pairs = [pair.partition("=") for pair in text.replace("\n", ",").split(",") if pair.strip()]
    if any(not equals or not name.strip() for name, equals, _ in pairs):
        raise ValueError(
            "expected options as name=value, separated by commas or line breaks, got one without ="
        )
    return {name.strip(): value.strip() for name, _, value in pairs}


def kafka_config(bootstrap: str, options: KafkaConfig | None = None) -> dict[str, str]:
    """Return the options of every client of the cluster: its address, and the caller's options (TLS, SASL).

    A broker that comes back is found within seconds, also after it was away for long. What a client has asked of its
    topics may be lost with a connection then, and a consumer does not join its group without an answer: it asks
    again soon. It does not log each try to connect, of which it makes twenty a second: `sowline.kafka.health` tells
    once that Kafka is away, and why.
    """
    ours = {
        "bootstrap.servers": bootstrap,
        "log_level": "2",
        "reconnect.backoff.max.ms": "2000",
        "topic.metadata.refresh.interval.ms": "10000",
    }
    return {**ours, **(options or {})}
