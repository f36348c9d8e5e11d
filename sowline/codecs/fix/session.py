"""The header and trailer of FIX messages: BeginString, BodyLength and MsgType come first, CheckSum last."""

from typing import Final

from sowline.codecs.errors import bad_message
from sowline.codecs.fix.document import BODY, Document, is_in_order
from sowline.codecs.fix.fields import Fields
from sowline.codecs.fix.options import BEGIN_STRING, BODY_LENGTH, CHECK_SUM, MSG_TYPE, FixOptions
from sowline.codecs.schemaless import excerpt

_HEADER: Final = (
    "49,56,115,128,90,91,34,50,142,57,143,116,144,129,145,43,97,52,122,212,213,347,369,370,627,628,629,630,1128,1129,"
    "1156"
)
"""The other tags of the standard header, from FIX 4.2 to FIXT 1.1."""

_SIGNATURE: Final = "89"
_CHECK_SUM_DIGITS: Final = 3
_LENGTH_DIGITS_MAX: Final = 9


class FixSession:
    """Checks, removes and adds the fields that frame a message. A message without BeginString first has no frame."""

    def __init__(self, options: FixOptions) -> None:
        self._separator = options.separator.encode()
        self.begin_string = options.name_of(BEGIN_STRING)
        self._message_type = options.message_type_name
        self._computed = {options.name_of(tag): tag for tag in (BODY_LENGTH, CHECK_SUM)}
        header = [self.begin_string, self._message_type, *map(options.name_of, _HEADER.split(","))]
        self._header = frozenset(header)
        self._trailer = frozenset({options.name_of(_SIGNATURE)})
        self.ranks = {
            **dict.fromkeys(self._trailer, BODY + 1),
            **dict.fromkeys(self._header, BODY - 1),
            self.begin_string: BODY - 3,
            self._message_type: BODY - 2,
        }

    def unframed(self, data: bytes, fields: Fields) -> Fields:
        """Return the fields of a message without BodyLength and CheckSum; raise `bad message` if they are wrong."""
        tags, values = fields
        if tags[0] != BEGIN_STRING:
            for tag in (BEGIN_STRING, BODY_LENGTH, CHECK_SUM):
                if tag in tags:
                    raise _misplaced(tag)
            return fields
        if tags[1:3] != [BODY_LENGTH, MSG_TYPE] or tags[-1] != CHECK_SUM:
            raise bad_message(
                "expected 8 (BeginString), 9 (BodyLength) and 35 (MsgType) first and 10 (CheckSum) last, got"
                f" {', '.join(excerpt(tag) for tag in tags[:3])} and {excerpt(tags[-1])}"
            )
        self._check(data, values[1], values[-1])
        del tags[1], values[1], tags[-1], values[-1]
        for tag in (BODY_LENGTH, CHECK_SUM):
            if tag in tags:
                raise _misplaced(tag)
        for position, tag in enumerate((BEGIN_STRING, MSG_TYPE)):
            if tags.count(tag) > 1 or not isinstance(values[position], str):
                raise bad_message(
                    f"expected {tag} once, as UTF-8, got it {tags.count(tag)} times or as other bytes"
                )
        return fields

    def _check(self, data: bytes, length: object, check_sum: object) -> None:
        separator = self._separator
        start = data.index(separator, data.index(separator) + 1) + 1
        # The separator at the end may be missing, and the sum ends before its own field
        # (test_a_message_of_the_standard_has_soh).
        end = len(data) - data.endswith(separator) - len(f"{CHECK_SUM}=") - _CHECK_SUM_DIGITS
        # A slice of the bytes would copy the whole message.
        expected = f"{sum(memoryview(data)[:end]) % 256:0{_CHECK_SUM_DIGITS}}" if end > 0 else ""
        # The sum ends three bytes before the end, so its length is checked first: with another one, the message about
        # the body length would be wrong.
        if not isinstance(check_sum, str) or len(check_sum.encode()) != _CHECK_SUM_DIGITS:
            raise bad_message(f"expected 3 digits in 10 (CheckSum), got {_shown_value(check_sum)}")
        if not _is_number(length, end - start):
            raise bad_message(f"expected {end - start} in 9 (BodyLength), got {_shown_value(length)}")
        if check_sum != expected:
            raise bad_message(f"expected {expected} in 10 (CheckSum), got {excerpt(check_sum)}")

    def is_arranged(self, document: Document) -> bool:
        """Return whether the fields of a message that was read are already in the order of a header and trailer."""
        return self.begin_string not in document or is_in_order(document, self._header, self._trailer)

    def check(self, document: Document) -> None:
        """Raise `bad message` unless a document can be written: with a MsgType if it has a BeginString."""
        for name, tag in self._computed.items():
            if name in document:
                raise bad_message(
                    f"expected no {excerpt(name)}: {tag} is computed if there is an 8 (BeginString)"
                )
        if self.begin_string not in document:
            return
        for name in (self.begin_string, self._message_type):
            if not isinstance(document.get(name), str):
                raise bad_message(
                    f"expected one text in {excerpt(name)}, because the message has a BeginString"
                )

    def framed(self, begin_string: str, rest: bytes) -> bytes:
        """Return a whole message; `rest` has the fields after BeginString."""
        separator = self._separator
        head = b"%s=%s%s%s=%d%s" % (
            BEGIN_STRING.encode(), begin_string.encode(), separator, BODY_LENGTH.encode(), len(rest), separator,
        )  # fmt: skip
        total = (sum(head) + sum(rest)) % 256
        return head + rest + f"{CHECK_SUM}={total:0{_CHECK_SUM_DIGITS}}".encode() + separator


def _is_number(text: object, number: int) -> bool:
    return (
        isinstance(text, str)
        # A hostile length is not parsed: int() refuses very many digits with another error.
        and len(text) <= _LENGTH_DIGITS_MAX
        and text.isascii()
        and text.isdecimal()
        and int(text) == number
    )


def _misplaced(tag: str) -> Exception:
    return bad_message(
        f"expected 8 (BeginString) first, 9 (BodyLength) second and 10 (CheckSum) last, or none of them, got {tag}"
        " elsewhere"
    )


def _shown_value(value: object) -> str:
    return excerpt(value) if isinstance(value, str) else "bytes"
