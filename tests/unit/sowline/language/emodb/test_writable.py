"""What a writer sends: one delta or a stream of them, refused before it is written where a reader would refuse it."""

import pytest

from sowline.errors import SowlineError
from sowline.language.emodb.writable import DELTAS_MAX, check_delta, check_deltas


def test_a_delta_goes_as_it_was_written() -> None:
    """Not as its canonical text: the timeline shows what was meant."""
    text = '{ "b" : "é" , "a":1}'
    assert check_delta(text) == text.encode()


@pytest.mark.parametrize(
    ("text", "deltas"),
    [
        ("~", ["~"]),
        ('\n{..,\n"a":1}\n', ['{..,\n"a":1}']),
        (" if ~ then {} end ", [" if ~ then {} end "]),
        ("[if ~ then {} end,~]", ["if ~ then {} end", "~"]),
        ('{..,"a":1} ~\n{"b":2}', ['{..,"a":1}', "~", '{"b":2}']),
    ],
)
def test_one_delta_or_a_stream(text: str, deltas: list[str]) -> None:
    """What begins with `if` is one; all else is parted as a stream is."""
    assert check_deltas(text) == [delta.encode() for delta in deltas]


@pytest.mark.parametrize(
    ("text", "reason", "sentence"),
    [
        ("", "bad request", "expected a delta, or several"),
        (" [ ] ", "bad request", "expected a delta, or several"),
        ('{..,"a" 1}', "bad delta", "expected a key in double quotes and a colon at column 5"),
        ("if ~ thn {} end", "bad delta", "expected then at column 6"),
        ('~\n{..,\n"a" 1}', "bad delta", "delta 2 of 2, from line 2, column 1 on: expected a key"),
        ('~ {..,\n"a" 1}', "bad delta", "at line 2, column 1, got"),
        ("[~,[1]]", "not an object", "delta 2 of 2, from column 4 on"),
        ("[~", "bad delta", "got the end, at column 3"),
        ('{"a":"\ud800"}', "bad delta", "UTF-8"),
        ('"\ud800" ~', "not an object", "delta 1 of 2"),
        ("~ " * (DELTAS_MAX + 1), "too large", "expected at most 10000 deltas"),
        ("[" * 100_000, "bad delta", "got the end"),
        ('{..,"a":' * 100_000, "bad delta", "expected at most 500 levels"),
        ('{"a":"' + "x" * 10_000_000 + '"}', "bad delta", "expected at most 1048576 characters"),
    ],
    ids=lambda text: text[:20],
)
def test_what_would_be_refused_is_not_written(text: str, reason: str, sentence: str) -> None:
    """With the reason that the materializer would have; of several, with number and place of the wrong one."""
    with pytest.raises(SowlineError) as refused:
        check_deltas(text)
    assert refused.value.reason == reason
    assert sentence in refused.value.message
