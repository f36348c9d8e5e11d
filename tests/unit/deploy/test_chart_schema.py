"""The chart knows the services' settings."""

from deploy.chart_schema import SCHEMA, brought_up_to_date


def test_chart_knows_the_settings() -> None:
    """The chart takes exactly the settings that there are: `python -m deploy.chart_schema` brings it up to date."""
    text = SCHEMA.read_text(encoding="utf-8")
    assert text == brought_up_to_date(text)
