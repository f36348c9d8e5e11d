"""Everything on one machine: what each service is told."""

from pathlib import Path

import pytest

from sowline.runtime.local_stack import LocalStack


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A file of topics, with a fanout."""
    path = tmp_path / "topics.yaml"
    path.write_text("topics: [{name: orders, key: /id}]\nfanouts: [{name: late, topic: orders}]")
    return path


def environments(stack: LocalStack) -> dict[str, dict[str, str]]:
    """Return the environment of each service, by its name."""
    return {service.name: service.environment for service in stack.services("kafka:9092")}


def test_the_access_file_is_the_query_service_s(config: Path, tmp_path: Path) -> None:
    """By its whole path; the others serve no clients that it could be about."""
    access = tmp_path / "access.yaml"
    given = environments(LocalStack(config, tmp_path, "127.0.0.1", 0, None, access=access))
    assert given["query service"]["SOWLINE_ACCESS"] == str(access)
    assert not any("SOWLINE_ACCESS" in given[name] for name in ("materializer", "fanout"))
    assert (
        "SOWLINE_ACCESS"
        not in environments(LocalStack(config, tmp_path, "127.0.0.1", 0, None))["query service"]
    )


@pytest.mark.parametrize(("certificate", "scheme"), [("", "http"), ("own.pem", "https")])
def test_where_it_answers(
    config: Path, tmp_path: Path, certificate: str, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over https where there is a certificate; other services have none."""
    monkeypatch.setenv("SOWLINE_TLS_CERT", certificate)
    urls = {
        one.name: one.url for one in LocalStack(config, tmp_path, "0.0.0.0", 0, None).services("kafka:9092")
    }
    assert urls["query service"].startswith(f"{scheme}://127.0.0.1:")
    assert urls["materializer"].startswith("http://")
