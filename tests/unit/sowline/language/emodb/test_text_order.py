"""The order of texts and keys."""

from sowline.language.emodb.text_order import key_order, utf16


def test_texts_sort_by_utf16_code_units() -> None:
    """A character beyond U+FFFF begins with a unit below U+E000."""
    assert sorted(["\uffff", "\U00010000", "\ud7ff", "a"], key=utf16) == [
        "a",
        "\ud7ff",
        "\U00010000",
        "\uffff",
    ]
    assert utf16("a\U0001f600b") == "a\ud83d\ude00b"


def test_keys_of_intrinsics_come_first() -> None:
    """Among themselves, they are sorted like others."""
    assert sorted(["a", "~b", "Z", "~a"], key=key_order) == ["~a", "~b", "Z", "a"]
