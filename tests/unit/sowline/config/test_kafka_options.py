"""Options of Kafka's client, as settings and commands are given them."""

import pytest
from click.testing import CliRunner

from sowline.cli.doctor.command import doctor
from sowline.config.kafka_options import kafka_config, read_options
from sowline.config.settings import read_settings
from sowline.errors import SowlineError


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("", {}),
        ("a=1", {"a": "1"}),
        ("a=1, b = x=y ,", {"a": "1", "b": "x=y"}),
        ("a=1\nb=2", {"a": "1", "b": "2"}),
        ('{"a": "x, y", "b": 3}', {"a": "x, y", "b": "3"}),
    ],
)
def test_options_are_read(text: str, options: dict[str, str]) -> None:
    """In either form."""
    assert read_options(text) == options


@pytest.mark.parametrize("text", ['{"sasl.password": "hush"', "sasl.password=hush,oops", "=hush"])
def test_an_error_does_not_repeat_what_may_be_secret(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says what was expected, and of which setting."""
    with pytest.raises(ValueError, match="expected") as error:
        read_options(text)
    monkeypatch.setenv("SOWLINE_KAFKA_OPTIONS", text)
    with pytest.raises(SowlineError, match="SOWLINE_KAFKA_OPTIONS: expected") as refused:
        read_settings()
    assert "hush" not in f"{error.value}{refused.value}"


def test_another_setting_says_what_came(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that is wrong, at once."""
    monkeypatch.setenv("SOWLINE_PORT", "many")
    monkeypatch.setenv("SOWLINE_STANDBY", "perhaps")
    with pytest.raises(SowlineError) as refused:
        read_settings()
    assert "SOWLINE_PORT: " in refused.value.message
    assert "got 'many'" in refused.value.message
    assert "SOWLINE_STANDBY" in refused.value.message


def test_the_doctor_keeps_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """It names the setting, not what may be a password."""
    monkeypatch.setenv("SOWLINE_KAFKA_OPTIONS", "sasl.password=hush,oops")
    done = CliRunner().invoke(doctor, ["--json"])
    assert (done.exit_code, "SOWLINE_KAFKA_OPTIONS" in done.output, "hush" in done.output) == (1, True, False)


def test_a_client_has_defaults_that_options_replace() -> None:
    """All options of Kafka's library are texts."""
    plain = kafka_config("broker:9092")
    assert plain["bootstrap.servers"] == "broker:9092"
    assert kafka_config("broker:9092", {"log_level": "7", "sasl.username": "ann"}) == {
        **plain,
        "log_level": "7",
        "sasl.username": "ann",
    }
