"""Regular expressions that users give: RE2's, with limits to what it costs to compile one and to search with it.

RE2 holds Python's global lock while it compiles, so that nothing else runs, not even beside a thread. And its
compilation takes more than linear time where optional parts follow each other, and much for Unicode classes: so the
`pattern_size` has a limit, too. A search takes time linear in the text, but some programs take a step for each of
their instructions at each byte. The limit of the text therefore depends on the size of the program.
"""

import re
from typing import Any

import re2  # type: ignore[import-untyped,unused-ignore]

PATTERN_BYTES_MAX = 4096
PATTERN_SIZE_MAX = 4096
"""With repetitions written out."""

UNICODE_CLASS_SIZE = 200
"""A Unicode class, like `\\pL`, takes as long to compile as so many characters."""

PATTERN_MEMORY_BYTES_MAX = 1 << 20
REASON_CHARS_MAX = 200

SEARCH_STEPS_MAX = 1 << 25
"""Steps of about a nanosecond that one search may take."""

SMALL_PATTERN = 12
"""A pattern of so many characters becomes an automaton that stays small: each byte of a text is one step."""

INSTRUCTION_STEPS = 10
"""Steps for each instruction of a larger pattern's program at each byte."""

_TOKEN = re.compile(
    r"""\\Q(?P<quoted>.*?)(?:\\E|\Z)
      | (?P<unicode>\\[pP](?:\{[^}]*\}?|.)?)
      | \\x\{[^}]*\} | \\.
      | (?P<set>\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\]?)
      | (?P<opening>\() | (?P<closing>\))
      | \{(?P<least>[0-9]{1,9})(?P<comma>,(?P<most>[0-9]{1,9})?)?\}
      | .""",
    re.VERBOSE | re.DOTALL,
)
_UNICODE_CLASS = re.compile(r"\\[pP]")


class PatternError(ValueError):
    """A pattern that is too large, or that RE2 refuses, and the reason."""


class Regex:
    """A compiled pattern, for encoded texts; raises `PatternError` for one that can't be."""

    __slots__ = ("_compiled", "byte_steps", "search")

    byte_steps: int

    def __init__(self, pattern: str) -> None:
        size = check_size(pattern)
        options = re2.Options()
        options.max_mem = PATTERN_MEMORY_BYTES_MAX
        options.log_errors = False
        options.never_capture = True
        try:
            # Bytes: with `str` the library would also count characters, to report positions that nobody asks for.
            self._compiled = re2.compile(encoded(pattern), options)
        except re2.error as error:
            raise PatternError(_reason_of(error)) from None
        self.byte_steps = 1 if size <= SMALL_PATTERN else self._compiled.programsize * INSTRUCTION_STEPS
        """Steps that a search may take for each byte of a text."""
        self.search: Any = self._compiled.search
        """The first match in an encoded text from a position on, or `None`. Mind `allows`."""

    def allows(self, size: int) -> bool:
        """Whether so many bytes of text may be searched."""
        return size * self.byte_steps <= SEARCH_STEPS_MAX

    def is_whole(self, text: str) -> bool:
        """Whether the pattern matches the whole text."""
        return self._compiled.fullmatch(encoded(text)) is not None


def check_size(pattern: str) -> int:
    """Return the pattern's size; raises `PatternError` where it, or the pattern itself, is too large."""
    if len(pattern) > PATTERN_BYTES_MAX or len(encoded(pattern)) > PATTERN_BYTES_MAX:
        raise PatternError(f"more than {PATTERN_BYTES_MAX} bytes")
    size = pattern_size(pattern)
    if size > PATTERN_SIZE_MAX:
        raise PatternError(
            f"more than {PATTERN_SIZE_MAX} characters when its repetitions are written out"
            f" (a Unicode class counts as {UNICODE_CLASS_SIZE})"
        )
    return size


def pattern_size(pattern: str) -> int:
    """Return how many characters the pattern has with its repetitions written out: 7 for `(ab){1,2}`, as `ab(ab)?`.

    A Unicode class counts as `UNICODE_CLASS_SIZE` characters.
    """
    outer: list[int] = []
    total = last = 0
    for token in _TOKEN.finditer(pattern):
        if token["opening"]:
            outer.append(total)
            total = last = 0
        elif token["closing"]:
            last = total + 2
            total = last + (outer.pop() if outer else 0)
        elif token["least"]:
            repeated = _repeated(last, token)
            total += repeated - last
            last = repeated
        else:
            last = _token_size(token)
            total += last
        if total > PATTERN_SIZE_MAX:
            break
    return total + sum(outer) + len(outer)


def _token_size(token: re.Match[str]) -> int:
    if token["unicode"]:
        return UNICODE_CLASS_SIZE
    classes = len(_UNICODE_CLASS.findall(token["set"])) if token["set"] else 0
    return len(token[0]) + classes * UNICODE_CLASS_SIZE


def _repeated(size: int, token: re.Match[str]) -> int:
    """Return the size of what is repeated, written out; each time that may be left out takes a `?`."""
    least = int(token["least"])
    if not token["comma"]:
        return size * max(1, least)
    most = int(token["most"] or least)
    return size * max(1, least) + max(0, most - least) * (size + 1)


def encoded(text: str) -> bytes:
    """The text in UTF-8."""
    # A lone surrogate, which some decoders let through, is no UTF-8; it must not become an exception here.
    return text.encode("utf-8", "surrogatepass")


def _reason_of(error: Exception) -> str:
    """RE2's reason for refusing a pattern, of which it may repeat all."""
    reason = error.args[0] if error.args else error
    text = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
    return text if len(text) <= REASON_CHARS_MAX else f"{text[: REASON_CHARS_MAX - 3]}..."
