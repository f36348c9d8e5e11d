"""The functions of the filter language, one module for each kind. `docs/filters.md` specifies each function."""

from sowline.language.filter.functions.catalog import ALIASES, FUNCTIONS, canonical_name

__all__ = ["ALIASES", "FUNCTIONS", "canonical_name"]
