"""Which core a materializer uses, and that the native one keeps to Rust's own rules."""

import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from sowline.errors import SowlineError
from sowline.runtime import native

NATIVE = Path(__file__).parents[4] / "native"


def test_python_is_chosen() -> None:
    """Also where the native core is installed."""
    assert native.native_core("python") is None


def test_a_missing_native_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a choice Python applies everything; one that was chosen has to be there."""
    monkeypatch.setattr(native, "find_spec", lambda name: None)
    assert native.native_core(None) is None
    with pytest.raises(SowlineError, match=r"expected the module sowline_native .* pip install") as refused:
        native.native_core("native")
    assert refused.value.reason == "bad configuration"


def test_an_installed_native_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is used with and without a choice."""
    module = SimpleNamespace()
    monkeypatch.setattr(native, "find_spec", lambda name: module)
    monkeypatch.setattr(native, "import_module", lambda name: module)
    assert native.native_core(None) is native.native_core("native") is module


@pytest.mark.slow
@pytest.mark.timeout(420)
@pytest.mark.needs("cargo")
@pytest.mark.parametrize(
    "check",
    [
        ["fmt", "--check"],
        ["clippy", "--release", "--locked", "--features", "extension-module", "--", "-D", "warnings"],
    ],
)
def test_rust_is_right(check: list[str]) -> None:
    """Formatted as all Rust is, and without a warning."""
    done = subprocess.run(["cargo", *check], cwd=NATIVE, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
