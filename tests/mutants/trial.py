"""One trial: the tests of a module, run in a fork of this process in which the module is another one."""

import importlib
import importlib.machinery
import os
import resource
import signal
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from types import ModuleType

import pytest

from tests.mutants.scope import ROOT, dotted

# Imported once, not by every fork. None of them imports ours, and none starts a thread.
LIBRARIES = ["lark", "msgspec", "numpy", "orjson", "re2", "sortedcontainers", "pydantic", "jwt"]
MEMORY = 6 * 2**30


class Verdict(Enum):
    """What became of a mutant."""

    KILLED = 0
    SURVIVED = 1
    # The module cannot even be imported: a change that no test needs to find.
    INCOMPETENT = 2


@dataclass(frozen=True)
class Trial:
    """What to run: the module's source, None for its own, the tests, and the limits in seconds."""

    module: str
    source: str | None
    tests: Sequence[str]
    processor_limit: int

    def start(self, output: str = os.devnull) -> int:
        """Begin in a new process; return its id."""
        if child := os.fork():
            return child
        try:
            code = self._run(output)
        except BaseException:
            traceback.print_exc()
            code = Verdict.KILLED.value
        sys.stdout.flush()
        os._exit(code)

    def _run(self, output: str) -> int:
        file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, 1)
        os.dup2(file, 2)
        # An endless loop uses its processor time or its memory up; one that waits meets the alarm.
        resource.setrlimit(resource.RLIMIT_CPU, (self.processor_limit, self.processor_limit))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.alarm(20 * self.processor_limit)
        if self.source is not None:
            sys.meta_path.insert(0, Replaced(dotted(self.module), self.source))
        try:
            importlib.import_module(dotted(self.module))
        except Exception:
            return Verdict.INCOMPETENT.value
        arguments = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *self.tests]
        passed = pytest.main(arguments, plugins=[SameExamples()]) == pytest.ExitCode.OK
        return Verdict.SURVIVED.value if passed else Verdict.KILLED.value


class Replaced(importlib.machinery.PathFinder):
    """Finds one module, which has another source than its file."""

    def __init__(self, name: str, source: str) -> None:
        self._name = name
        self._source = source

    def find_spec(  # type: ignore[override]
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Find the module, or leave it to those that come next."""
        if fullname != self._name:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        assert spec is not None
        assert spec.origin is not None
        spec.loader = Loader(fullname, spec.origin, self._source)
        return spec


class Loader(importlib.machinery.SourceFileLoader):
    """Loads a source in the place of a file."""

    def __init__(self, name: str, path: str, source: str) -> None:
        super().__init__(name, path)
        self._source = source

    def get_code(self, fullname: str) -> object:  # type: ignore[override]
        """Compile the source, and read and write no cache."""
        return self.source_to_code(self._source.encode(), self.path)


class SameExamples:
    """Hypothesis tries the same examples in every trial, keeps none that fail, and does not look for shorter ones."""

    @pytest.hookimpl(trylast=True)
    def pytest_sessionstart(self) -> None:
        """Replace the profile that conftest.py chose."""
        # Not before: pytest wants to be the one that imports its plugins.
        import hypothesis

        hypothesis.settings.register_profile(
            "mutants",
            hypothesis.settings.default,
            derandomize=True,
            database=None,
            print_blob=False,
            phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
        )
        hypothesis.settings.load_profile("mutants")


def verdict(status: int) -> Verdict:
    """Return what the end of a process means: one that a signal ended used its limits up, and is killed."""
    return Verdict(os.waitstatus_to_exitcode(status)) if os.WIFEXITED(status) else Verdict.KILLED


def measured(module: str, tests: Sequence[str]) -> float:
    """Run the tests with the module as it is; return the seconds of processor time, or fail as they do."""
    output = ROOT / "build" / "mutants.log"
    output.parent.mkdir(exist_ok=True)
    child = Trial(module, None, tests, processor_limit=3600).start(str(output))
    _, status, usage = os.wait4(child, 0)
    if verdict(status) is not Verdict.SURVIVED:
        raise RuntimeError(f"{' '.join(tests)} fail without any mutant:\n{output.read_text()[-4000:]}")
    return usage.ru_utime + usage.ru_stime


def prepare() -> None:
    """Import the libraries that tests use, before any fork."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for library in LIBRARIES:
        importlib.import_module(library)
