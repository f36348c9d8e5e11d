"""The functions of the filter language, written afresh in another way wherever there is one.

Each has what its arguments are taken as, and its value. NULL arguments are seen to before.
"""

import hashlib
import math
import time
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from typing import Any

import re2

from tests.property.scalar_reference import reference_calculate, reference_number, reference_text


def reference_integer(value: Any) -> Any:
    """The value as an integer."""
    number = reference_number(value)
    if number is None or math.isnan(number):
        return None
    return max(-(2**63), min(2**64 - 1, number if math.isinf(number) else math.trunc(number)))


def reference_call(name: str, arguments: list[list[Any]]) -> Any:
    """A function of its arguments, each a list of scalars."""
    takes_null = name.endswith("?")
    kinds, compute = FUNCTIONS.get(name, (None, None))
    if compute is None:
        takes_null, (kinds, compute) = True, FUNCTIONS[name + "?"]
    kinds = (kinds or "").ljust(len(arguments), (kinds or "?")[-1])
    converted = [CONVERSIONS[kind](argument) for kind, argument in zip(kinds, arguments, strict=False)]
    if not takes_null and None in converted:
        return None
    result = compute(*converted)
    if isinstance(result, str):
        return result if 0 < len(result) <= 1_048_576 else None
    if isinstance(result, int) and not isinstance(result, bool) and not -(2**63) <= result < 2**64:
        return float(result)
    return result


def of_first(convert: Callable[[Any], Any]) -> Callable[[list[Any]], Any]:
    """A conversion of an array's first element; NULL stays NULL."""
    return lambda values: None if values[0] is None else convert(values[0])


CONVERSIONS: dict[str, Callable[[list[Any]], Any]] = {
    "t": of_first(reference_text),
    "n": of_first(reference_number),
    "d": of_first(lambda value: float(reference_number(value))),
    "i": of_first(reference_integer),
    "s": lambda values: values[0],
    "a": lambda values: [value for value in values if value is not None],
}


def domain(compute: Callable[..., Any], *arguments: Any) -> Any:
    """The value; NaN where there is none."""
    try:
        return compute(*arguments)
    except ValueError:
        return math.nan


def numbers_in(values: Any) -> list[Any]:
    """The values' numbers, without NaN."""
    numbers = [reference_number(value) for value in values if value is not None]
    return [number for number in numbers if not math.isnan(number)]


def reference_sum(values: list[Any]) -> Any:
    """ARRAY_SUM."""
    total = None
    for value in values:
        number = reference_number(value)
        total = number if total is None else reference_calculate("+", total, number)
    return total


def replaced(text: Any, match: Any, replacement: Any) -> Any:
    """REPLACE, character by character."""
    if text is None or match is None:
        return None
    result, position = "", 0
    while position < len(text):
        is_match = text[position : position + len(match)] == match
        result += (replacement or "") if is_match else text[position]
        position += len(match) if is_match else 1
    return result


def regexp(pattern: str) -> Any:
    """The compiled pattern; `None` if RE2 refuses it."""
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error:
        return None


def regexp_replaced(text: Any, pattern: Any, replacement: Any) -> Any:
    """REGEXP_REPLACE."""
    if text is None or pattern is None or regexp(pattern) is None:
        return None
    return regexp(pattern).sub(lambda match: replacement or "", text)


def regexp_matched(text: str, pattern: str) -> Any:
    """REGEXP_MATCH."""
    match = regexp(pattern).search(text) if regexp(pattern) else None
    return match.group() if match else None


def substring(text: str, start: int, length: int | None = None) -> str:
    """SUBSTR, asking of each character whether it is in."""
    begin = start if start > 0 else 1 if start == 0 else max(1, len(text) + start + 1)
    end = math.inf if length is None else begin + length
    return "".join(character for index, character in enumerate(text, 1) if begin <= index < end)


def trimmed(text: str, characters: str = " ", left: bool = True, right: bool = True) -> str:
    """TRIM, one character at a time."""
    while left and text and text[0] in characters:
        text = text[1:]
    while right and text and text[-1] in characters:
        text = text[:-1]
    return text


def found_at(text: str, wanted: str) -> int:
    """INSTR, trying each index."""
    return next((index + 1 for index in range(len(text)) if text[index:].startswith(wanted)), 0)


def one_case(text: str) -> str:
    """Each character in one case, if that is one character."""
    folds = [(character, character.casefold()) for character in text]
    return "".join(fold if len(fold) == 1 else character for character, fold in folds)


def to_digits(number: Any, digits: int = 0) -> Any:
    """ROUND, of the exact fraction that is written."""
    if math.isnan(number) or math.isinf(number) or digits > 400:
        return number
    if digits < -400:
        return 0
    scaled = Fraction(repr(number)) * Fraction(10) ** digits
    away = math.floor(abs(scaled) + Fraction(1, 2)) * (-1 if scaled < 0 else 1)
    result = away / Fraction(10) ** digits
    return int(result) if digits <= 0 or isinstance(number, int) else float(result)


def towards(direction: Callable[[Any], int], number: Any) -> Any:
    """CEILING or FLOOR."""
    return number if math.isnan(number) or math.isinf(number) else direction(number)


def raised(base: float, exponent: float) -> Any:
    """POWER."""
    if base == 0 and exponent < 0:
        return None
    try:
        return domain(math.pow, base, exponent)
    except OverflowError:
        is_odd = exponent == math.floor(exponent) and int(exponent) % 2 == 1
        return -math.inf if base < 0 and is_odd else math.inf


def unlimited(compute: Callable[[float], float], number: float) -> float:
    """The value; infinity where a double can't hold it."""
    try:
        return compute(number)
    except OverflowError:
        return math.inf


def bucket(number: Any, low: Any, high: Any, count: int) -> Any:
    """WIDTH_BUCKET, trying the buckets' borders by bisection."""
    finite = not any(math.isnan(end) or math.isinf(end) for end in (low, high))
    if math.isnan(number) or not finite or low == high or count < 1:
        return None
    if low > high:
        number, low, high = -number, -low, -high
    if number < low:
        return 0
    if number >= high:
        return count + 1
    least, most = 0, count
    while most - least > 1:
        middle = (least + most) // 2
        border = Fraction(low) + (Fraction(high) - Fraction(low)) * middle / count
        least, most = (middle, most) if number >= border else (least, middle)
    return least + 1


def distance(*degrees: float) -> float:
    """GEO_DISTANCE, by vectors: the angle from its sine and cosine."""
    if any(math.isnan(angle) or math.isinf(angle) for angle in degrees):
        return math.nan
    one, other = (
        (math.cos(lat) * math.cos(lon), math.cos(lat) * math.sin(lon), math.sin(lat))
        for lat, lon in (map(math.radians, pair) for pair in (degrees[:2], degrees[2:]))
    )
    across = math.dist(one, other)
    return 6_371_008.8 * 2 * math.asin(min(1.0, across / 2))


def crc(text: str, bits: int, polynomial: int) -> int:
    """A reflected CRC, bit by bit: the definition."""
    ones = (1 << bits) - 1
    remainder = ones
    for byte in text.encode():
        for index in range(8):
            bit = (remainder ^ byte >> index) & 1
            remainder = remainder >> 1 ^ (int(f"{polynomial:0{bits}b}"[::-1], 2) if bit else 0)
    return remainder ^ ones


def moment(timestamp: Any, zone: str = "Z") -> Any:
    """The date and time in UTC, or east of it."""
    if zone not in OFFSETS or math.isnan(timestamp) or abs(timestamp) > 1e12:
        return None
    try:
        shifted = timedelta(seconds=OFFSETS[zone], microseconds=round(timestamp * 10**6))
        return datetime(1970, 1, 1) + shifted
    except OverflowError:
        return None


OFFSETS = {"Z": 0, "UTC": 0, "GMT": 0, "+02:00": 7200, "-0530": -19800}
"""All offsets that tests name."""


def part(name: str) -> Callable[..., Any]:
    """YEAR, MONTH or DAY."""

    def of(timestamp: Any, zone: str = "Z") -> Any:
        found = moment(timestamp, zone)
        return found and getattr(found, name)

    return of


def day_of(timestamp: Any, zone: str = "Z") -> Any:
    """DATE."""
    found = moment(timestamp, zone)
    return found and date(found.year, found.month, found.day).isoformat()


def written(form: str, timestamp: Any) -> Any:
    """STRFTIME, by C's own function."""
    found = moment(timestamp)
    if found is None:
        return None
    form = form.replace("%03f", f"{found.microsecond // 1000:03}").replace("%f", f"{found.microsecond:06}")
    return time.strftime(form, found.replace(tzinfo=UTC).utctimetuple())


FUNCTIONS: dict[str, tuple[str, Callable[..., Any]]] = {
    "CONCAT?": ("t", lambda *texts: "".join(text or "" for text in texts)),
    "UPPER": ("t", lambda text: "".join(text.upper())),
    "LOWER": ("t", lambda text: "".join(text.lower())),
    "REPLACE?": ("ttt", replaced),
    "REGEXP_REPLACE?": ("ttt", regexp_replaced),
    "REGEXP_MATCH": ("tt", regexp_matched),
    "SUBSTR": ("tii", substring),
    "TRIM": ("tt", trimmed),
    "LTRIM": ("tt", lambda text, characters=" ": trimmed(text, characters, right=False)),
    "RTRIM": ("tt", lambda text, characters=" ": trimmed(text, characters, left=False)),
    "LEFT": ("ti", lambda text, count: substring(text, 1, count)),
    "RIGHT": ("ti", lambda text, count: substring(text[::-1], 1, count)[::-1]),
    "REVERSE": ("t", lambda text: "".join(reversed(text))),
    "LENGTH": ("t", lambda text: sum(1 for _ in text)),
    "INSTR": ("tt", found_at),
    "INSTR_I": ("tt", lambda text, wanted: found_at(one_case(text), one_case(wanted))),
    "STREQUAL_I": ("tt", lambda text, other: one_case(text) == one_case(other)),
    "CHAR_VALUE": ("i", lambda code: chr(code) if code in range(0x110000) else None),
    "ABS": ("n", abs),
    "SIGN": (
        "n",
        lambda number: math.nan if math.isnan(number) else 0 if number == 0 else 1 if number > 0 else -1,
    ),
    "GREATEST?": ("s", lambda *values: max(numbers_in(values), default=math.nan)),
    "LEAST?": ("s", lambda *values: min(numbers_in(values), default=math.nan)),
    "CEILING": ("n", lambda number: towards(math.ceil, number)),
    "FLOOR": ("n", lambda number: towards(math.floor, number)),
    "ROUND": ("ni", to_digits),
    "EXP": ("d", lambda number: unlimited(math.exp, number)),
    "LN": ("d", lambda number: None if number == 0 else domain(math.log, number)),
    "LOG2": ("d", lambda number: None if number == 0 else domain(math.log2, number)),
    "LOG10": ("d", lambda number: None if number == 0 else domain(math.log10, number)),
    "POWER": ("dd", raised),
    "SQRT": ("d", lambda number: domain(math.sqrt, number)),
    "RADIANS": ("d", math.radians),
    "DEGREES": ("d", math.degrees),
    "SIN": ("d", lambda number: domain(math.sin, number)),
    "COS": ("d", lambda number: domain(math.cos, number)),
    "TAN": ("d", lambda number: domain(math.tan, number)),
    "COT": ("d", lambda number: None if number == 0 else 1 / domain(math.tan, number)),
    "ASIN": ("d", lambda number: domain(math.asin, number)),
    "ACOS": ("d", lambda number: domain(math.acos, number)),
    "ATAN": ("d", math.atan),
    "ATAN2": ("dd", math.atan2),
    "SINH": (
        "d",
        lambda number: -unlimited(math.sinh, -number) if number < 0 else unlimited(math.sinh, number),
    ),
    "COSH": ("d", lambda number: unlimited(math.cosh, number)),
    "TANH": ("d", math.tanh),
    "WIDTH_BUCKET": ("nnni", bucket),
    "TRUE_VALUE": ("", lambda: True),
    "FALSE_VALUE": ("", lambda: False),
    "NAN_VALUE": ("", lambda: math.nan),
    "COALESCE?": ("s", lambda *values: next((value for value in values if value is not None), None)),
    "ARRAY_COUNT": ("a", len),
    "ARRAY_SUM": ("a", reference_sum),
    "ARRAY_MAX": ("a", lambda values: max(numbers_in(values), default=math.nan if values else None)),
    "ARRAY_MIN": ("a", lambda values: min(numbers_in(values), default=math.nan if values else None)),
    "STRFTIME": ("tn", written),
    "YEAR": ("nt", part("year")),
    "MONTH": ("nt", part("month")),
    "DAY": ("nt", part("day")),
    "DATE": ("nt", day_of),
    "DATE_UTC": ("n", day_of),
    "TIMEZONEOFFSET": ("t", OFFSETS.get),
    "MD5": ("t", lambda text: hashlib.md5(text.encode()).hexdigest()),
    "CRC32": ("t", lambda text: crc(text, 32, 0x1EDC6F41)),
    "CRC64": ("t", lambda text: crc(text, 64, 0x42F0E1EBA9EA3693)),
}
"""Each function that needs but its arguments. A `?` behind the name: NULL arguments are for the function."""
