"""A data dictionary and options of topics, for the tests of the modules that read them."""

from typing import Any

import orjson

from sowline.codecs.fix import FixCodec
from sowline.codecs.schema import FIX, MessagePayload, Schema

DICTIONARY = """
<fix major="4" minor="4">
  <header><field name="BeginString" required="Y"/><field name="MsgType"/></header>
  <messages>
    <message name="NewOrderSingle" msgtype="D" msgcat="app">
      <field name="ClOrdID"/>
      <component name="Parties"/>
      <group name="NoUnderlyings"><field name="UnderlyingSymbol"/></group>
      <field name="Side"/>
      <field name="EncodedTextLen"/><field name="EncodedText"/>
    </message>
    <message name="ListStrikePrice" msgtype="m" msgcat="app">
      <group name="NoUnderlyings"><field name="UnderlyingSymbol"/><field name="Side"/></group>
    </message>
  </messages>
  <trailer><field name="CheckSum" required="Y"/></trailer>
  <components>
    <component name="Parties">
      <group name="NoPartyIDs">
        <field name="PartyID"/>
        <group name="NoPartySubIDs"><field name="PartySubID"/></group>
      </group>
    </component>
  </components>
  <fields>
    <field number="8" name="BeginString" type="STRING"/>
    <field number="10" name="CheckSum" type="STRING"/>
    <field number="11" name="ClOrdID" type="STRING"/>
    <field number="35" name="MsgType" type="STRING"><value enum="D" description="NEW"/></field>
    <field number="54" name="Side" type="CHAR">
      <value enum="1" description="BUY"/><value enum="2" description="SELL"/><value enum="3"/>
    </field>
    <field number="311" name="UnderlyingSymbol" type="STRING"/>
    <field number="354" name="EncodedTextLen" type="LENGTH"/>
    <field number="355" name="EncodedText" type="DATA"/>
    <field number="448" name="PartyID" type="STRING"/>
    <field number="453" name="NoPartyIDs" type="NUMINGROUP"/>
    <field number="523" name="PartySubID" type="STRING"/>
    <field number="711" name="NoUnderlyings" type="NUMINGROUP"/>
    <field number="802" name="NoPartySubIDs" type="NUMINGROUP"/>
    <field number="9001" name="BlobSize" type="LENGTH"/>
    <field number="9002" name="Blob" type="DATA"/>
    <field number="9003" name="Blob2" type="DATA" lenField="9004"/>
    <field number="9004" name="Blob2Bytes" type="INT"/>
    <field number="9005" name="Blob3" type="DATA" lenField="Blob3Bytes"/>
    <field number="9006" name="Blob3Bytes" type="INT"/>
    <field number="9007" name="Free" type="DATA"/>
  </fields>
</fix>"""


def schema(type: Any = FIX, **options: Any) -> Schema:
    """Return the options of a topic."""
    return Schema(type, orjson.dumps(options, option=orjson.OPT_SORT_KEYS).decode())


def read_by(codec: FixCodec, message: bytes) -> dict[str, Any]:
    """Return the JSON of a message."""
    document: dict[str, Any] = orjson.loads(codec.read(MessagePayload(message), schema()))
    return document
