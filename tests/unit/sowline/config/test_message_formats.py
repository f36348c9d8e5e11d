"""The options of message types without schemas: which type has which, and what its codec gets."""

from typing import Any

import orjson
import pytest
from pydantic import ValidationError

from sowline.config.message_formats import NO_OPTIONS, CompositePart, MessageFormat

DICTIONARY = """
<fix major='4' minor='4'>
  <header/><trailer/>
  <messages><message name='Order' msgtype='D' msgcat='app'>
    <field name='Side' required='N'/>
    <group name='NoLegs' required='N'><field name='LegID' required='N'/></group>
  </message></messages>
  <fields>
    <field number='54' name='Side' type='CHAR'><value enum='1' description='BUY'/></field>
    <field number='555' name='NoLegs' type='NUMINGROUP'/>
    <field number='600' name='LegID' type='STRING'/>
  </fields>
</fix>
"""


def read(**options: Any) -> MessageFormat:
    """Return options as they are written in a file."""
    return MessageFormat.model_validate(options)


@pytest.mark.parametrize(
    ("type", "options", "message"),
    [
        (
            "nvfix",
            {"names": {"11": "ClOrdID"}},
            "expected data, groups, separator with message type nvfix, got names",
        ),
        ("msgpack", {"lists": ["/a"]}, "expected no options with message type msgpack, got lists"),
        ("xml", {"separator": "|"}, "expected lists, namespaces with message type xml, got separator"),
        ("composite-local", {}, "expected parts with message type composite-local, got none"),
    ],
)
def test_an_option_is_for_some_types(type: str, options: dict[str, Any], message: str) -> None:
    """The refusal names the options that the type has."""
    with pytest.raises(ValueError, match=message):
        read(**options).check(type)


@pytest.mark.parametrize(
    ("type", "options"),
    [
        ("fix", {"separator": "|"}),
        ("bson", {}),
        ("xml", {"lists": ["/a"]}),
        ("composite-global", {"parts": [{"type": "json"}]}),
    ],
)
def test_options_of_the_type_pass(type: str, options: dict[str, Any]) -> None:
    """They are what its codec reads, with sorted names."""
    made = read(**options)
    made.check(type)
    schema = made.schema_of(type)  # type: ignore[arg-type]
    assert (schema.type, orjson.loads(schema.text)) == (type, options)


def test_only_what_is_set_is_sent() -> None:
    """A text without options is the same in each version that has another one."""
    assert NO_OPTIONS.sent() == {}
    assert read(names={11: "ClOrdID"}, separator="|").sent() == {"names": {"11": "ClOrdID"}, "separator": "|"}


def test_a_dictionary_names_fields_and_groups() -> None:
    """What the options give by themselves counts more."""
    made = read(dictionaries=[{"text": DICTIONARY}], names={"54": "BuyOrSell"})
    assert made.sent()["names"]["54"] == "BuyOrSell"
    assert made.sent()["names"]["600"] == "LegID"
    assert made.value_names == {"BuyOrSell": {"1": "BUY"}}
    (group,) = made.sent()["groups"]
    assert group.endswith("555")
    assert read(dictionaries=[{"text": DICTIONARY}], groups={555: [600, 601]}).sent()["groups"] == {
        "555": (600, 601)
    }


def test_what_is_no_dictionary_is_refused() -> None:
    """When the file is read, and not at the first message."""
    with pytest.raises(ValidationError, match="expected"):
        read(dictionaries=[{"text": "<nothing"}])


def test_a_field_has_the_name_of_its_tag() -> None:
    """In a message of FIX, and in a part of one."""
    names = read(names={"11": "ClOrdID"})
    assert names.named("fix", ("11", "x")) == ("ClOrdID", "x")
    assert names.named("fix", ("12",)) == ("12",)
    assert names.named("xml", ("11",)) == ("11",)
    parts = read(parts=[{"type": "json"}, {"type": "fix", "format": {"names": {"11": "ClOrdID"}}}])
    assert parts.named("composite-local", ("1", "11")) == ("1", "ClOrdID")
    assert parts.named("composite-local", ("0", "11")) == ("0", "11")
    assert parts.named("composite-local", ("7", "11")) == ("7", "11")


def test_a_part_has_the_options_of_its_type() -> None:
    """JSON has none."""
    assert CompositePart(type="json").sent() == {"type": "json"}
    fix = {"type": "fix", "format": {"separator": "|"}}
    assert CompositePart.model_validate(fix).sent() == fix
    with pytest.raises(ValidationError, match="expected no format with a part of type json, got one"):
        CompositePart.model_validate({"type": "json", "format": {}})
    with pytest.raises(ValidationError, match="expected no options with message type bson"):
        CompositePart.model_validate({"type": "bson", "format": {"separator": "|"}})
