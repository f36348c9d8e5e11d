"""Where the records of a CSV file end: a quoted value may hold line breaks.

Regular expressions find the ends, because Spark runs them on the executors without Python. Java and Python read them
the same way. They are for text in which each byte is one character (ISO 8859-1), so that no byte is lost. All
repetitions are possessive: Java runs those as loops, and others as recursions that end in a stack overflow with a
long value.
"""

from collections.abc import Mapping
from typing import NamedTuple

UTF_8 = "UTF-8"
ISO_8859_1 = "ISO-8859-1"
ENCODINGS = {"utf-8": UTF_8, "utf8": UTF_8, "iso-8859-1": ISO_8859_1, "latin1": ISO_8859_1}
"""The encodings of text files, by their names in lower case."""

LINE_END = r"\r?\n"
_CR, _LF = r"\r", r"\n"
_END = r"(?![\s\S])"
_ANY = r"[\s\S]"
_MORE = rf"(?={_ANY})"
_ESCAPES = {r"\t": "\t", r"\\": "\\", r"\"": '"', r"\'": "'"}
"""The character that each of these texts stands for in Spark's `sep`."""


class CsvRecords(NamedTuple):
    """Regular expressions over the text of a CSV file."""

    record: str
    """Matches a record whose quoted values all end before a separator or the end of a line."""
    cut: str
    """Group 1 is the next record, or a line whose quoted values end within it, but not where they should.

    Nothing is at the end of the text: a line end there ends the last record, and begins no other.
    """
    trusted: str
    """Matches from the beginning as far as it is known where records end."""


def encoding_of(options: Mapping[str, str]) -> str:
    """Return the encoding of text files; raise ValueError if it can't be read."""
    given = _option(options, "encoding", "charset") or UTF_8
    if (found := ENCODINGS.get(given.lower())) is None:
        raise ValueError(
            f"expected UTF-8 or ISO-8859-1 as the encoding, got {given}: convert the files first"
        )
    return found


def separator_of(options: Mapping[str, str]) -> str:
    """Return the separator of values in a CSV file."""
    given = _option(options, "sep", "delimiter") or ","
    return _ESCAPES.get(given, given)


def csv_records(options: Mapping[str, str]) -> CsvRecords | None:
    """Return how to find the records of a CSV file; None if values have no quotes: then each line is a record."""
    given = _option(options, "quote")
    quote, escape = ('"', '"') if given is None else (given, '"')
    escape = _option(options, "escape") or escape
    if quote in ("", "\0"):
        return None
    encoding = encoding_of(options)
    separator, quote, escape = (_bytes_of(text, encoding) for text in (separator_of(options), quote, escape))
    lead = r"[ \t]*+" if (_option(options, "ignoreLeadingWhiteSpace") or "").lower() == "true" else ""
    opening = f"{lead}{quote}"

    def quoted(*others: str) -> str:
        """Return an expression for a text in quotes that contains none of these texts."""
        if escape == quote:
            return f"(?:{_but(quote, *others)}++|{quote}{quote})*+"
        return f"(?:{_but(quote, escape, *others)}++|{escape}{_ANY})*+"

    end = f"(?={separator}|{LINE_END}|{_END})"
    plain = f"(?!{opening}){_but(separator, _CR, _LF)}*+"
    value = rf"(?:{opening}{quoted()}{quote}[ \t]*+|{plain}){end}"
    record = f"{value}(?:{separator}{value})*+"
    rest = f"(?:(?!{separator}|{LINE_END}){_ANY})*+"
    odd = rf"(?:{opening}{quoted(_LF)}{quote}{rest}|(?!{opening}){rest})"
    line = f"{odd}(?:{separator}{odd})*+"
    over = f"(?:{LINE_END}|{_END})"
    cut = f"{_MORE}({record}|{line}){over}"
    return CsvRecords(f"^{record}{_END}", cut, f"^(?:(?:{record}|{line}){over})*+")


def _but(*texts: str) -> str:
    """Return one character that begins none of these texts; each is an escape, or several."""
    if all(text in (_CR, _LF) or len(text) == len(r"\x00") for text in texts):
        return f"[^{''.join(texts)}]"
    return f"(?:(?!{'|'.join(texts)}){_ANY})"


def _bytes_of(text: str, encoding: str) -> str:
    """Return a text as a regular expression of its bytes in the file."""
    # Each byte is an escape, because a separator such as `||` would be an operator of the expression (test_records).
    return "".join(f"\\x{byte:02x}" for byte in text.encode(encoding))


def _option(options: Mapping[str, str], *names: str) -> str | None:
    """Return an option by any of its names; Spark ignores their case."""
    wanted = [name.lower() for name in names]
    return next((value for name, value in options.items() if name.lower() in wanted), None)
