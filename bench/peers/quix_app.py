"""The merging job in Quix Streams, over its RocksDB store with a changelog, until it is ended.

`python quix_app.py BOOTSTRAP SOURCE TARGET STATE_DIRECTORY APPLICATION`, in an environment that has Quix Streams.
"""

import sys
from typing import Any

from quixstreams import Application


def main(bootstrap: str, source: str, target: str, directory: str, application: str) -> None:
    """Merge deltas into the record that the state holds, and write the whole record for each one."""
    app = Application(
        broker_address=bootstrap,
        consumer_group=application,
        state_dir=directory,
        auto_offset_reset="earliest",
        processing_guarantee="at-least-once",
        loglevel="ERROR",
        consumer_extra_config={"fetch.message.max.bytes": 4 << 20, "queued.max.messages.kbytes": 1 << 17},
        producer_extra_config={
            "linger.ms": 20,
            "batch.size": 1 << 18,
            "compression.type": "lz4",
            "queue.buffering.max.messages": 2_000_000,
        },
    )
    records = app.dataframe(app.topic(source, key_deserializer="bytes", value_deserializer="json"))
    merged = app.topic(target, key_serializer="bytes", value_serializer="json")
    records.apply(_merged, stateful=True, metadata=True).to_topic(merged)
    app.run()


def _merged(body: dict[str, Any], key: bytes, timestamp: int, headers: Any, state: Any) -> dict[str, Any]:
    previous = state.get("body") if headers else None
    whole = {**previous, **body} if previous else body
    state.set("body", whole)
    return whole


if __name__ == "__main__":
    main(*sys.argv[1:])
