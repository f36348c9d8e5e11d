"""Where records of CSV files end, by regular expressions that Python and Java read alike."""

import re

import pytest

from sowline_ingest.csv_records import ISO_8859_1, csv_records, encoding_of, separator_of

Options = dict[str, str]


def found(text: str, options: Options) -> tuple[list[str], list[str], str]:
    """Return the records of a text, the lines in it with odd quotes, and what is not known."""
    records = csv_records(options)
    assert records is not None
    trusted = re.match(records.trusted, text)
    assert trusted is not None
    pieces = re.findall(records.cut, trusted.group())
    whole = [piece for piece in pieces if re.search(records.record, piece)]
    return whole, [piece for piece in pieces if piece not in whole], text[trusted.end() :]


@pytest.mark.parametrize(
    ("text", "options", "records"),
    [
        ("1,a\n2,b\r\n3,c", {}, ["1,a", "2,b", "3,c"]),
        ('1,"a\nb"\n2,c\n', {}, ['1,"a\nb"', "2,c"]),
        ('"a ""b""\r\n,"\r\n\r\n2,', {}, ['"a ""b""\r\n,"', "", "2,"]),
        ("\n1\n\n", {}, ["", "1", ""]),
        ('1,5" pipe\n2,x', {}, ['1,5" pipe', "2,x"]),
        ('1, "a\n2,b"\n', {}, ['1, "a', '2,b"']),
        ('1, "a\n2,b"\n', {"ignoreLeadingWhiteSpace": "true"}, ['1, "a\n2,b"']),
        ('1,"a\\"\nb"\n2,"\\\\"\n3', {"escape": "\\"}, ['1,"a\\"\nb"', '2,"\\\\"', "3"]),
        ('1||"a\n|b"||2\n3|x||4', {"sep": "||"}, ['1||"a\n|b"||2', "3|x||4"]),
        ("1\t'a\nb'\n2", {"delimiter": "\\t", "QUOTE": "'"}, ["1\t'a\nb'", "2"]),
        ('1\xc2\xa6"a\nb"\n2', {"sep": "\xa6"}, ['1\xc2\xa6"a\nb"', "2"]),
    ],
)
def test_records(text: str, options: Options, records: list[str]) -> None:
    """A quote counts where a value begins, and a line break within quotes is a part of the value.

    No record is after the last line end, or rows behind it would have numbers that are too high.
    """
    assert found(text, options) == (records, [], "")


@pytest.mark.parametrize(
    ("text", "records", "odd", "unknown"),
    [
        ('1,"a"b\n2,c', ["2,c"], ['1,"a"b'], ""),
        ('1,"a "b" c"\n2,z\n', ["2,z"], ['1,"a "b" c"'], ""),
        ("1,a\rb\n2,c", ["2,c"], ["1,a\rb"], ""),
        ('0,z\n1,"open\n2,x\n', ["0,z"], [], '1,"open\n2,x\n'),
        ('1,"a\nb"c\n2,x', [], [], '1,"a\nb"c\n2,x'),
    ],
)
def test_odd_quotes(text: str, records: list[str], odd: list[str], unknown: str) -> None:
    """Within a line, the line is refused; where lines may belong to a value, no record follows."""
    assert found(text, {}) == (records, odd, unknown)


def test_long_values() -> None:
    """A value of many quotes or line breaks is one record."""
    value = '1,"' + '""\n' * 100_000 + '"'
    assert found(f"{value}\n2", {}) == ([value, "2"], [], "")


def test_options() -> None:
    """Without quotes each line is a record; other encodings than two are refused."""
    assert csv_records({"quote": ""}) is None
    assert separator_of({"Sep": ";"}) == ";"
    assert encoding_of({"charset": "latin1"}) == ISO_8859_1
    with pytest.raises(ValueError, match="expected UTF-8 or ISO-8859-1 as the encoding, got cp1252"):
        encoding_of({"encoding": "cp1252"})
