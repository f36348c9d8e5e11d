"""Writes a tree as its canonical text: `parse(text_of(tree)) == tree`, without needless parentheses."""

from enum import IntEnum

from sowline.language.filter.literals import quoted, quoted_as_is
from sowline.language.filter.tree import (
    Affixed,
    And,
    Arithmetic,
    Between,
    Call,
    Comparison,
    Field,
    FieldOf,
    In,
    IsNaN,
    IsNull,
    Like,
    Literal,
    Meets,
    Node,
    Not,
    Or,
    Signed,
)


class _Level(IntEnum):
    """The precedence of a form. A form gets parentheses where a higher precedence is required."""

    OR = 1
    AND = 2
    NOT = 3
    PREDICATE = 4
    SUM = 5
    PRODUCT = 6
    UNARY = 7
    PRIMARY = 8


_INFIX_NOT = (Between, In, Like, Affixed, IsNull, IsNaN)


def text_of(node: Node) -> str:
    """Return the text of a tree."""
    return _text(node, _Level.OR)


def _text(node: Node, needed: _Level) -> str:
    level, text = _form(node)
    return text if level >= needed else f"({text})"


def _form(node: Node) -> tuple[_Level, str]:
    match node:
        case Literal() | Field() | FieldOf() | Call() | Meets():
            return _Level.PRIMARY, _primary(node)
        case Signed(sign, operand):
            return _Level.UNARY, sign + _text(operand, _Level.UNARY)
        case Arithmetic():
            return _arithmetic(node)
        case Not(operand) if isinstance(operand, _INFIX_NOT):
            return _Level.PREDICATE, _predicate(operand, "NOT ")
        case Not(operand):
            return _Level.NOT, f"NOT {_text(operand, _Level.NOT)}"
        case And(terms):
            return _Level.AND, " AND ".join(_text(term, _Level.NOT) for term in terms)
        case Or(terms):
            return _Level.OR, " OR ".join(_text(term, _Level.AND) for term in terms)
        case _:
            return _Level.PREDICATE, _predicate(node, "")


def _primary(node: Literal | Field | FieldOf | Call | Meets) -> str:
    match node:
        case Literal(value):
            return _constant(value)
        case Field(path):
            return str(path)
        case FieldOf(path, state):
            return f"{path} OF {state}"
        case Call(name, arguments):
            return f"{name}({_list(arguments)})"
        case Meets(condition):
            return f"CONDITION({quoted(condition.text)})"


def _arithmetic(node: Arithmetic) -> tuple[_Level, str]:
    level = _Level.SUM if node.rest[0][0] in "+-" else _Level.PRODUCT
    # `a - (b - c)` needs its parentheses. Without them it would be the chain `a - b - c`.
    tighter = _Level(level + 1)
    steps = "".join(f" {operator} {_text(operand, tighter)}" for operator, operand in node.rest)
    return level, _text(node.first, tighter) + steps


def _predicate(node: Node, negation: str) -> str:
    match node:
        case Comparison(operator, left, right):
            return f"{_operand(left)} {operator} {_operand(right)}"
        case Between(operand, low, high):
            return f"{_operand(operand)} {negation}BETWEEN {_operand(low)} AND {_operand(high)}"
        case In(operand, items):
            return f"{_operand(operand)} {negation}IN ({_list(items)})"
        case Like(operand, pattern, raw):
            return f"{_operand(operand)} {negation}LIKE {_pattern(pattern, raw)}"
        case Affixed(end, operand, items):
            return f"{_operand(operand)} {negation}{end} WITH ({_list(items)})"
        case IsNull(operand):
            return f"{_operand(operand)} IS {negation}NULL"
        case IsNaN(operand):
            return f"{_operand(operand)} IS {negation}NAN"
        case _:
            raise AssertionError(f"not a predicate: {node}")


def _operand(node: Node) -> str:
    return _text(node, _Level.SUM)


def _list(nodes: tuple[Node, ...]) -> str:
    return ", ".join(text_of(node) for node in nodes)


def _constant(value: bool | int | float | str | None) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    return quoted(value) if isinstance(value, str) else repr(value)


def _pattern(pattern: str, raw: bool) -> str:
    if not raw:
        return quoted_as_is(pattern)
    return f'r"{pattern}"' if "'" in pattern else f"r'{pattern}'"
