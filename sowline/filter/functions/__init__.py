"""The functions of the filter language, a room for each kind; `docs/filters.md` specifies them one by one."""

from sowline.filter.functions import arrays, clock, dates, hashes, message, numbers, strings, values

_ROOMS = (strings, numbers, hashes, arrays, dates, values, message, clock)

FUNCTIONS = {function.name: function for room in _ROOMS for function in room.FUNCTIONS}
"""Each function by its name, in upper case."""

ALIASES = {"AMPS_INSTANCE_NAME": "INSTANCE_NAME", "AMPS_GROUP_NAME": "GROUP_NAME"}
"""Other names that are read, and never printed."""


def canonical_name(name: str) -> str:
    """The one spelling of a function's name, whether or not there is such a function."""
    upper = name.upper()
    return ALIASES.get(upper, upper)
