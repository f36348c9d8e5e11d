"""Finds the native core: the module `sowline_native`, which applies plain log records faster than Python."""

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Final

from prometheus_client.metrics_core import CounterMetricFamily

from sowline.errors import SowlineError
from sowline.native import Core, panics
from sowline.version import installing

MODULE: Final = "sowline_native"


def native_core(choice: Core | None) -> ModuleType | None:
    """Return the module of the native core; None if it is not installed, or if Python was chosen.

    Raise `bad configuration` if it was chosen and is not installed.
    """
    if choice == "python":
        return None
    if find_spec(MODULE) is None:
        if choice == "native":
            raise SowlineError(
                "bad configuration",
                f"expected the module {MODULE} for SOWLINE_CORE=native, which is not installed: "
                f"{installing('native')}; else set SOWLINE_CORE=python",
            )
        return None
    return import_module(MODULE)


def panic_metric() -> CounterMetricFamily:
    """Return how often the native core has failed in this process, as a metric of its service."""
    return CounterMetricFamily(
        "sowline_core_panics", "How often the native core failed, and Python did the work", value=panics()
    )
