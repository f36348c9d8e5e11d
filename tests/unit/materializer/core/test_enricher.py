"""Fields that are computed of messages."""

from typing import Any

from sowline.config.topic_definition import define_topic
from sowline.model.key import sow_key
from sowline_materializer.core.enricher import Enricher, Given
from tests.unit.materializer.core.test_applier import DOMAIN, Core, reasons


def test_enrichment_sees_what_preprocessing_has_made() -> None:
    """The stages follow each other, and the record has the fields of both."""
    core = Core(preprocessing=["/a + 1 AS /a"], enrichment=["/a + 1 AS /b", "SOW_KEY() AS /key"])
    core.write({"id": 1, "a": 1})
    assert core.body("1") == {"id": 1, "a": 2, "b": 3, "key": sow_key(DOMAIN, "1").decode()}


def test_a_delta_is_enriched_before_it_is_merged() -> None:
    """Only its own fields are seen; those of the record are there as the previous ones."""
    core = Core(enrichment=["/a AS /seen", "/a OF PREVIOUS AS /before"])
    core.write({"id": 1, "a": 1})
    core.write({"id": 1, "b": 1}, "delta_publish")
    assert core.body("1") == {"id": 1, "a": 1, "b": 1, "seen": None, "before": 1}


def test_a_deleted_record_has_no_previous_state() -> None:
    """Also while its numbers are remembered, which another owner may not do any more."""
    core = Core(enrichment=["/a OF PREVIOUS AS /before", "LAST_UPDATED() AS /at"])
    core.write({"id": 1, "a": 1}, publisher="p", sequence="1")
    core.write({"id": 1}, "sow_delete", publisher="p", sequence="2")
    core.write({"id": 1}, publisher="p", sequence="3")
    assert core.body("1") == {"id": 1, "before": None, "at": None}


def test_a_repeat_is_not_enriched_again() -> None:
    """A counter stays where it is when a message comes twice."""
    core = Core(enrichment=["COALESCE(/n OF PREVIOUS, 0) + 1 AS /n"])
    core.write({"id": 1}, publisher="p", sequence="1")
    assert core.write({"id": 1}, publisher="p", sequence="1").outcomes == {"1": "repeat"}
    assert core.body("1") == {"id": 1, "n": 1}


def test_time_is_the_logs() -> None:
    """It is when the log took the message, and does not run backwards."""
    core = Core(enrichment=["UNIX_TIMESTAMP() AS /at", "LAST_UPDATED() AS /before", "BOOKMARK() AS /place"])
    core.time = 86_400_500
    core.write({"id": 1})
    assert core.body("1") == {"id": 1, "at": 86_400.5, "before": None, "place": "orders:0@0"}
    core.time = 5
    core.write({"id": 1})
    assert core.body("1") == {"id": 1, "at": 86_400.5, "before": 86_400.5, "place": "orders:0@1"}


def test_what_is_known_of_a_message() -> None:
    """Its size as it came, in both stages, what its publisher called it, and its topic."""
    fields = ["MESSAGE_SIZE() AS /{}/size", "CORRELATION_ID() AS /{}/name", "TOPIC_NAME() AS /{}/topic"]
    stages = {"preprocessing": "p", "enrichment": "e"}
    definition: dict[str, Any] = {
        stage: [field.format(path) for field in fields] for stage, path in stages.items()
    }
    core = Core(**definition)
    core.write(b'{ "id": 1 }', correlation="c")
    known = {"size": 11, "name": "c", "topic": "orders"}
    assert core.body("1") == {"id": 1, "p": known, "e": known}


def test_enrichment_may_not_outgrow_the_limit() -> None:
    """The size of the record counts, not of the message; the record before stays."""
    core = Core(enrichment=["CONCAT(/a, /a OF PREVIOUS) AS /a HINT OPTIONAL"], record_bytes_max=64)
    core.write({"id": 1, "a": "x" * 30})
    assert reasons(core.write({"id": 1, "a": "y" * 30})) == ["too large"]
    assert reasons(core.write({"id": 1, "a": "y" * 30}, "delta_publish")) == ["too large"]
    assert core.body("1") == {"id": 1, "a": "x" * 30}


def test_computed_fields_are_merged_into_a_message() -> None:
    """An optional field without a value is left out."""
    topic = define_topic(
        name="orders", key="/id", enrichment=["/a + 1 AS /b", "LAST_UPDATED() AS /t HINT OPTIONAL"]
    )
    assert topic.enrich is not None
    enricher = Enricher(topic, topic.enrich, 0)
    given = Given(b"7", 0, 5, 10, None, 1000, 500, None)
    assert enricher.computed(b'{"id":1,"a":1}', *given) == b'{"b":2,"t":0.5}'
    assert enricher.computed(b'{"id":1,"a":1}', *given._replace(updated=None)) == b'{"b":2}'
