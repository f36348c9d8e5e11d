"""Options: the words and pairs that a command may carry."""

import pytest

from sowline.errors import SowlineError
from sowline.model.path import Path, parse_path
from sowline.model.select import parse_select
from sowline.wire.options import (
    AUTO,
    OPTIONS_CHARS_MAX,
    PROJECTION_BYTES_MAX,
    Options,
    ReplayRate,
    options_text,
    parse_options,
)


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("", Options()),
        (" , ,", Options()),
        ("oof", Options(oof=True)),
        (
            "oof, timestamp ,no_sowkey,reset",
            Options(oof=True, timestamp=True, no_sowkey=True, bookmark_not_found="reset"),
        ),
        ("oof,oof", Options(oof=True)),
        ("bookmark_not_found=reset", Options(bookmark_not_found="reset")),
        ("bookmark_not_found=epoch", Options(bookmark_not_found="epoch")),
        ("bookmark_not_found=now", Options(bookmark_not_found="now")),
        ("pause,current", Options(pause=True, current=True)),
        ("rate=100", Options(rate=ReplayRate(100, "messages"))),
        ("rate=0.5", Options(rate=ReplayRate(0.5, "messages"))),
        ("rate=64KB", Options(rate=ReplayRate(65536, "bytes"))),
        ("rate=1.5MB", Options(rate=ReplayRate(1572864, "bytes"))),
        ("rate=2X", Options(rate=ReplayRate(2, "times"))),
        ("bookmark_not_found=fail", Options()),
        ("reset,bookmark_not_found=fail", Options()),
        ("format=json", Options()),
        ("oof,format=native", Options(oof=True, format="native")),
    ],
)
def test_known_options(text: str, options: Options) -> None:
    """Known words are switched on, in any order; spaces and empty parts do not matter."""
    assert parse_options(text) == options


@pytest.mark.parametrize(
    "text",
    [
        "OOF",
        "off",
        "oof=1",
        "oof timestamp",
        "bookmark_not_found",
        "bookmark_not_found=later",
        "format",
        "format=avro",
        "Select=[-/]",
        "select",
        "[oof]",
        "=",
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    """An unknown option is an error that names it and what there is."""
    with pytest.raises(SowlineError, match="expected any of oof") as error:
        parse_options(f"reset,{text}")
    assert error.value.reason == "invalid options"
    assert text.partition(",")[0] in error.value.message


def test_a_select_list_is_an_option() -> None:
    """Its commas separate fields, not options."""
    options = parse_options("oof,select=[-/,+/id,+[/a,b]],timestamp")
    assert options == Options(oof=True, timestamp=True, select=parse_select("[-/,+/id,+[/a,b]]"))


@pytest.mark.parametrize(
    "projection",
    [
        "SUM(/qty) AS /qty",
        "SUM(/a[0]) AS /x, CONCAT(/b, ',]') AS /y",
        """CONCAT("it's", /b, "]") AS /y""",
        r"CONCAT('it\'s ]', /b) AS /y",
        r"CONCAT(r'a\', ']') AS /y",
        r"""CONCAT(R"a\", ']') AS /y""",
        "[/it's] AS [/a, b ']",
        "COUNT(/bar) AS /bar",
    ],
)
def test_a_projection_is_the_text_between_its_brackets(projection: str) -> None:
    """Strings and inner brackets may hold commas and brackets of their own."""
    options = parse_options(f"timestamp, grouping=[/a, [/b, c]/d] ,projection=[ {projection}],oof")
    grouping = (parse_path("/a"), parse_path("[/b, c]/d"))
    assert options == Options(oof=True, timestamp=True, grouping=grouping, projection=projection)
    assert hash(options) == hash(Options(oof=True, timestamp=True, grouping=grouping, projection=projection))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("grouping=[/a]", "together"),
        ("projection=[COUNT(/a) AS /n]", "together"),
        ("grouping=/a,projection=[/a]", r"grouping=\[…\], got '/a'"),
        ("grouping=[/a],projection=[]", "at least one field"),
        ("grouping=[/a],projection=[/a]x", r"got '\[/a\]x'"),
        ("grouping=[/a],projection=[/a],grouping=[/b]", "once, got it twice"),
        ("grouping=[/a],projection=[/a],select=[-/]", "without select"),
        ("oof,projection=[SUM(/a)", r"a closing \] for the \[ at column 16"),
        ("projection=[CONCAT('a, /b)]", "a closing ' for the ' at column 20"),
        (r"projection=['\']", "a closing ' for the ' at column 13"),
        ('projection=["]', 'a closing " for the " at column 13'),
        ("projection=[/a[0]", r"a closing \] for the \[ at column 12"),
        ("projection=[[/a", r"a closing \] for the \[ at column 13"),
        ("select=[+a]", "select list"),
    ],
)
def test_a_clause_that_is_none_is_refused(text: str, message: str) -> None:
    """What is wrong with a clause is said, and where a bracket or a string begins that does not end."""
    with pytest.raises(SowlineError, match=message) as error:
        parse_options(text)
    assert error.value.reason == "invalid options"


@pytest.mark.parametrize("grouping", ["", "a", "/a,/a", ",".join(f"/a{number}" for number in range(17))])
def test_a_grouping_that_is_none_is_refused(grouping: str) -> None:
    """It names at least one path, and each once."""
    with pytest.raises(SowlineError, match="expected") as error:
        parse_options(f"grouping=[{grouping}],projection=[/a]")
    assert error.value.reason == "invalid grouping"


def test_options_have_limits() -> None:
    """A projection has so many bytes, however few characters; and all options together so many characters."""
    fits = "é" * (PROJECTION_BYTES_MAX // 2)
    assert parse_options(f"grouping=[/a],projection=[{fits}]").projection == fits
    with pytest.raises(SowlineError) as error:
        parse_options(f"grouping=[/a],projection=[{fits}x]")
    assert error.value.reason == "projection clause too large"
    assert parse_options("," * OPTIONS_CHARS_MAX) == Options()
    with pytest.raises(SowlineError, match="at most 262144 characters") as error:
        parse_options("," * (OPTIONS_CHARS_MAX + 1))
    assert error.value.reason == "invalid options"


@pytest.mark.parametrize(
    ("text", "interval"),
    [("none", None), ("auto", AUTO), ("250ms", 250), ("1s", 1000), ("1ms", 1), ("1h", 3_600_000)],
)
def test_conflation(text: str, interval: int | None) -> None:
    """An interval, or `auto`; `none` is what it is without."""
    assert parse_options(f"oof,conflation={text}") == Options(oof=True, conflation=interval)


@pytest.mark.parametrize("text", ["", "0ms", "61m", "fast", "250", "-1s"])
def test_a_conflation_that_is_none_is_refused(text: str) -> None:
    """With what it may be."""
    with pytest.raises(SowlineError, match="auto or an interval of 1ms to 1h") as error:
        parse_options(f"conflation={text}")
    assert error.value.reason == "invalid options"


def test_conflation_key() -> None:
    """Fields whose values make messages one; it needs an interval."""
    options = parse_options("conflation=1s,conflation_key=[/a, /b/c]")
    assert options.conflation_key == (Path(("a",)), Path(("b", "c")))
    for text in (
        "conflation_key=[/a]",
        "conflation=1s,conflation_key=[a]",
        "conflation=1s,conflation_key=[]",
    ):
        with pytest.raises(SowlineError) as error:
            parse_options(text)
        assert error.value.reason == "invalid options"


def test_what_shows_records_alike() -> None:
    """The fields that are sent; not when, nor who is told of what."""
    plain = parse_options("select=[-/,+/a]")
    assert plain.shows_like(parse_options("oof,conflation=1s,replace,select=[-/,+/a]"))
    assert not plain.shows_like(parse_options("select=[-/,+/b]"))
    assert plain.shows_like(plain, is_same_order=False)
    assert not parse_options("rank").shows_like(parse_options("rank"), is_same_order=False)
    assert not plain.shows_like(parse_options("grouping=[/a],projection=[/a]"))


@pytest.mark.parametrize(
    "text",
    ["", "0", "-1", "fast", "1GB", "1 KB", "x2", "2x", "1e3", "٣", "99999999999", "0.0001", "1,rate=2"],
)
def test_a_rate_is_messages_or_bytes_a_second_or_a_multiple(text: str) -> None:
    """And nothing else, and once."""
    with pytest.raises(SowlineError, match="expected rate=") as error:
        parse_options(f"rate={text}")
    assert error.value.reason == "invalid options"


@pytest.mark.parametrize("other", ["conflation=1s", "grouping=[/a],projection=[/a]"])
def test_a_rate_is_of_single_changes(other: str) -> None:
    """What tells outcomes has a pace already."""
    with pytest.raises(SowlineError, match="without conflation"):
        parse_options(f"rate=5,{other}")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "oof,no_empties,no_sowkey,timestamp,replace,pause,current",
        "no_redundant,intrinsics,send_keys,partial,bookmark_not_found=reset",
        "rate=0.5",
        "rate=64KB",
        "rate=1.5MB",
        "rate=999999999MB",
        "rate=2.25X",
        "conflation=auto",
        "conflation=1h,conflation_key=[/a, /b[/x,y]]",
        "format=native",
        "select=[-/,+/a,+/b/c]",
        "grouping=[/a, /b/c],projection=[/a, SUM(/x) AS /y]",
        "conflation=250ms,grouping=[/a],projection=[COUNT(1) AS [/n,m]]",
    ],
)
def test_options_are_written_as_they_are_read(text: str) -> None:
    """In one order, without defaults."""
    try:
        options = parse_options(text)
    except SowlineError:
        pytest.fail(f"{text} is no option")
    assert parse_options(options_text(options)) == options


@pytest.mark.parametrize("other", ["select=[-/,+/id]", "grouping=[/a],projection=[/a]"])
def test_a_message_type_has_whole_records(other: str) -> None:
    """Some of the fields, and groups, are JSON only."""
    with pytest.raises(SowlineError, match="format=native without") as refused:
        parse_options(f"format=native,{other}")
    assert refused.value.reason == "invalid options"
    assert not parse_options(f"format=json,{other}").is_typed
