"""What may be given to the chart, what is refused, and that every value is described."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from tests.chart.conftest import CHART, Render, Values, least


def wrong(path: str, value: Any) -> Values:
    """Return the least values with `value` at a dotted path."""
    values = least()
    *parents, last = path.split(".")
    place: Any = values
    for parent in parents:
        place = place.setdefault(parent, {})
    place[last] = value
    return values


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("kafka.bootstrap", "", "/kafka/bootstrap"),
        ("kafka.bootstrap", "kafka", "/kafka/bootstrap"),
        ("config.topics", [], "/config/topics"),
        ("config.topics", [{"key": ["/id"]}], "'name'"),
        ("config.fanouts", [{"name": "late"}], "'topic'"),
        ("image.pullPolicy", "Sometimes", "/image/pullPolicy"),
        ("materializer.replicas", -1, "/materializer/replicas"),
        ("materializer.replicas", "two", "/materializer/replicas"),
        ("materializer.storage.size", "big", "/materializer/storage/size"),
        ("queryService.port", 70000, "/queryService/port"),
        ("queryService.service.type", "ExternalName", "/queryService/service/type"),
        ("queryService.maxUnavailable", "half", "/queryService/maxUnavailable"),
        ("pipelines.files", {"orders": {"name": "orders"}}, "/pipelines/files/orders"),
        ("pipelines.files", {"orders": " \n"}, "/pipelines/files/orders"),
        ("pipelines.files", {"my.orders": "name: orders"}, "invalid propertyName 'my.orders'"),
        ("pipelines.files", {"o" * 41: "name: orders"}, "invalid propertyName"),
        ("pipelines.secrets", "kafka", "/pipelines/secrets"),
        ("pipelines.storage.size", "big", "/pipelines/storage/size"),
        ("pipelines.volumeMounts", ["/drops"], "/pipelines/volumeMounts"),
        ("settings.port", 1, "'port' not allowed"),
        ("settings.group", ["x"], "/settings/group"),
        ("settings.batch_records_max", 0, "/settings/batch_records_max"),
    ],
)
def test_wrong_value(path: str, value: Any, said: str, refusal: Callable[[Values], str]) -> None:
    """A wrong value is refused before anything is installed, and Helm says where it is."""
    assert said in refusal(wrong(path, value))


def closed_sections(schema: Values, path: str = "") -> list[str]:
    """Return the paths of all sections of the values."""
    inner = [
        found
        for name, child in schema.get("properties", {}).items()
        for found in closed_sections(child, f"{path}.{name}")
    ]
    return ([path[1:]] if schema.get("additionalProperties") is False else []) + inner


SCHEMA = json.loads((CHART / "values.schema.json").read_text())


@pytest.mark.parametrize("section", closed_sections(SCHEMA))
def test_unknown_value(section: str, refusal: Callable[[Values], str]) -> None:
    """A value that the chart does not know is refused in every section: a misspelt one is not ignored."""
    assert "additional properties 'unknown' not allowed" in refusal(
        wrong(f"{section}.unknown".lstrip("."), 1)
    )


def described(schema: Values, path: str = "") -> dict[str, str]:
    """Return the description of each value by its path."""
    found = {path: schema.get("description", "")} if path else {}
    for name, child in schema.get("properties", {}).items():
        found |= described(child, f"{path}.{name}" if path else name)
    return found


def commented() -> dict[str, str]:
    """Return the comment above each value of values.yaml by its path."""
    found: dict[str, str] = {}
    stack: list[str] = []
    comment = ""
    for line in (CHART / "values.yaml").read_text().splitlines():
        key = re.match(r"( *)(\w+):", line)
        if key:
            stack = [*stack[: len(key[1]) // 2], key[2]]
            found[".".join(stack)] = comment
        comment = line.strip().removeprefix("# ") if line.strip().startswith("#") else ""
    return found


def test_every_value_is_described() -> None:
    """Each value has a description in the schema, and the same one above it in values.yaml."""
    in_schema = described(SCHEMA)
    assert [path for path, text in in_schema.items() if not text] == []
    in_values = {
        path: text for path, text in commented().items() if not path.endswith((".requests", ".limits"))
    }
    assert in_values == {path: in_schema[path] for path in in_values}


def test_every_value_has_a_default() -> None:
    """values.yaml holds every value that the schema knows, but for `settings`, whose defaults are the services'."""
    values = yaml.safe_load((CHART / "values.yaml").read_text())

    def is_there(path: str) -> bool:
        place: Any = values
        for step in path.split("."):
            if not isinstance(place, dict) or step not in place:
                return False
            place = place[step]
        return True

    missing = {path for path in described(SCHEMA) if not is_there(path)}
    assert {path for path in missing if not path.startswith("settings.")} == {"global"}


def test_documented_values(render: Render) -> None:
    """The values that docs/deploy.md shows install a chart."""
    text = (CHART.parents[1] / "docs" / "deploy.md").read_text(encoding="utf-8")
    example = re.search(r"```yaml\n(# values.yaml\n.*?)```", text, re.DOTALL)
    assert example is not None
    assert render(yaml.safe_load(example[1]))
