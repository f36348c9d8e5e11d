"""Every function of the filter language by its name, and the other spellings of names."""

from sowline.language.filter.functions import arrays, clock, dates, hashes, message, numbers, strings, values

_MODULES = (strings, numbers, hashes, arrays, dates, values, message, clock)

FUNCTIONS = {function.name: function for module in _MODULES for function in module.FUNCTIONS}
"""Each function by its name, in upper case."""

ALIASES = {"AMPS_INSTANCE_NAME": "INSTANCE_NAME", "AMPS_GROUP_NAME": "GROUP_NAME"}
"""Other names that are accepted; the canonical text has the name on the right."""


def canonical_name(name: str) -> str:
    """Return the canonical spelling of a function's name; the function need not exist."""
    upper = name.upper()
    return ALIASES.get(upper, upper)
