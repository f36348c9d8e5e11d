from collections.abc import Iterator
from typing import Any

class Token(str):
    type: str
    start_pos: int | None

class TextSlice:
    text: str

class LexerState:
    text: TextSlice

class Lexer:
    def lex(self, lexer_state: LexerState, parser_state: Any) -> Iterator[Any]: ...

class LexerThread:
    def lex(self, parser_state: object) -> Iterator[Any]: ...
