"""Jars are fetched once per user, whole or not at all. Ivy is played by a script that counts its runs."""

import importlib.util
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pyspark
import pytest

from sowline.errors import SowlineError
from sowline.runtime.jars import (
    IVY_JAR,
    KAFKA_VERSION,
    SPARK_CONNECTOR,
    JarSet,
    cache_directory,
    kafka_jars,
    kafka_of,
    main,
    retrieve,
)

KAFKA = kafka_of(KAFKA_VERSION)
SOME = JarSet("some-1", (("org.example", "some", "1"),))
FETCHES = "mkdir jars; touch jars/b-1.jar jars/a-1.jar"
FAILS = "mkdir jars; touch jars/a-1.jar; echo 'UNRESOLVED DEPENDENCIES'; exit 1"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache directory of the test's own, under a name with everything that a shell or Ivy could trip over."""
    directory = tmp_path / "a cache [of] (mine)"
    monkeypatch.setenv("XDG_CACHE_HOME", str(directory))
    return directory / "sowline"


@pytest.fixture
def ivy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a Java in place that answers as release 17 and, run as Ivy, does what `ivy.sh` says."""
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(
        '#!/bin/sh\nif [ "$1" = -version ]; then echo \'version "17"\'; exit; fi\n'
        f"echo run >> '{tmp_path}/runs'\n. '{tmp_path}/ivy.sh'\n"
    )
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    (tmp_path / "ivy.sh").write_text(FETCHES)
    return tmp_path / "ivy.sh"


def runs(ivy: Path) -> int:
    """Return how often Ivy was run."""
    log = ivy.parent / "runs"
    return len(log.read_text().split()) if log.exists() else 0


def test_jars_are_fetched_once(ivy: Path, cache: Path) -> None:
    """The first call fetches, the next ones find the same jars in the cache, sorted."""
    first, second = retrieve(SOME), retrieve(SOME)
    assert first == second == [cache / "jars" / "some-1" / name for name in ("a-1.jar", "b-1.jar")]
    assert runs(ivy) == 1


def test_concurrent_callers_fetch_once(ivy: Path) -> None:
    """Callers that come at once wait for the first and get what it fetched."""
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: retrieve(SOME), range(8)))
    assert all(answer == answers[0] and len(answer) == 2 for answer in answers)
    assert runs(ivy) == 1


def test_failure_leaves_nothing_behind(ivy: Path, cache: Path) -> None:
    """A fetch that fails half-way is an error with Ivy's own words, and the next call begins again."""
    ivy.write_text(FAILS)
    with pytest.raises(SowlineError, match=r"(?s)expected Ivy to fetch some-1.*UNRESOLVED"):
        retrieve(SOME)
    assert list((cache / "jars").iterdir()) == []
    ivy.write_text(FETCHES)
    assert len(retrieve(SOME)) == 2


def test_fetch_that_was_killed(ivy: Path, cache: Path) -> None:
    """What a killed fetch left is neither used nor kept."""
    half = cache / "jars" / ".half-killed"
    half.mkdir(parents=True)
    assert len(retrieve(SOME)) == 2
    assert not half.exists()


def test_nothing_fetched(ivy: Path) -> None:
    """An Ivy that reports success but brings no jar has failed."""
    ivy.write_text("exit 0")
    with pytest.raises(SowlineError) as caught:
        retrieve(SOME)
    assert caught.value.reason == "no jars"


def test_settings_of_a_mirror(ivy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ivy is given the settings file that SOWLINE_IVY_SETTINGS names."""
    monkeypatch.setenv("SOWLINE_IVY_SETTINGS", str(tmp_path / "mirror.xml"))
    ivy.write_text(f"echo \"$@\" > '{tmp_path}/arguments'; {FETCHES}")
    retrieve(SOME)
    assert f"-settings {tmp_path}/mirror.xml" in (tmp_path / "arguments").read_text()


def test_ivy_without_pyspark(ivy: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its jar is fetched once, and Ivy runs from there; a jar with other bytes is refused, and nothing stays."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    asked: list[str] = []
    (jar,) = Path(pyspark.__file__).parent.glob("jars/ivy-*.jar")
    content = [b"something else", jar.read_bytes()]

    def get(url: str, timeout: float) -> httpx2.Response:
        asked.append(url)
        return httpx2.Response(200, content=content[len(asked) - 1], request=httpx2.Request("GET", url))

    monkeypatch.setattr(httpx2, "get", get)
    with pytest.raises(
        SowlineError, match=r"another checksum than Ivy 2\.5\.3; copy ivy-2\.5\.3\.jar from a mirror"
    ):
        retrieve(SOME)
    assert not list(cache.glob("ivy*"))
    ivy.write_text(f"echo \"$@\" > '{tmp_path}/arguments'; {FETCHES}")
    retrieve(SOME)
    retrieve(JarSet("other-1", SOME.modules))
    assert asked == ["https://repo1.maven.org/maven2/org/apache/ivy/ivy/2.5.3/ivy-2.5.3.jar"] * 2
    assert f"-cp {cache}/{IVY_JAR} org.apache.ivy.Main" in (tmp_path / "arguments").read_text()


def test_ivy_away(ivy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without PySpark and without a network, the message says where the jar belongs."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)

    def get(url: str, timeout: float) -> httpx2.Response:
        raise httpx2.ConnectError("Name or service not known")

    monkeypatch.setattr(httpx2, "get", get)
    with pytest.raises(SowlineError, match="but: Name or service not known; copy") as caught:
        retrieve(SOME)
    assert (caught.value.reason, runs(ivy)) == ("no jars", 0)


def test_version_of_the_broker(ivy: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SOWLINE_KAFKA_VERSION chooses another one."""
    monkeypatch.setenv("SOWLINE_KAFKA_VERSION", "3.9.2")
    assert {jar.parent for jar in kafka_jars()} == {cache / "jars" / "kafka_2.13-3.9.2"}


def test_default_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without XDG_CACHE_HOME the cache is below the user's `.cache`."""
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    assert cache_directory() == Path.home() / ".cache" / "sowline"


def test_prefetch(ivy: Path, cache: Path) -> None:
    """`python -m sowline.runtime.jars` fetches Kafka and the connector."""
    assert main() == 0
    assert {path.name for path in (cache / "jars").iterdir()} == {KAFKA.name, SPARK_CONNECTOR.name}


def test_prefetch_failure(ivy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A failing prefetch says so on stderr and in its exit code."""
    ivy.write_text(FAILS)
    assert main() == 1
    assert "sowline: expected Ivy to fetch" in capsys.readouterr().err


def test_what_is_asked_for() -> None:
    """The broker comes with a logger; the connector comes without the Hadoop jars that PySpark has."""
    assert 'name="log4j-slf4j-impl"' in KAFKA.ivy_xml()
    assert '<exclude org="org.apache.hadoop" module="hadoop-client-runtime"/>' in SPARK_CONNECTOR.ivy_xml()


@pytest.mark.parametrize("jar_set", [KAFKA, SPARK_CONNECTOR])
def test_ivy_understands_what_is_asked_for(
    jar_set: JarSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real Ivy reads the file, looks for the first module in an empty repository, and does not find it."""
    pattern = tmp_path / "[organisation]-[module]-[revision].jar"
    (tmp_path / "empty.xml").write_text(
        "<ivysettings><settings defaultResolver='empty'/><resolvers><filesystem name='empty'>"
        f"<artifact pattern='{pattern}'/></filesystem></resolvers></ivysettings>"
    )
    monkeypatch.setenv("SOWLINE_IVY_SETTINGS", str(tmp_path / "empty.xml"))
    with pytest.raises(SowlineError) as caught:
        retrieve(jar_set)
    _, name, revision = jar_set.modules[0]
    assert f"#{name};{revision}: not found" in str(caught.value)
