"""Options of Kafka clients: parses the user's options, and adds those that every client of Sowline needs."""

import json
from collections.abc import Mapping

KafkaConfig = Mapping[str, str]


def read_options(text: str) -> dict[str, str]:
    """Return the options in a text: `name=value`, separated by commas or line breaks, or a JSON object.

    Raise ValueError if the text is malformed. The error does not repeat the text, which may contain a password.
    """
    if text.lstrip().startswith("{"):
        try:
            given = json.loads(text)
        except json.JSONDecodeError as error:
            # Its place instead of the parser's error, which holds the whole text, and with it maybe a password
            # (test_an_error_does_not_repeat_what_may_be_secret).
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
    """Return the options of a Kafka client: the brokers' addresses, Sowline's defaults, and `options` (TLS, SASL)."""
    ours = {
        "bootstrap.servers": bootstrap,
        # A client tries to connect twenty times a second. Do not log each failure: `sowline.kafka.health` logs once
        # that Kafka is unavailable, and why.
        "log_level": "2",
        # Find a broker within seconds after it returns, even if it was unavailable for a long time.
        "reconnect.backoff.max.ms": "2000",
        # A request for topic metadata can be lost with a connection. Until it is answered, a consumer does not join
        # its group: repeat it soon.
        "topic.metadata.refresh.interval.ms": "10000",
    }
    return {**ours, **(options or {})}
