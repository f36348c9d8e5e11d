"""Fanouts whose schema a registry has: registered if it is not there, waited for if the registry is away."""

import uuid
from contextlib import closing
from pathlib import Path
from typing import Any

from sowline.codecs.schema import Schema
from sowline.registry.client import Registry
from sowline.runtime.ports import HOST, free_port
from tests.integration.services import headers_of, http_refusal, http_status, system
from tests.integration.test_typed_writes import OF_OTHER_MAKE
from tests.typed_orders import AVRO_SCHEMA, avro_message, avro_order, typed
from tests.waiting import wait_for

SCHEMA = Schema("avro", AVRO_SCHEMA)


def test_a_registry_has_the_schema_of_a_fanout(kafka: str, registry: str, tmp_path: Path) -> None:
    """It is there after the start. A fanout that loads its topic again reads what it has written.

    A fanout that starts while the registry is away reports that, and writes nothing.
    """
    name = f"t{uuid.uuid4().hex[:12]}"
    fanouts = [{"name": name, "topic": name, "as": "avro"}]
    topic: dict[str, Any] = typed("avro", name, reader_schema={"text": AVRO_SCHEMA})
    with system(kafka, tmp_path, [topic], fanouts) as made:
        made.service("materializer", registry=registry).start().wait_ready()
        fanout = made.service("fanout", registry=registry)
        with closing(Registry(registry)) as client:
            written = client.register(f"{name}-value", SCHEMA)
            made.produce(name, avro_message(OF_OTHER_MAKE, written))
            changes = made.topics.topics[0].changes
            wait_for(
                lambda: any("sow" in headers_of(one) for one in made.read(changes)), "the record's change"
            )
            fanout.start().wait_ready()
            output = made.topics.fanouts[0].output
            [message] = wait_for(lambda: made.read(output), "the fanout to write the record")
            schema_id = client.id_of(f"{output}-value", SCHEMA)
        assert schema_id is not None
        assert avro_order(message.value() or b"", schema_id) == OF_OTHER_MAKE
        assert b'"command":"sow"' in headers_of(message)["sow"]
        fanout.stop()
        made.produce(name, None, b"1")
        wait_for(lambda: any(one.value() is None for one in made.read(changes)), "the record to be deleted")
        again = made.service("fanout", registry=registry, group=f"{name}-again").start().wait_ready()
        last = wait_for(lambda: made.read(output)[1:], "the fanout to write that the record is gone")[-1]
        assert avro_order(last.value() or b"", schema_id) == OF_OTHER_MAKE
        assert b'"command":"oof"' in headers_of(last)["sow"]
        again.stop()
        made.produce(name, avro_message(OF_OTHER_MAKE | {"id": 2}, written))
        waiting = made.service("fanout", registry=f"http://{HOST}:{free_port()}").start()
        sentence = f"{name}: waiting for the schema registry: expected a schema registry to answer"
        wait_for(
            lambda: sentence in http_refusal(f"{waiting.url}/readyz"), "the fanout to report why it waits"
        )
        assert http_status(f"{waiting.url}/startupz") == 200
        assert len(made.read(output)) == 2
