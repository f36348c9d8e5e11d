# The part of Lark that the languages use: the library leaves many of these types out.
#
# `tests/docs/test_typing.py` looks for the names and parameters in the library. A token is `Any` where a lexer of
# one's own may yield another class.

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from lark.lexer import Lexer, Token
from lark.parsers.lalr_interactive_parser import InteractiveParser

__all__ = [
    "Lark",
    "Token",
    "Transformer",
    "UnexpectedCharacters",
    "UnexpectedInput",
    "UnexpectedToken",
    "v_args",
]

_Class = TypeVar("_Class", bound=type)
_Leaf = TypeVar("_Leaf")
_Return = TypeVar("_Return")

class Lark:
    @classmethod
    def open(
        cls,
        grammar_filename: str,
        rel_to: str | None = None,
        *,
        start: str,
        parser: str,
        lexer: str | type[Lexer],
        transformer: Transformer[Any, Any],
        maybe_placeholders: bool = True,
    ) -> Lark: ...
    def parse_interactive(self, text: str | None = None, start: str | None = None) -> InteractiveParser: ...

class Transformer(Generic[_Leaf, _Return]): ...

def v_args(inline: bool = False) -> Callable[[_Class], _Class]: ...

class UnexpectedInput(Exception):
    pos_in_stream: int | None

class UnexpectedCharacters(UnexpectedInput):
    allowed: set[str] | None

class UnexpectedToken(UnexpectedInput):
    token: Any
    expected: set[str]
