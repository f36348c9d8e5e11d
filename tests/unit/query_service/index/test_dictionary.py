"""Dictionaries: strings numbered as they arrive."""

from sowline_query_service.index.dictionary import BYTES_PER_ENTRY, FEW, Dictionary


def test_codes_are_given_as_they_are_asked_for() -> None:
    """From 1; what counts as missing is 0, and so is a string that is only looked for."""
    dictionary = Dictionary((None,))
    assert [dictionary.codes[text] for text in ("b", "a", "b", "", None)] == [1, 2, 1, 0, 0]
    assert (dictionary.code_of("a"), dictionary.code_of("c")) == (2, 0)
    assert dictionary.texts == ["", "b", "a"]
    assert len(dictionary) == 3


def test_rebuilt_codes_mean_something_else() -> None:
    """Which the generation tells."""
    dictionary = Dictionary((None,))
    for text in ("a", "b", "c"):
        dictionary.codes[text]
    dictionary.ranks()
    before = dictionary.generation
    dictionary.rebuild(["c", "b"])
    assert dictionary.generation != before
    assert dictionary.texts == ["", "c", "b"]
    assert dictionary.ranks().tolist() == [0, 2, 1]
    assert dictionary.codes[None] == 0


def test_ranks_follow_the_code_points() -> None:
    """However the strings arrive: one, a few, or many."""
    dictionary = Dictionary(())
    arrived = 0
    for count in (1, 5, FEW + 1, FEW, 1):
        for number in range(arrived, arrived + count):
            dictionary.codes[f"{number * 7919 % 1000:03}é"]
        arrived += count
        texts, ranks = dictionary.texts, dictionary.ranks()
        assert sorted(range(len(texts)), key=ranks.__getitem__) == sorted(
            range(len(texts)), key=texts.__getitem__
        )


def test_memory_grows_with_each_string() -> None:
    """By its size and its places."""
    dictionary = Dictionary(())
    empty = dictionary.nbytes
    dictionary.codes["x" * 1000]
    assert empty + 1000 + BYTES_PER_ENTRY <= dictionary.nbytes <= empty + 1100 + BYTES_PER_ENTRY
