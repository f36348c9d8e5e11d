"""Streams of deltas: where one ends, and what is yielded of a stream that breaks off."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sowline.language.emodb.errors import DocumentError
from sowline.language.emodb.stream import parse_deltas

DELTAS = ("~", "..", "1", '{..,"a":1}', "(..,1)", '"a b"', '"\\u0000"')


def read(text: str) -> tuple[list[str], bool]:
    """The canonical texts of the deltas that are yielded, and whether the stream ends well."""
    found: list[str] = []
    try:
        for delta in parse_deltas(text):
            found.append(delta.text)  # noqa: PERF401 - an error leaves those before it
    except DocumentError:
        return found, False
    return found, True


@pytest.mark.parametrize(
    ("text", "found", "ends_well"),
    [
        ("[1,", [], False),
        ("[1, \0", [], False),
        ("[1,2,", ["1"], False),
        ("[1,2", ["1"], False),
        ("[1", [], False),
        ("[1,]", ["1"], True),
        ("1\0002", ["1", "2"], True),
        ("1\0", ["1"], True),
        ("\0[\0001\0,\0002\0]\0", ["1", "2"], True),
        ("\0", [], True),
        ('{"a"\0:1}', [], False),
        ('"a\0b"', [], False),
        ("[1\0x]", [], False),
    ],
)
def test_where_a_delta_ends(text: str, found: list[str], ends_well: bool) -> None:
    """NUL separates deltas, but is no part of one; a comma at the end of the text takes its delta along."""
    assert read(text) == (found, ends_well)


deltas = st.lists(st.sampled_from(DELTAS), min_size=1, max_size=4)
blanks = st.text("\0\t\n\r \x01\x1f", min_size=1, max_size=3)


@given(deltas, blanks)
@example(["1", "~"], "\0")
def test_all_blanks_separate_alike(some: list[str], blank: str) -> None:
    """Every control character and the space part deltas, in both forms, around them too."""
    expected = read("[" + ",".join(some) + "]")
    assert expected[1]
    assert read(blank + blank.join(some) + blank) == expected
    assert read(f"{blank}[{blank}{f'{blank},{blank}'.join(some)}{blank}]{blank}") == expected


@given(deltas, st.data())
def test_a_stream_that_breaks_off(some: list[str], data: st.DataObject) -> None:
    """Of a list that is cut, those deltas are yielded of which the text says that another follows."""
    whole = "[" + ", ".join(some) + "]"
    cut = data.draw(st.integers(1, len(whole) - 1))
    starts = [len("[" + "".join(f"{delta}, " for delta in some[:number])) for number in range(1, len(some))]
    found, ends_well = read(whole[:cut])
    assert not ends_well
    assert len(found) == sum(cut > start for start in starts)
