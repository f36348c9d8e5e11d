"""The `sowline up` processes that run on this machine: each writes a small file, by which other commands find it.

A file that a killed process has left is recognized as stale: the process with its id is gone, or started at another
time. Stale files are ignored, and removed by the next `sowline up`.
"""

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

OWN_TOPICS = "topics.yaml"
"""The file of topics that `sowline up` takes where it is started."""


@dataclass(frozen=True, slots=True)
class RunningStack:
    """One running `sowline up`: where its services, its topics and its state are."""

    pid: int
    started: str
    """When the process started, in the kernel's count: a process that reuses the id started at another time."""
    directory: str
    """The working directory in which it was started."""
    kafka: str
    url: str
    services: Mapping[str, str]
    """The URLs of its other services, by their names."""
    config: str
    data_dir: str
    """Where its materializer keeps state."""

    @property
    def urls(self) -> tuple[str, ...]:
        """The URLs of all its services."""
        return (self.url, *self.services.values())

    @property
    def is_elsewhere(self) -> bool:
        """Whether it was started in another directory than that of this process."""
        return self.directory != str(Path.cwd())

    @property
    def sentence(self) -> str:
        """Which one it is, for the user of a command."""
        which = f"using {self.url} of `sowline up` (pid {self.pid}, {self.config})"
        return f"{which}, which runs in another directory" if self.is_elsewhere else which


def state_directory() -> Path:
    """Return the directory of the files: `sowline/running` in `XDG_STATE_HOME`, or in `~/.local/state`."""
    home = os.environ.get("XDG_STATE_HOME")
    return (Path(home) if home else Path.home() / ".local" / "state") / "sowline" / "running"


@contextmanager
def announced(stack: RunningStack) -> Iterator[None]:
    """Let other commands find this process for the time of the block, where the directory can be written."""
    directory = state_directory()
    path = directory / f"{stack.pid}.json"
    with contextlib.suppress(OSError):
        directory.mkdir(parents=True, exist_ok=True)
        for stale in directory.glob("*.json"):
            if _read(stale) is None:
                stale.unlink(missing_ok=True)
        # Written under another name and moved, so that no reader finds half a file.
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps(asdict(stack)))
        fresh.replace(path)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def running_stacks() -> list[RunningStack]:
    """Return the running stacks, those that were started in this directory first."""
    with contextlib.suppress(OSError):
        found = [stack for path in sorted(state_directory().glob("*.json")) if (stack := _read(path))]
        return sorted(found, key=lambda stack: stack.is_elsewhere)
    return []


def chosen_stack(url: str | None = None) -> RunningStack | None:
    """Return the only running stack, or the only one of this directory, or else the one at this URL; None without.

    A directory with a `topics.yaml` has its own system: while that does not run, no system of another directory takes
    its place.
    """
    found = running_stacks()
    here = [stack for stack in found if not stack.is_elsewhere]
    if not here and Path(OWN_TOPICS).exists():
        return None
    chosen = next((stacks[0] for stacks in (here, found) if len(stacks) == 1), None)
    return chosen or next((stack for stack in found if stack.url == url), None)


def start_of(pid: int) -> str | None:
    """Return when a process started, in the kernel's count: empty where that is unknown, None if it is gone."""
    try:
        # Fields are separated by blanks, but the second is the program's name in parentheses, which may have blanks
        # and parentheses of its own.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        # A killed process stays as a zombie until its parent has waited for it.
        return None if fields[0] == "Z" else fields[19]
    except FileNotFoundError:
        if Path("/proc/self").exists():
            return None
    except OSError:
        pass
    try:
        # Without /proc, as on macOS, the start is unknown: a process that exists counts as the one of the file.
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except OSError:
        return ""
    return ""


def _read(path: Path) -> RunningStack | None:
    """Return the stack of a file; None if it is stale or damaged."""
    try:
        stack = RunningStack(**json.loads(path.read_text()))
        return stack if start_of(stack.pid) == stack.started else None
    except (OSError, ValueError, TypeError):
        return None
