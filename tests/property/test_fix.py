"""FIX and NVFIX: round trips of messages, JSON and deltas, also under groups that share members; and any bytes."""

from collections.abc import Callable
from typing import Any

import jsonschema_rs
import orjson
from hypothesis import example, given
from hypothesis import strategies as st

from sowline.codecs.fix import FixCodec, NvfixCodec
from sowline.codecs.schema import FIX, NVFIX, MessagePayload, Schema
from sowline.errors import SowlineError
from sowline.model.body import read_object

_SHARED = {"100": [1, 2, 3, 200], "200": [4, 2, 5, 300], "300": [6, 7, 1], "D:100": [2, 1], "400": [300, 12]}
"""Groups that share members with those within them, and one whose entries begin with a group."""

_NAMES = {"1": "One", "8": "BeginString", "100": "NoHundreds", "200": "NoTwos", "21": "Raw", "35": "MsgType"}


def _options(**options: Any) -> str:
    return orjson.dumps(options, option=orjson.OPT_SORT_KEYS).decode()


FIX_SCHEMAS = [
    Schema(FIX, "{}"),
    Schema(FIX, _options(groups=_SHARED, data={"20": 21}, separator="|")),
    Schema(FIX, _options(groups=_SHARED, data={"20": 21}, separator="|", names=_NAMES)),
]
NVFIX_SCHEMAS = [
    Schema(NVFIX, "{}"),
    Schema(NVFIX, _options(groups={"NoLegs": ["a", "b"]}, data={"size": "data"}, separator="|")),
]
FIXES = [FixCodec(schema) for schema in FIX_SCHEMAS]
NVFIXES = [NvfixCodec(schema) for schema in NVFIX_SCHEMAS]
ALL = [*zip(FIXES, FIX_SCHEMAS, strict=True), *zip(NVFIXES, NVFIX_SCHEMAS, strict=True)]
_DESCRIPTIONS = [jsonschema_rs.validator_for(codec.described()) for codec, _ in ALL]

_TAGS = [
    *map(str, (*range(1, 13), 20, 21, 34, 35, 49, 54, 89, 93, 95, 96, 100, 200, 300, 311, 400)),
    *map(str, (447, 448, 453, 523, 711, 802)),
]
_names = st.sampled_from([*_TAGS, "One", "NoHundreds", "Raw", "a", "b", "NoLegs", "size", "data"])
_texts = st.text(st.characters(exclude_characters="|\x01", codec="utf-8"), max_size=4) | st.sampled_from(
    ["1", "2", "D"]
)


def _read(codec: NvfixCodec, message: bytes) -> bytes:
    return codec.read(MessagePayload(message), FIX_SCHEMAS[0])


def _unless_refused(call: Callable[[], bytes], reason: str = "bad message") -> Any:
    """Return what a call returns; None if it raises a SowlineError, which must have this reason and a sentence."""
    try:
        return call()
    except SowlineError as error:
        if error.reason != reason or not 0 < len(error.message) < 500:
            raise
    return None


def framed(head: bytes, rest: bytes, separator: bytes = b"\x01") -> bytes:
    """Return a message with BodyLength and CheckSum."""
    message = head + separator + b"9=%d" % len(rest) + separator + rest
    return message + b"10=%03d" % (sum(message) % 256) + separator


# --- messages, field by field -----------------------------------------------------------------------------------

_values = st.binary(max_size=5).map(lambda value: value.replace(b"\x01", b"="))


def _field(tag: int, values: st.SearchStrategy[bytes] = _values) -> st.SearchStrategy[bytes]:
    return values.map(lambda value: b"%d=%b\x01" % (tag, value))


def _data(length: int, tag: int) -> st.SearchStrategy[bytes]:
    return st.binary(max_size=6).map(lambda value: b"%d=%d\x01%d=%b\x01" % (length, len(value), tag, value))


def _maybe(*parts: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    return st.tuples(*(st.just(b"") | part for part in parts)).map(b"".join)


def _group(count: int, delimiter: int, *members: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    entry = st.tuples(_field(delimiter), _maybe(*members)).map(b"".join)
    return st.lists(entry, max_size=3).map(
        lambda entries: b"%d=%d\x01" % (count, len(entries)) + b"".join(entries)
    )


_parties = _group(453, 448, _field(447), _field(452), _group(802, 523, _field(803)))
_legs = _group(555, 600, _field(602), _data(618, 619), _group(539, 524, _field(525)), _field(566))
fix_bodies = _maybe(
    _field(11), _field(1), _parties, _field(55), _field(54), _field(38), _legs, _field(60), _data(95, 96),
    _field(58), st.lists(_field(5001), max_size=3).map(b"".join), _field(9999), _data(354, 355),
)  # fmt: skip
fix_headers = _maybe(_field(49), _field(56), _field(34), _field(52), _data(90, 91))


@given(_values, _values, fix_headers, fix_bodies, _maybe(_data(93, 89)))
def test_messages_with_a_header_come_back_byte_for_byte(
    begin: bytes, message_type: bytes, header: bytes, body: bytes, trailer: bytes
) -> None:
    """Nothing of such a message is lost, unless BeginString or MsgType are not UTF-8: those are refused."""
    message = framed(b"8=" + begin, b"35=" + message_type + b"\x01" + header + body + trailer)
    document = _unless_refused(lambda: _read(FIXES[0], message))
    if document is None:
        assert not _is_utf8(begin) or not _is_utf8(message_type)
        return
    assert FIXES[0].write(document) == message
    assert FIXES[0].completed(document) == document
    assert _read(FIXES[0], message[:-1]) == document
    _DESCRIPTIONS[0].validate(orjson.loads(document))


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


@given(fix_bodies.filter(bool))
def test_messages_without_a_header_come_back_byte_for_byte(body: bytes) -> None:
    """The fields of a message keep their order and their exact text."""
    document = _read(FIXES[0], body)
    assert FIXES[0].write(document) == body
    assert FIXES[0].write_delta(document) == (body, ())
    assert FIXES[0].read_delta(MessagePayload(body), FIX_SCHEMAS[0], None) == document


# --- any message that can be read -------------------------------------------------------------------------------


@st.composite
def tag_messages(draw: st.DrawFn) -> bytes:
    """Draw fields that may be anything: sometimes with a frame."""
    separator = draw(st.sampled_from([b"\x01", b"|"]))
    fields = draw(st.lists(st.tuples(_names, _texts), min_size=1, max_size=12))
    rest = b"".join(f"{name}={value}".encode() + separator for name, value in fields)
    is_framed = draw(st.booleans())
    return framed(b"8=FIX.4.2", b"35=D" + separator + rest, separator) if is_framed else rest


@given(tag_messages() | st.binary())
@example(b"100=1|2=a|1=b|2=c|")
@example(b"400=1|300=1|6=a|12=b|")
@example(b"8=F|9=99999999999999999999|35=D|10=000|")
def test_what_can_be_read_can_be_written_and_reads_the_same(message: bytes) -> None:
    """A codec refuses bytes with a sentence, or its JSON comes back from what it writes."""
    for (codec, _), description in zip(ALL, _DESCRIPTIONS, strict=True):
        document = _unless_refused(lambda codec=codec: _read(codec, message))  # type: ignore[misc]
        if document is None:
            continue
        read_object(document)
        description.validate(orjson.loads(document))
        assert _read(codec, codec.write(document)) == document
        assert codec.completed(document) == document
        assert codec.upgraded(document) == document


# --- any JSON that a client may send ----------------------------------------------------------------------------

_scalars = (
    _texts
    | st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.builds(lambda text: {"$base64": text}, st.sampled_from(["", "YQ==", "/w==", "AQ==", "fA==", "x"]))
)
_leaf = _scalars | st.lists(_scalars, max_size=3)
_entries = st.recursive(
    st.lists(st.dictionaries(_names, _texts, min_size=1, max_size=4), max_size=3),
    lambda inner: st.lists(st.dictionaries(_names, _texts | inner, min_size=1, max_size=4), max_size=2),
    max_leaves=4,
)


@st.composite
def _documents(draw: st.DrawFn) -> dict[str, Any]:
    document: dict[str, Any] = draw(st.dictionaries(_names, _leaf, min_size=1, max_size=5))
    document.update(
        draw(st.dictionaries(st.sampled_from(["100", "200", "400", "453", "NoLegs"]), _entries, max_size=2))
    )
    more = draw(st.dictionaries(_names, _texts, max_size=4))
    return {**document, **more}


@st.composite
def _shared_documents(draw: st.DrawFn) -> dict[str, Any]:
    """Draw documents that nearly always can be written, in any order."""
    third = st.lists(_entry("6", "7", "1"), max_size=2)
    second = st.lists(_entry("4", "2", "5", groups={"300": third}), max_size=2)
    first = st.lists(_entry("1", "2", "3", groups={"200": second}), max_size=2)
    fourth = st.lists(_entry("12", groups={"300": third}), max_size=2)
    names = ["1", "2", "3", "4", "5", "6", "7", "49", "89"]
    document = draw(
        st.fixed_dictionaries({}, optional={**dict.fromkeys(names, _texts), "100": first, "300": third})
    )
    document |= draw(st.fixed_dictionaries({}, optional={"200": second, "400": fourth, "627": st.just([])}))
    if draw(st.booleans()):
        document |= {"8": "FIX.4.2", "35": draw(st.sampled_from(["8", "D"]))}
    order = draw(st.permutations(list(document)))
    return {name: document[name] for name in order}


def _entry(delimiter: str, *names: str, groups: Any = None) -> st.SearchStrategy[dict[str, Any]]:
    optional = {**dict.fromkeys(names, _texts), **(groups or {})}
    return st.fixed_dictionaries({delimiter: _texts}, optional=optional)


@given(_documents() | _shared_documents())
@example({"100": [{"1": "a", "200": [{"4": "b", "300": []}]}], "6": "c", "2": "d"})
@example({"627": [], "628": "a", "8": "FIX.4.2", "35": "D"})
@example({"55": "a", "8": "FIX.4.4", "49": "b", "35": 8})
def test_json_is_refused_or_reads_as_its_canonical_form(document: dict[str, Any]) -> None:
    """Whatever a client sends, a consumer of the message sees what the record holds."""
    body = orjson.dumps(document)
    for codec, _ in ALL:
        canonical = _unless_refused(lambda codec=codec: codec.completed(body))  # type: ignore[misc]
        message = _unless_refused(lambda codec=codec: codec.write(body))  # type: ignore[misc]
        assert (message is None) == (canonical is None)
        if message is not None:
            assert _read(codec, message) == canonical
            assert codec.completed(canonical) == canonical
            assert codec.write(canonical) == message


@given(_shared_documents(), _shared_documents())
def test_deltas_replace_by_tag(old: dict[str, Any], delta: dict[str, Any]) -> None:
    """A delta that came as a message replaces the fields that it has; all others stay."""
    codec, schema = ALL[1]
    bodies = [_unless_refused(lambda one=one: codec.completed(orjson.dumps(one))) for one in (old, delta)]  # type: ignore[misc]
    if None in bodies:
        return
    body, change = bodies
    message, fields = codec.write_delta(change)
    assert fields == ()
    assert codec.read_delta(MessagePayload(message), schema, None) == change
    merged = codec.merged(body, change)
    assert orjson.loads(merged) == {**orjson.loads(body), **orjson.loads(change)}
    completed = _unless_refused(lambda: codec.completed(merged))
    if completed is not None:
        assert orjson.loads(completed) == orjson.loads(merged)
        assert _read(codec, codec.write(completed)) == completed


@given(_shared_documents())
def test_records_without_names_are_upgraded(document: dict[str, Any]) -> None:
    """A record that was stored before its fields had names gets them, and writes the same message."""
    plain, named = FIXES[1], FIXES[2]
    body = _unless_refused(lambda: plain.completed(orjson.dumps(document)))
    if body is not None:
        upgraded = named.upgraded(body)
        assert named.write(upgraded) == plain.write(body)
        assert _read(named, plain.write(body)) == upgraded


@given(
    _shared_documents(),
    st.lists(st.tuples(st.integers(0, 30), st.sampled_from(["2=x", "1=y", "6=z", "9999=w"]))),
)
@example({"100": [{"1": "a"}]}, [(1, "2=x"), (1, "2=x")])
@example({"300": [], "2": "", "6": ""}, [(0, "2=x")])
def test_fields_put_into_a_message_are_read_or_refused(
    document: dict[str, Any], inserted: list[tuple[int, str]]
) -> None:
    """A message with groups stays one, or is refused: what is read reads the same once it is written."""
    document.pop("8", None)
    message = _unless_refused(lambda: FIXES[1].write(orjson.dumps(document))) if document else None
    if message is None:
        return
    fields = message.decode().removesuffix("|").split("|")
    for position, field in inserted:
        fields.insert(position, field)
    changed = "".join(f"{field}|" for field in fields).encode()
    read = _unless_refused(lambda: _read(FIXES[1], changed))
    if read is not None:
        written = FIXES[1].write(read)
        assert sorted(written.split(b"|")) == sorted(changed.split(b"|"))
        assert _read(FIXES[1], written) == read
        assert FIXES[1].completed(read) == read


def test_options_that_add_names_read_earlier_records() -> None:
    """So the upgrade above is one that a topic may make."""
    FIXES[2].check_reads(FIX_SCHEMAS[1])
