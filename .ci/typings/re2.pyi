# The part of RE2 that filters and their tests use: the library has no types.
#
# `tests/docs/test_typing.py` looks for the names and parameters in the library.

from typing import Any, AnyStr, Generic

class Options:
    max_mem: int
    log_errors: bool
    never_capture: bool

class _Regexp(Generic[AnyStr]):
    @property
    def programsize(self) -> int: ...
    def search(self, text: AnyStr, pos: int | None = None, endpos: int | None = None) -> Any | None: ...
    def fullmatch(self, text: AnyStr, pos: int | None = None, endpos: int | None = None) -> Any | None: ...

class error(Exception): ...  # noqa: N801 - as in `re`

def compile(pattern: AnyStr, options: Options | None = None) -> _Regexp[AnyStr]: ...  # noqa: A001 - as in `re`
def search(pattern: AnyStr, text: AnyStr, options: Options | None = None) -> Any | None: ...
def purge() -> None: ...
