"""What the defaults render to is recorded, and each template is short enough to read."""

from statistics import median

import pytest

from tests.chart.conftest import CHART, HelmTemplate, least
from tests.chart.defaults import RECORDED, REMAKE, difference
from tests.chart.kubernetes_schemas import VERSIONS

SINCE_1_27 = (
    "  # One that is not ready has nothing to lose, and must not hold up the maintenance of its node.\n"
    "  unhealthyPodEvictionPolicy: AlwaysAllow\n"
)
"""A field that older versions of Kubernetes refuse, with its comment."""
TEMPLATE_LINES_MAX = 80
TEMPLATE_LINES_MEDIAN_MAX = 25


@pytest.mark.parametrize("kubernetes", VERSIONS)
def test_the_defaults_render_to_what_is_recorded(kubernetes: str, helm_template: HelmTemplate) -> None:
    """Byte for byte, with each version of Kubernetes: a change of the chart shows what it changes."""
    recorded = RECORDED.read_text()
    assert SINCE_1_27 in recorded
    expected = recorded if kubernetes >= "v1.27" else recorded.replace(SINCE_1_27, "")
    found = difference(expected, helm_template(least(), kubernetes).stdout)
    assert not found, found


def test_a_difference_says_how_to_record_it() -> None:
    """It names both sides, the lines, and the command."""
    found = difference("replicas: 1\n", "replicas: 2\n").splitlines()
    assert found[:2] == ["--- recorded", "+++ rendered"]
    assert {"-replicas: 1", "+replicas: 2"} <= set(found)
    assert found[-1].endswith(f"run {REMAKE}")
    assert difference("replicas: 1\n", "replicas: 1\n") == ""


def test_templates_are_short() -> None:
    """Each has one subject: half of them take one look, and a long one is divided into more."""
    lines = {path.name: len(path.read_text().splitlines()) for path in (CHART / "templates").iterdir()}
    assert {name: count for name, count in lines.items() if count > TEMPLATE_LINES_MAX} == {}
    assert median(lines.values()) <= TEMPLATE_LINES_MEDIAN_MAX
