"""Errors of settings: one sentence for each, in the words of this project."""

import pytest

from sowline.config.settings import SettingsError, read_settings


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("PORT", "abc", "expected a whole number, got 'abc'"),
        ("PORT", "08080", "expected a number in plain digits, such as 10 or 2.5, got '08080'"),
        ("PROGRESS_SECONDS", "1_0", "expected a number in plain digits, such as 10 or 2.5, got '1_0'"),
        ("PORT", "70000", "expected a number of at most 65535, got '70000'"),
        ("BATCH_RECORDS_MAX", "1.5", "expected a whole number, got '1.5'"),
        ("BATCH_RECORDS_MAX", "0", "expected a number of at least 1, got '0'"),
        ("STANDBY", "maybe", "expected true or false, got 'maybe'"),
        ("QUERY_SECONDS_MAX", "-1", "expected a number greater than 0, got '-1'"),
        ("QUERY_SECONDS_MAX", "soon", "expected a number, got 'soon'"),
        ("GROUP", "g" * 101, f"expected at most 100 characters, got '{'g' * 100}'"),
        (
            "KAFKA_OPTIONS",
            "secret",
            "expected options as name=value, separated by commas or line breaks, got one without =",
        ),
    ],
)
def test_a_sentence_for_each_kind(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, sentence: str
) -> None:
    """It names the variable, what was expected and what came; never the value of a secret."""
    monkeypatch.setenv(f"SOWLINE_{name}", value)
    with pytest.raises(SettingsError) as error:
        read_settings()
    assert error.value.message == f"SOWLINE_{name}: {sentence}"
