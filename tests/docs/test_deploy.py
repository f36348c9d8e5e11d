"""docs/deploy.md says what is so."""

import re
from pathlib import Path

import sowline_fanout.service
import sowline_gateway.service
import sowline_materializer.service
import sowline_query_service.service
import sowline_views.service
from sowline.config.settings import Settings

TEXT = (Path(__file__).parents[2] / "docs" / "deploy.md").read_text(encoding="utf-8")


def test_variables() -> None:
    """Each variable is a setting of the services, or one that the tools around them read."""
    named = {name.lower() for name in re.findall(r"SOWLINE_([A-Z_]+)", TEXT)} - {
        "ivy_settings",
        "kafka_version",
    }
    assert named <= set(Settings.model_fields)
    assert {"kafka", "kafka_options", "config", "data_dir", "host", "port"} <= named


def test_ports() -> None:
    """Each service is listed with its usual port."""
    assert dict(re.findall(r"\| `sowline ([a-z-]+)` \| (\d+)", TEXT)) == {
        "materializer": str(sowline_materializer.service.USUAL_PORT),
        "query-service": str(sowline_query_service.service.USUAL_PORT),
        "gateway": str(sowline_gateway.service.USUAL_PORT),
        "views": str(sowline_views.service.USUAL_PORT),
        "fanout": str(sowline_fanout.service.USUAL_PORT),
    }
