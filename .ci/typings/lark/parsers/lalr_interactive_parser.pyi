from typing import Any

from lark.lexer import LexerThread, Token

class InteractiveParser:
    parser_state: object
    lexer_thread: LexerThread
    def feed_token(self, token: Any) -> Any: ...
    def feed_eof(self, last_token: Token | None = None) -> Any: ...
    def accepts(self) -> set[str]: ...
