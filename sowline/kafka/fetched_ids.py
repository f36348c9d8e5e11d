"""The ids of the topics that a consumer fetches from.

Kafka's client fetches by topic id. If a topic was deleted and created again, a fetch fails, the client learns the
new id, and continues at the same offset of the new topic. It reports neither the error nor the id. But it writes a
line to its log for each id that it learns, and hands that line over before the first message that it fetches by the
new id.
"""

import logging
import re
from collections.abc import Mapping
from typing import Any, Final

from sowline.config.kafka_options import KafkaConfig
from sowline.runtime.library_logs import LIBRDKAFKA, SYSLOG_LEVELS

_LEARNED: Final = re.compile(r"Topic (\S+) changed id from \S+ to (\S+)$")


class FetchedIds:
    """Takes the log lines of one consumer: records topic ids, and passes on lines that would be logged anyway."""

    def __init__(self, kafka: KafkaConfig) -> None:
        wanted = [one for one in str(kafka.get("debug", "")).split(",") if one]
        self._level = logging.DEBUG if wanted else SYSLOG_LEVELS[int(kafka.get("log_level", 6))]
        self._logger = logging.getLogger(LIBRDKAFKA)
        self._ids: dict[str, str] = {}
        self.options: Mapping[str, Any] = {"logger": self, "debug": ",".join({*wanted, "topic"})}
        """The consumer's options. With `debug`, the client logs at all levels, regardless of its `log_level`."""

    def log(self, level: int, format: str, *given: str) -> None:
        """Take one line. The client calls this in `poll` and `consume`, in the order of its messages."""
        if (learned := _LEARNED.search(given[-1])) is not None:
            self._ids[learned[1]] = learned[2]
        if level >= self._level:
            self._logger.log(level, format, *given)

    def is_other(self, topic: str, topic_id: str) -> bool:
        """Whether the consumer fetches a topic by another id than this one."""
        return self._ids.get(topic, topic_id) != topic_id
