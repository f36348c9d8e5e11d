"""XML that wants to do harm is refused, or is read, in time and memory that grow as its size does."""

import os
import subprocess
import sys
import tracemalloc
from collections.abc import Callable

import pytest

from sowline.codecs.schema import XML, MessagePayload, Schema
from sowline.codecs.xml import XmlCodec
from sowline.errors import SowlineError

OPTIONS = Schema(XML, '{"namespaces":{"f":"urn:fix"}}')
CODEC = XmlCodec(OPTIONS)
ORDER = (
    '<?xml version="1.0" encoding="utf-8"?><!--c--><f:Order xmlns:f="urn:fix" a="1&amp;"><?go fast?><b>é&#233;'
    "<![CDATA[<>]]></b><b/></f:Order>"
)


def read(message: bytes) -> bytes:
    """Return the canonical JSON of a message."""
    return CODEC.read(MessagePayload(message), OPTIONS)


def refusal(message: bytes) -> SowlineError:
    """Return the error of a message that is refused."""
    with pytest.raises(SowlineError) as refused:
        read(message)
    return refused.value


def steps(work: Callable[[], object]) -> int:
    """Return how many functions Python calls, of its own and of C. Unlike time, this is the same on each machine."""
    count = 0

    def seen(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_each_truncated_message_is_refused(encoding: str) -> None:
    """At each byte."""
    message = ORDER.replace("utf-8", encoding).encode(encoding)
    assert read(message)
    for end in range(len(message)):
        assert refusal(message[:end]).reason == "bad message"


def test_each_changed_byte_is_read_or_refused() -> None:
    """Never another error."""
    message = ORDER.encode()
    for at in range(len(message)):
        for byte in (0, 0x20, 0x26, 0x3C, 0x80, 0xFF):
            try:
                read(message[:at] + bytes([byte]) + message[at + 1 :])
            except SowlineError as error:
                assert error.reason == "bad message"


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x00",
        b"{}",
        b"<a/><b/>",
        b"<a/>x",
        b"<a>&nbsp;</a>",
        b"<a>&#0;</a>",
        b"<a>&#xFFFE;</a>",
        b"<a>&#xD800;</a>",
        b"<a>\xed\xa0\x80</a>",
        b"<a>\xc0\xaf</a>",
        b"<a>\xe9</a>",
        b'<?xml version="1.0" encoding="utf-16"?><a/>',
        b'<a b="1" b="2"/>',
        b'<a xmlns:x="urn:fix" xmlns:y="urn:fix" x:b="" y:b=""/>',
        b'<a xmlns:x=""/>',
        b'<a xmlns:xml="u"/>',
        b'<a xmlns="http://www.w3.org/2000/xmlns/"/>',
        b"<?a:b?><a/>",
        b"<a><!-- -- --></a>",
        b"<a>]]></a>",
    ],
)
def test_what_is_not_well_formed_is_refused(message: bytes) -> None:
    """With the words of the parser."""
    assert refusal(message).message.startswith("expected well-formed XML, got: ")


def test_laughs_are_not_expanded() -> None:
    """A thousand million of them."""
    levels = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
    message = f'<!DOCTYPE a [<!ENTITY l0 "lol">{levels}]><a>&l9;</a>'.encode()
    assert "document type" in refusal(message).message


@pytest.mark.parametrize(
    "message", [b"<a>" * 100_000, b"<a>" * 100_000 + b"</a>" * 100_000, b'<a b="1">x' * 500], ids=len
)
def test_depth_ends_the_reading(message: bytes) -> None:
    """At the level that is too much, whatever follows."""
    assert refusal(message).reason == "too deep"
    assert steps(lambda: refusal(message)) < 10_000


LARGE = {
    "a text": (b"<a>", b"x", b"</a>"),
    "an attribute": (b'<a b="', b"x", b'"/>'),
    "a comment": (b"<a><!--", b"x", b"--></a>"),
    "an instruction": (b"<a><?b ", b"x", b"?></a>"),
    "CDATA": (b"<a><![CDATA[", b"x", b"]]></a>"),
    "references": (b"<a>", b"&#65;", b"</a>"),
    "a name": (b"<a", b"x", b"/>"),
    "line ends": (b"<a>", b"\r\n", b"</a>"),
}


@pytest.mark.parametrize(("start", "part", "end"), LARGE.values(), ids=LARGE.keys())
def test_megabytes_of_one_node(start: bytes, part: bytes, end: bytes) -> None:
    """They are read in one piece, and written."""
    message = start + part * (3_000_000 // len(part)) + end
    body = read(message)
    assert read(CODEC.write(body)) == body


MANY = {
    "elements": lambda count: b"<a>" + b"<b/>" * count + b"</a>",
    "elements of other names": lambda count: b"<a>" + b"".join(b"<b%d/>" % n for n in range(count)) + b"</a>",
    "elements by turns": lambda count: b"<a>" + b"<b/><c/>" * (count // 2) + b"</a>",
    "texts": lambda count: b"<a>" + b"x<b/>" * count + b"</a>",
    "blanks": lambda count: b"<a>" + b" <b/>" * count + b"</a>",
    "attributes": lambda count: b"<a " + b" ".join(b'b%d=""' % n for n in range(count)) + b"/>",
    "attributes of a namespace": lambda count: (
        b'<a xmlns:f="urn:fix" ' + b" ".join(b'f:b%d=""' % n for n in range(count)) + b"/>"
    ),
    "declarations": lambda count: b"<a " + b" ".join(b'xmlns:b%d="u"' % n for n in range(count)) + b"/>",
    "chains": lambda count: b"<a>" + (b"<b>" * 400 + b"</b>" * 400) * (count // 400) + b"</a>",
    "instructions": lambda count: b"<a>" + b"<?b c?>" * count + b"</a>",
}


@pytest.mark.parametrize("make", MANY.values(), ids=MANY.keys())
def test_work_grows_as_the_message_does(make: Callable[[int], bytes]) -> None:
    """Four times as many nodes take four times as many steps, to read and to write."""
    small, large = read(make(2_000)), read(make(8_000))
    assert steps(lambda: read(make(8_000))) < 5 * steps(lambda: read(make(2_000)))
    assert steps(lambda: CODEC.write(large)) < 5 * steps(lambda: CODEC.write(small)) + 1000
    assert CODEC.completed(large) == large


@pytest.mark.parametrize("make", MANY.values(), ids=MANY.keys())
def test_memory_is_a_multiple_of_the_message(make: Callable[[int], bytes]) -> None:
    """At most 48 bytes for each byte of the message, however its nodes are made."""
    message = make(20_000)
    tracemalloc.start()
    try:
        read(message)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 48 * len(message) + 100_000


def test_names_are_forgotten() -> None:
    """A parser that keeps the names of all messages would need 30 MB for these."""
    program = """
import resource
from sowline.codecs.schema import Schema, MessagePayload
from sowline.codecs.xml import XmlCodec
codec = XmlCodec(Schema("xml", "{}"))
peaks = []
for number in range(0, 60_000, 1000):
    names = "".join(f"<n{number + one}{'x' * 500}/>" for one in range(1000))
    codec.read(MessagePayload(f"<a>{names}</a>".encode()), Schema("xml", "{}"))
    peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
print(peaks[-1] - peaks[9])
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, env=environment)
    assert int(ran.stdout) < 10_000
