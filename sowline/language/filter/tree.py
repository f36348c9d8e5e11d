"""The syntax tree of a filter, in canonical form. Nothing is computed here.

In canonical form, `==` is `=`, `<>` is `!=`, `MOD` is `%`, and `x NOT IN y` is `Not(In(x, y))`. Nested conjunctions
are one conjunction, and there are no parentheses. Two texts with equal trees have the same meaning.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from sowline.language.emodb import Condition
from sowline.model.path import Path, Scalar


@dataclass(frozen=True, slots=True, eq=False)
class Literal:
    """A constant. `''` is kept as written, though its value is NULL."""

    value: Scalar

    def __eq__(self, other: object) -> bool:
        # In Python 1, 1.0 and True are equal, but as operands of a division they give different results
        # (test_different_kinds_of_number_are_different_filters).
        return isinstance(other, Literal) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def _identity(self) -> tuple[type, Scalar]:
        # In Python 0.0 and -0.0 are equal too, but their texts differ (test_zeros_of_both_signs_are_two_literals).
        return type(self.value), repr(self.value) if isinstance(self.value, float) else self.value


@dataclass(frozen=True, slots=True)
class Field:
    """The value at a path."""

    path: Path


@dataclass(frozen=True, slots=True)
class FieldOf:
    """`path OF state`: the value at a path in the record's `PREVIOUS` or `CURRENT` state; only in enrichment."""

    path: Path
    state: str
    column: int = field(default=1, compare=False)


@dataclass(frozen=True, slots=True)
class Signed:
    """A unary `+` or `-`."""

    sign: str
    operand: "Node"


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Operators of one level (`+ -`, or `* / %`), left to right: `first`, then each operator and operand."""

    first: "Node"
    rest: tuple[tuple[str, "Node"], ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """`left operator right`; the operator is one of `= != < <= > >=`."""

    operator: str
    left: "Node"
    right: "Node"


@dataclass(frozen=True, slots=True)
class Between:
    """`operand BETWEEN low AND high`, both ends included."""

    operand: "Node"
    low: "Node"
    high: "Node"


@dataclass(frozen=True, slots=True)
class In:
    """`operand IN (items)`, with at least one item."""

    operand: "Node"
    items: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Like:
    """`operand LIKE 'pattern'`. `pattern` is the text between the quotes; `raw` means without metacharacters."""

    operand: "Node"
    pattern: str
    raw: bool
    column: int = field(default=1, compare=False)


@dataclass(frozen=True, slots=True)
class Affixed:
    """`operand BEGINS WITH (items)`, or `ENDS WITH`; `end` is `BEGINS` or `ENDS`. At least one item."""

    end: str
    operand: "Node"
    items: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class IsNull:
    """`operand IS NULL`."""

    operand: "Node"


@dataclass(frozen=True, slots=True)
class IsNaN:
    """`operand IS NAN`."""

    operand: "Node"


@dataclass(frozen=True, slots=True)
class Not:
    """`NOT operand`."""

    operand: "Node"


@dataclass(frozen=True, slots=True)
class And:
    """Two or more terms, none of them an `And`."""

    terms: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Two or more terms, none of them an `Or`."""

    terms: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Call:
    """`NAME(arguments)`, the name in upper case."""

    name: str
    arguments: tuple["Node", ...]
    column: int = field(default=1, compare=False)


@dataclass(frozen=True, slots=True)
class Meets:
    """`CONDITION('text')`: whether the record and its intrinsics meet an EmoDB condition.

    `in_envelope` is whether the condition is evaluated on an envelope (see `sowline.language.filter.envelope`).
    """

    condition: Condition
    in_envelope: bool = False


Node = (
    Literal
    | Field
    | FieldOf
    | Signed
    | Arithmetic
    | Comparison
    | Between
    | In
    | Like
    | Affixed
    | IsNull
    | IsNaN
    | Not
    | And
    | Or
    | Call
    | Meets
)


def conjunction(terms: Iterable[Node]) -> Node:
    """Return the terms joined by AND; nested conjunctions become part of the result."""
    flat = _flattened(And, terms)
    return flat[0] if len(flat) == 1 else And(flat)


def disjunction(terms: Iterable[Node]) -> Node:
    """Return the terms joined by OR; nested disjunctions become part of the result."""
    flat = _flattened(Or, terms)
    return flat[0] if len(flat) == 1 else Or(flat)


def _flattened(kind: type[And] | type[Or], terms: Iterable[Node]) -> tuple[Node, ...]:
    flat: list[Node] = []
    for term in terms:
        if isinstance(term, kind):
            flat.extend(term.terms)
        else:
            flat.append(term)
    return tuple(flat)


def children(node: Node) -> tuple[Node, ...]:
    """Return the operands of a node, in the order written."""
    match node:
        case Literal() | Field() | FieldOf() | Meets():
            return ()
        case (
            Signed(operand=operand) | Like(operand=operand) | IsNull(operand) | IsNaN(operand) | Not(operand)
        ):
            return (operand,)
        case Arithmetic(first, rest):
            return (first, *(operand for _, operand in rest))
        case Comparison(left=left, right=right):
            return (left, right)
        case Between(operand, low, high):
            return (operand, low, high)
        case In(operand, items) | Affixed(_, operand, items):
            return (operand, *items)
        case And(terms) | Or(terms):
            return terms
        case Call(arguments=arguments):
            return arguments


def rebuilt(node: Node, change: Callable[[Node], Node]) -> Node:
    """Return the node with `change` applied to each operand; a node without operands is returned unchanged."""
    match node:
        case Literal() | Field() | FieldOf() | Meets():
            return node
        case Signed() | Like() | IsNull() | IsNaN() | Not():
            return replace(node, operand=change(node.operand))
        case Arithmetic(first, rest):
            return Arithmetic(change(first), tuple((name, change(operand)) for name, operand in rest))
        case Comparison(name, left, right):
            return Comparison(name, change(left), change(right))
        case Between(operand, low, high):
            return Between(change(operand), change(low), change(high))
        case In() | Affixed():
            return replace(node, operand=change(node.operand), items=tuple(map(change, node.items)))
        case And(terms):
            # A changed term may be a conjunction itself. Two trees of one meaning would differ
            # (test_a_rebuilt_chain_is_flat).
            return conjunction(map(change, terms))
        case Or(terms):
            return disjunction(map(change, terms))
        case Call():
            return replace(node, arguments=tuple(map(change, node.arguments)))


def walk(node: Node) -> Iterator[Node]:
    """Yield the node and all nodes below it."""
    pending = [node]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(reversed(children(node)))


def parts_of(node: Node) -> int:
    """Return the number of nodes in a tree, without constants in lists."""
    return sum(1 for _ in _parts(node))


def paths_of(node: Node) -> frozenset[Path]:
    """Return the paths in a tree."""
    return frozenset(part.path for part in _parts(node) if isinstance(part, Field))


def _parts(node: Node) -> Iterator[Node]:
    """Yield the nodes of a tree, without constants in lists, of which there may be very many."""
    pending = [node]
    while pending:
        node = pending.pop()
        yield node
        if isinstance(node, In | Affixed):
            pending.append(node.operand)
            pending.extend(item for item in node.items if item.__class__ is not Literal)
        else:
            pending.extend(children(node))
