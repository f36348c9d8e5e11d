"""A native core that panics."""


class PanicException(BaseException):
    """As PyO3 raises it."""


def panic(*given: object) -> None:
    """Fail, whatever is called."""
    raise PanicException("index out of bounds")
