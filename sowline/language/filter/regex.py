"""Regular expressions from users: RE2's, with limits on the time to compile them and to search with them.

RE2 holds Python's global lock while it compiles, so no other thread runs. Compilation takes more than linear time for
successive optional parts, and long for Unicode classes. So `pattern_size` has a limit. A search takes time linear in
the text, but some compiled programs execute each of their instructions at each byte. So the limit on the text depends
on the size of the program.
"""

import re
from typing import Any

import re2

PATTERN_BYTES_MAX = 4096
PATTERN_SIZE_MAX = 4096
"""The maximum `pattern_size`, with repetitions written out."""

UNICODE_CLASS_CHARS = 200
"""A Unicode class, like `\\pL`, takes as long to compile as this many characters."""

PATTERN_MEMORY_BYTES_MAX = 1 << 20
REASON_CHARS_MAX = 200

SEARCH_STEPS_MAX = 1 << 25
"""The limit for one search, in steps of about a nanosecond."""

SMALL_PATTERN = 12
"""Patterns up to this size compile to a small automaton: one step for each byte of a text."""

INSTRUCTION_STEPS = 10
"""For larger patterns, the steps for each instruction of the program at each byte."""

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
    """A pattern is too large, or RE2 refuses it. The text is the reason."""


class Regex:
    """A compiled pattern for encoded texts. The constructor raises `PatternError`."""

    __slots__ = ("_compiled", "byte_steps", "search")

    byte_steps: int

    def __init__(self, pattern: str) -> None:
        size = check_size(pattern)
        options = re2.Options()
        # With its default, each pattern of a client could take 8 MiB.
        options.max_mem = PATTERN_MEMORY_BYTES_MAX
        # RE2 writes a pattern that it refuses to stderr: every client could fill the log of the service.
        options.log_errors = False
        # Groups are never read, and RE2 finds a match in less time without them.
        options.never_capture = True
        try:
            # Compile bytes: with `str` the library would also count characters, to report positions never used here.
            self._compiled = re2.compile(encoded(pattern), options)
        except re2.error as error:
            raise PatternError(_reason_of(error)) from None
        self.byte_steps = 1 if size <= SMALL_PATTERN else self._compiled.programsize * INSTRUCTION_STEPS
        """The maximum number of steps of a search for each byte of a text."""
        self.search: Any = self._compiled.search
        """Return the first match in an encoded text from a position, or None. Call `allows` before."""

    def allows(self, size_bytes: int) -> bool:
        """Return whether a text of `size_bytes` bytes may be searched."""
        return size_bytes * self.byte_steps <= SEARCH_STEPS_MAX

    def is_whole(self, text: str) -> bool:
        """Return whether the pattern matches the whole text."""
        return self._compiled.fullmatch(encoded(text)) is not None


def check_size(pattern: str) -> int:
    """Return the `pattern_size`; raise `PatternError` if it, or the pattern in bytes, is too large."""
    if len(pattern) > PATTERN_BYTES_MAX or len(encoded(pattern)) > PATTERN_BYTES_MAX:
        raise PatternError(f"more than {PATTERN_BYTES_MAX} bytes")
    # A short pattern can be very long with its nested repetitions written out. RE2 would compile it with Python's
    # global lock held, and no client would be served until the end (test_what_is_too_large_never_reaches_re2).
    size = pattern_size(pattern)
    if size > PATTERN_SIZE_MAX:
        raise PatternError(
            f"more than {PATTERN_SIZE_MAX} characters when its repetitions are written out"
            f" (a Unicode class counts as {UNICODE_CLASS_CHARS})"
        )
    return size


def pattern_size(pattern: str) -> int:
    """Return the length of a pattern with its repetitions written out: 7 for `(ab){1,2}`, which is `ab(ab)?`.

    A Unicode class counts as `UNICODE_CLASS_CHARS` characters.
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
        return UNICODE_CLASS_CHARS
    classes = len(_UNICODE_CLASS.findall(token["set"])) if token["set"] else 0
    return len(token[0]) + classes * UNICODE_CLASS_CHARS


def _repeated(size_chars: int, token: re.Match[str]) -> int:
    """Return the written-out characters of a repeated part; each optional repetition adds a `?`."""
    least = int(token["least"])
    if not token["comma"]:
        return size_chars * max(1, least)
    most = int(token["most"] or least)
    return size_chars * max(1, least) + max(0, most - least) * (size_chars + 1)


def encoded(text: str) -> bytes:
    """Return the text in UTF-8."""
    # Some decoders let a lone surrogate through, which is not valid UTF-8. Filters must not raise for it.
    return text.encode("utf-8", "surrogatepass")


def _reason_of(error: Exception) -> str:
    """Return RE2's reason for refusing a pattern, cut short because it may repeat the whole pattern."""
    reason = error.args[0] if error.args else error
    text = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
    return text if len(text) <= REASON_CHARS_MAX else f"{text[: REASON_CHARS_MAX - 3]}..."
