"""Keys that publishers may give, hostile ones among them, and texts that are none."""

from hypothesis import strategies as st

HOSTILE = (
    '"',
    "\\",
    'a"b\\c',
    ",",
    "a,b",
    "[",
    '["a"]',
    "[1,2",
    "]",
    " ",
    " a ",
    "/",
    "a/records/b",
    "..",
    "%",
    "%2F",
    "%00",
    "<script>alert(1)</script>",
    "&amp;",
    "'; --",
    "{}",
    "\u2028",
    "\u2029",
    "\u00a0",
    "ü",
    "🜚🜚",
    "e\u0301",
    "\ufeff",
    "1",
    "0@1",
    "progress",
    "x" * 255,
    "ü" * 127 + "x",
)
"""Keys that must not be spliced, split or decoded as they stand."""

NO_KEYS = ("", "\x00progress", "a\x1fb", "\x7f", "\x85", "\n", "x" * 256, "ü" * 128)
"""Texts that are no keys: empty, with control characters, and longer than 255 bytes."""

_plain = st.characters(exclude_categories=["Cs", "Cc"])

kafka_keys = st.sampled_from(HOSTILE) | st.text(_plain, min_size=1, max_size=60).filter(
    lambda text: len(text.encode()) <= 255
)
"""Keys of topics with `key: {from: kafka_key}`."""

header_keys = st.from_regex(r"[A-Za-z0-9+/=_\-]{1,40}", fullmatch=True) | st.sampled_from(
    ["=", "/", "a/b", "-_", "+" * 255]
)
"""Keys of topics with `key: {from: header}`."""
