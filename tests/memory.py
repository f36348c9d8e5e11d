"""What objects take of memory."""

import gc
import sys


def deep_bytes(held: object, shared: set[int]) -> int:
    """Return the memory of an object with all that it refers to, other than what is shared."""
    seen, found, size = set(shared), [held], 0
    while found:
        one = found.pop()
        if id(one) not in seen and not isinstance(one, type) and not callable(one):
            seen.add(id(one))
            size += sys.getsizeof(one)
            # A structure that the garbage collector passes over does not say what it refers to.
            fields = getattr(type(one), "__struct_fields__", ())
            found += [getattr(one, name) for name in fields] or gc.get_referents(one)
    return size
