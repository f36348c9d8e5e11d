"""Writes records with header names that are not UTF-8, as clients in C and Go may: `confluent-kafka` writes none."""

import ctypes
from collections.abc import Sequence
from pathlib import Path

import confluent_kafka
from confluent_kafka import TopicPartition

from sowline.config.kafka_options import kafka_config
from sowline.kafka.clients import consuming

_TOPIC, _PARTITION, _VALUE, _KEY, _MSGFLAGS, _HEADERS = 1, 3, 4, 5, 7, 10
_COPY = 2
_PRODUCER = 0
_LIBRARY = next(Path(confluent_kafka.__file__).parents[1].glob("confluent_kafka.libs/librdkafka*"))
FLUSH_MS = 30_000


class _Memory(ctypes.Structure):
    _fields_ = (("at", ctypes.c_char_p), ("size", ctypes.c_size_t))


class _Value(ctypes.Union):
    _fields_ = (
        ("text", ctypes.c_char_p),
        ("number", ctypes.c_int32),
        ("pointer", ctypes.c_void_p),
        ("memory", _Memory),
        ("padding", ctypes.c_char * 64),
    )


class _Given(ctypes.Structure):
    _fields_ = (("kind", ctypes.c_int), ("value", _Value))


def produce_raw(
    bootstrap: str,
    topic: str,
    value: bytes | None,
    key: bytes | None,
    headers: Sequence[tuple[bytes, bytes | None]],
    partition: int = 0,
) -> int:
    """Write one record with these header names, whatever their bytes are; return its offset."""
    library = ctypes.CDLL(str(_LIBRARY))
    for function in ("rd_kafka_conf_new", "rd_kafka_new", "rd_kafka_headers_new", "rd_kafka_produceva"):
        getattr(library, function).restype = ctypes.c_void_p
    conf, error = ctypes.c_void_p(library.rd_kafka_conf_new()), ctypes.create_string_buffer(500)
    library.rd_kafka_conf_set(conf, b"bootstrap.servers", bootstrap.encode(), error, ctypes.c_size_t(500))
    producer = ctypes.c_void_p(library.rd_kafka_new(_PRODUCER, conf, error, ctypes.c_size_t(500)))
    named = ctypes.c_void_p(library.rd_kafka_headers_new(ctypes.c_size_t(len(headers))))
    for name, content in headers:
        size = ctypes.c_ssize_t(-1 if content is None else len(content))
        library.rd_kafka_header_add(named, name, ctypes.c_ssize_t(len(name)), content, size)
    given = [
        _Given(_TOPIC, _Value(text=topic.encode())),
        _Given(_PARTITION, _Value(number=partition)),
        _Given(_MSGFLAGS, _Value(number=_COPY)),
        _Given(_VALUE, _Value(memory=_Memory(value, len(value or b"")))),
        _Given(_KEY, _Value(memory=_Memory(key, len(key or b"")))),
        _Given(_HEADERS, _Value(pointer=named)),
    ]
    refused = library.rd_kafka_produceva(producer, (_Given * len(given))(*given), ctypes.c_size_t(len(given)))
    assert not refused, "the record was not taken"
    assert library.rd_kafka_flush(producer, FLUSH_MS) == 0, "the record was not written"
    library.rd_kafka_destroy(producer)
    with consuming(kafka_config(bootstrap)) as consumer:
        return consumer.get_watermark_offsets(TopicPartition(topic, partition))[1] - 1
