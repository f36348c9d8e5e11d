"""The fields of a topic's records, as a user may see them."""

from typing import Any

from sowline.model.nesting import NESTING_MAX
from sowline.model.select import parse_select
from sowline.serving.authorization.entitlements import Entitlement
from sowline_query_service.query.field_sample import described_fields
from tests.unit.gateway.rig import rig


async def test_the_fields_of_a_deep_record() -> None:
    """Also if the user may see some fields only: the record is written again without the others."""
    deep: Any = 5
    for _ in range(NESTING_MAX - 1):
        deep = {"a": deep}
    async with rig(["0/1"]) as made:
        made.put({"id": 1, "deep": deep, "secret": "x"})
        topic = made.whole.state.topics["orders"]
        entitlement = Entitlement("orders", select=parse_select("[-/secret]"))
        found = described_fields(topic.definition, topic.rows, entitlement)
    assert {field["path"] for field in found["fields"]} == {"/id", "/deep" + "/a" * (NESTING_MAX - 1)}
