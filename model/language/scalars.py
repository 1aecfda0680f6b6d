"""The base classes of types and symbolic values, and the values of one scalar: conditions and numbers.

A type is a finite set of plain values with a fixed layout of scalars (leaves). A symbolic value is a type and a flat
tuple of scalar nodes. Operators build new nodes; no value ever changes. A value that is known while tracing behaves
like a plain value (``if``, ``int(...)``). For other values, ``if`` and ``int`` raise a LanguageError that names the
correct form.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, ClassVar, NoReturn

from highwater.model.language import any_size, graph, mutation
from highwater.model.language.errors import LanguageError, NoSuchAttribute, NotHashable, fail, meant, place
from highwater.model.language.graph import BOOL, INT, Leaf, Node, note

Hits = tuple[tuple[int, Node], ...]
"""The elements that a symbolic index can select: offset of the first scalar, and condition that it is selected."""


class Type:
    """The base class of all types."""

    is_counted = False
    """True if the values support arithmetic and ``<``: numbers and index values, but not members of an enumeration."""

    _written: ClassVar[str] = ""
    """How to write a value of the type, to append to an error message; "" if there is no hint."""

    next_class: ClassVar[type[Any] | None] = None
    """The subclass of ``state.Next`` for places of this type in ``s.next``; None: ``state.Next`` itself."""

    def goes_with(self, other: Type | None) -> bool:
        """True if this type allows comparisons with values of ``other``; None is the type of a computed number."""
        return self == other

    @cached_property
    def layout(self) -> list[Leaf]:
        """The scalars of a value of the type, in order, with paths from the value."""
        return self.leaves("")

    @property
    def leaf_count(self) -> int:
        """The number of scalars in a value of the type."""
        return len(self.layout)

    def leaves(self, path: str) -> list[Leaf]:
        """The scalars of a value of the type, in order; ``path`` is the value's path in the state."""
        raise NotImplementedError

    def wrap(self, nodes: Sequence[Node]) -> Any:
        """The symbolic value made of these nodes."""
        raise NotImplementedError

    def lift(self, plain: object) -> Any:
        """The symbolic value of this type for a plain value, or for a symbolic value of a compatible type.

        Raises LanguageError for any other value.
        """
        if isinstance(plain, Value) and plain.type is self:
            return plain
        found = zip(self.scalars(plain), self.layout, strict=True)
        return self.wrap([x if isinstance(x, Node) else graph.const(x, leaf.sort) for x, leaf in found])

    def scalars(self, plain: object) -> Sequence[int | Node]:
        """The scalars of the symbolic value that ``lift`` makes: numbers for the plain parts, nodes for the others.

        Raises LanguageError as ``lift`` does.
        """
        if not isinstance(plain, Value):
            return self._scalars(plain)
        if plain.type != self:
            raise self._wrong(plain)
        return plain.nodes

    def _scalars(self, plain: Any) -> Sequence[int | Node]:
        """The scalars of a value that is not symbolic as a whole, as ``scalars`` returns them."""
        raise NotImplementedError

    def decode(self, scalars: Sequence[int]) -> Any:
        """The plain value that has these scalars."""
        raise NotImplementedError

    def zero(self) -> Any:
        """The default value of the type, for a field that is not given."""
        raise NotImplementedError

    def encode(self, plain: object) -> tuple[int, ...]:
        """The scalars of a plain value. Raises LanguageError if the value is not of this type."""
        found = []
        for leaf, scalar in zip(self.layout, self.scalars(plain), strict=True):
            if isinstance(scalar, Node):
                if not scalar.is_const:
                    raise fail(f"{plain!r} is not a plain value")
                scalar = scalar.value
            if not leaf.low <= scalar <= leaf.high:
                raise fail(f"{scalar} is outside {leaf.low}..{leaf.high}{leaf.path and f' of {leaf.path}'}")
            found.append(int(scalar))
        return tuple(found)

    def constants(self) -> Iterator[Any]:
        """All values of the type as constants. Raises LanguageError if the type cannot be a parameter's domain."""
        raise fail(f"{self} cannot be enumerated; use an Index, Enum, Int, Bool, Set or Option of these")

    def _wrong(self, plain: object) -> Exception:
        shown = plain.describe() if isinstance(plain, Value) else repr(plain)
        return fail(f"expected {self}, not {shown}{self._written}")


def is_type(given: object, what: str) -> None:
    """Raises LanguageError if ``given`` is not a type; ``what`` names the enclosing type in the message."""
    if not isinstance(given, Type):
        raise fail(f"{what} needs a type, not {given!r}: write Bool, Int(low, high), an Index, …")


class Value:
    """The base of all symbolic values: a type (None for a computed number or bool) and the value's scalar nodes."""

    __slots__ = ("nodes", "type")
    nodes: tuple[Node, ...]
    type: Type | None
    _is_option: ClassVar[bool] = False

    def __init__(self, type: Type | None, nodes: tuple[Node, ...]) -> None:
        _put_type(self, type)
        _put_nodes(self, nodes)

    def __setattr__(self, name: str, value: object) -> None:
        """Raises LanguageError: symbolic values never change."""
        raise fail(f"values never change: write s.next.….{name} = …, or use .replace({name}=…)")

    def __eq__(self, other: object) -> Truth:  # type: ignore[override]
        """The condition that both values are equal; a plain Python value is lifted to this value's type."""
        return self._compared("==", other)

    def __ne__(self, other: object) -> Truth:  # type: ignore[override]
        return self._compared("!=", other)

    def _compared(self, sign: str, other: object) -> Truth:
        other_nodes = lift_like(self, other).nodes
        node = graph.all_(any_size.equal(self.nodes, other_nodes))
        if sign == "!=":
            node = graph.not_(node)
        if mutation.active is not None:
            (node,) = mutation.compared(sign, (node,), self.nodes, other_nodes, ordered=self._is_ordered)
        return Truth(None, (node,))

    @property
    def _is_ordered(self) -> bool:
        """True if ``<`` has a meaning for the value: for numbers, but not for members of an enumeration."""
        return False

    def in_(self, *values: object) -> Truth:
        """The condition that the value equals one of ``values``."""
        found = tuple((self == value).node for value in values)
        (joined,) = mutation.joined("in", (graph.any_(found),), found, graph.any_)
        return Truth(None, (joined,))

    def __hash__(self) -> int:
        """The plain value's hash. Raises NotHashable if the value is not known while tracing."""
        try:
            return hash(self._known("be looked up in a dict or a set: write any_of(x == i for i in …)"))
        except LanguageError as wrong:
            raise NotHashable(wrong.message, wrong.place) from None

    def __bool__(self) -> bool:
        """Raises LanguageError: only a bool that is known while tracing has a truth value."""
        raise fail(f"a {self.describe()} has no truth value; compare it first")

    def __iter__(self) -> Iterator[Any]:
        """Raises LanguageError: a loop must iterate over the index type, not over a symbolic value."""
        raise fail(
            f"a {self.describe()} cannot be iterated over; loop over its index type and ask for membership, "
            "or over range(n) and s.msgs.all(…)"
        )

    def __call__(self, *_: object, **__: object) -> NoReturn:
        """Raises LanguageError: a condition stands where a function is needed, such as in ``first(index, s.f)``."""
        raise fail(f"a {self.describe()} is no function: write lambda i: …, or no (…) after it")

    def __contains__(self, item: object) -> bool:
        """Raises LanguageError: Python converts the result of ``in`` to a plain bool."""
        raise fail(f"'in' cannot ask a {self.describe()}; write .has(x)")

    def __str__(self) -> str:
        """The plain value as text. Raises LanguageError if it is not known while tracing."""
        return format(self)

    def __format__(self, spec: str) -> str:
        """The plain value as text. Raises LanguageError if it is not known while tracing."""
        return format(
            self._known("become text: name guards by what is known, such as the action's parameters"), spec
        )

    def __repr__(self) -> str:
        """The kind of value, and the plain value if known, for error messages and debuggers."""
        known = all(n.is_const for n in self.nodes) and self.nodes
        return f"<{self.describe()} {self._plain()!r}>" if known else f"<{self.describe()}>"

    def _plain(self) -> Any:
        """The plain value. Raises LanguageError if it is not known while tracing."""
        if not all(n.is_const for n in self.nodes):
            raise fail(f"a {self.describe()} is not known while tracing")
        scalars = [n.value for n in self.nodes]
        if self.type is not None:
            return self.type.decode(scalars)
        return bool(scalars[0]) if self.nodes[0].sort == BOOL else scalars[0]

    def _known(self, cannot: str) -> Any:
        if not all(n.is_const for n in self.nodes):
            raise fail(f"a {self.describe()} is not known while tracing, so it cannot {cannot}")
        plain = self._plain()
        return repr(plain) if isinstance(plain, (list, dict)) else plain

    def _operator(self, symbol: str, other: object, *, first: bool = True) -> Any:
        """Raises LanguageError for an operator that this type lacks.

        With ``first`` this value stands before the operator, otherwise after it.
        """
        raise fail(f"{symbol} has no meaning for a {self.describe()}{self._instead(symbol, other)}")

    def _instead(self, symbol: str, other: object) -> str:
        """A hint to append to the error about this operator; "" if there is none."""
        return ""

    def describe(self) -> str:
        """The kind of value in words, for error messages."""
        return f"symbolic {self.type}" if self.type else "symbolic number"


_put_type, _put_nodes = Value.__dict__["type"].__set__, Value.__dict__["nodes"].__set__
"""Setters that bypass ``__setattr__``: millions of values are created."""


OPERATORS = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "divmod": "divmod()", "pow": "**",
    "matmul": "@", "lshift": "<<", "rshift": ">>", "and": "&", "or": "|", "xor": "^",
}  # fmt: skip
"""Python's binary operators: method name without underscores to symbol."""


COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}


UNARY = {"neg": "unary -", "pos": "unary +", "abs": "abs()", "invert": "~"}


def _refuse() -> None:
    """Define methods for the operators that Value lacks: they raise LanguageError with the protocol's line.

    The methods are set here and not written in the class, so that a type checker reports their use. Subclasses override
    the methods of operators that they support.
    """

    def binary(symbol: str) -> Callable[[Value, object], Any]:
        return lambda self, other: self._operator(symbol, other)

    def reflected(symbol: str) -> Callable[[Value, object], Any]:
        return lambda self, other: self._operator(symbol, other, first=False)

    def unary(symbol: str) -> Callable[[Value], Any]:
        return lambda self: self._operator(symbol, None)

    for name, symbol in OPERATORS.items():
        setattr(Value, f"__{name}__", binary(symbol))
        setattr(Value, f"__r{name}__", reflected(symbol))
    for name, symbol in COMPARISONS.items():
        setattr(Value, f"__{name}__", binary(symbol))
    for name, symbol in UNARY.items():
        setattr(Value, f"__{name}__", unary(symbol))

    def attribute(self: Value, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        known = [n for n in dir(self) if not n.startswith("_") and n not in ("nodes", "type", "describe")]
        hint = meant(name, known) or (f"; it has {', '.join(known)}" if known else "")
        if is_option(self):
            hint = "; under .is_some take its .value first"
        if name in ("size", "length", "count"):
            hint = "; write size(x)"
        raise NoSuchAttribute(f"a {self.describe()} has no {name!r}{hint}", place())

    def element(self: Value, index: object) -> Any:
        raise fail(f"a {self.describe()} has no elements to index")

    def assignment(self: Value, index: object, value: object) -> None:
        raise fail("values never change: write s.next.…[i] = …, or use .set(i, …) of an Array")

    def length(self: Value) -> int:
        raise fail(f"len() cannot count a {self.describe()}; write size(x)")

    for name, method in (
        ("getattr", attribute),
        ("getitem", element),
        ("setitem", assignment),
        ("len", length),
    ):
        setattr(Value, f"__{name}__", method)


_refuse()


_PRECEDENCE = "; & and | bind tighter than comparisons: put each comparison in parentheses"


class Truth(Value):
    """A symbolic condition, with ``&``, ``|`` and ``~``. It works in ``if`` only if it is known while tracing."""

    __slots__ = ()

    @property
    def node(self) -> Node:
        """The one scalar node of the truth value."""
        return self.nodes[0]

    def __bool__(self) -> bool:
        """The plain bool. Raises LanguageError if the value is not known while tracing."""
        if self.node.is_const:
            return bool(self.node.value)
        raise fail(
            "a symbolic value cannot decide an 'if', 'and', 'or', 'not' or chained comparison; "
            "write where(condition, a, b), or combine with &, |, ~ (for min and max: least, greatest)"
        )

    def __and__(self, other: Truth | bool) -> Truth:
        second = _operand("&", other).node
        if isinstance(other, bool):  # a rule's switch, for which there are no mutants
            return Truth(None, (graph.and_(self.node, second),))
        return Truth(None, (mutation.binary("and", graph.and_, self.node, second),))

    def __or__(self, other: Truth | bool) -> Truth:
        second = _operand("|", other).node
        if isinstance(other, bool):
            return Truth(None, (graph.or_(self.node, second),))
        return Truth(None, (mutation.binary("or", graph.or_, self.node, second),))

    def __invert__(self) -> Truth:
        negated = (graph.not_(self.node),)
        return Truth(None, mutation.offered("operation", negated, {"~: dropped": lambda: self.nodes}))

    __rand__ = __and__
    __ror__ = __or__

    def __xor__(self, other: Truth | bool) -> Truth:
        return self != _operand("^", other)

    __rxor__ = __xor__

    def _instead(self, symbol: str, other: object) -> str:
        return ": write where(condition, a, b), or total(conditions) to count those that hold"

    def describe(self) -> str:
        """The kind of value in words, for error messages."""
        return "symbolic bool"


class Number(Value):
    """A symbolic whole number, index value or member of an enumeration."""

    __slots__ = ()

    @property
    def node(self) -> Node:
        """The one scalar node of the number."""
        return self.nodes[0]

    @property
    def _is_ordered(self) -> bool:
        return self.type is None or self.type.is_counted

    def _other(self, other: object) -> Node:
        return lift_like(self, other).nodes[0]

    def _term(self, symbol: str, other: object) -> Node:
        """The node of the other operand of an arithmetic operator.

        Raises LanguageError if this value is a member of an enumeration.
        """
        if self.type is not None and not self.type.is_counted:
            raise fail(f"{symbol} has no meaning for a {self.describe()}: its values are names, not numbers")
        return self._other(other)

    def __add__(self, other: Number | int) -> Number:
        """The sum of the two numbers. Numbers do not wrap around."""
        return Number(None, (mutation.binary("+", graph.add, self.node, self._term("+", other)),))

    def __sub__(self, other: Number | int) -> Number:
        return Number(None, (mutation.binary("-", graph.sub, self.node, self._term("-", other)),))

    def __rsub__(self, other: int) -> Number:
        return Number(None, (graph.sub(self._term("-", other), self.node),))

    def __neg__(self) -> Number:
        return 0 - self

    def __mul__(self, other: Number | int) -> Number:
        """The product of the two numbers. Numbers do not wrap around."""
        return Number(None, (mutation.binary("*", graph.mul, self.node, self._term("*", other)),))

    def __floordiv__(self, other: Number | int) -> Number:
        """This number divided by the other number, rounded down.

        A step that divides by zero is an error; a property that divides by zero fails.
        """
        return _divided("//", self.node, self._term("//", other))

    def __rfloordiv__(self, other: int) -> Number:
        return _divided("//", self._term("//", other), self.node)

    def __mod__(self, other: Number | int) -> Number:
        """The remainder of ``//``, with the divisor's sign. For the divisor 0 see ``//``."""
        return _divided("%", self.node, self._term("%", other))

    def __rmod__(self, other: int) -> Number:
        return _divided("%", self._term("%", other), self.node)

    def _instead(self, symbol: str, other: object) -> str:
        if symbol in "&|^~":
            return _PRECEDENCE
        quotient = ": write // for the quotient rounded down, and % for the rest"
        return {"/": quotient, "divmod()": quotient, "**": ": write a product, x * x"}.get(symbol, "")

    def __lt__(self, other: Number | int) -> Truth:
        return Truth(None, (mutation.binary("<", graph.lt, self.node, self._other(other)),))

    def __le__(self, other: Number | int) -> Truth:
        return Truth(None, (mutation.binary("<=", graph.le, self.node, self._other(other)),))

    def __gt__(self, other: Number | int) -> Truth:
        return Truth(None, (mutation.binary(">", mutation.greater, self.node, self._other(other)),))

    def __ge__(self, other: Number | int) -> Truth:
        return Truth(None, (mutation.binary(">=", mutation.greater_or_equal, self.node, self._other(other)),))

    __radd__, __rmul__ = __add__, __mul__

    def __index__(self) -> int:
        """The plain number. Raises LanguageError if it is not known while tracing."""
        if self.node.is_const:
            return self.node.value
        raise fail(
            f"a {self.describe()} is not known while tracing; compare it, index an Array or Seq with it, or loop over "
            "all its values i and write where(x == i, …)"
        )

    __int__ = __index__


def _divided(symbol: str, number: Node, by: Node) -> Number:
    node = (graph.floordiv if symbol == "//" else graph.mod)(number, by)
    return Number(None, (note(node, place()),))


def as_bool(value: object) -> Truth:
    """The symbolic bool for a symbolic or plain bool. Raises LanguageError for any other value."""
    if isinstance(value, Truth):
        return value
    if isinstance(value, bool):
        return Truth(None, (graph.truth(value),))
    written = ": call it, (…)" if callable(value) else ": write True or False, or a comparison"
    raise fail(f"expected a bool, not {value!r}{written}")


def _operand(symbol: str, value: object) -> Truth:
    """The other operand of ``&``, ``|`` or ``^`` as a symbolic bool. Raises LanguageError if it is no condition."""
    if isinstance(value, (Truth, bool)):
        return as_bool(value)
    raise fail(f"{symbol} combines conditions, not {value!r}{_PRECEDENCE}")


def is_option(value: object) -> bool:
    """True if a value is a symbolic Option."""
    return isinstance(value, Value) and value._is_option


def lift_like(like: Value, other: object) -> Value:
    """The value ``other`` as a symbolic value that can be combined with ``like``.

    Raises LanguageError if the types do not fit, such as members of different enumerations.
    """
    if isinstance(other, Value):
        if type(like) is type(other) and like.type is other.type:
            return other
        if isinstance(like, Number) and isinstance(other, Number):
            if like.type is not other.type and not of_one_kind(like.type, other.type):
                raise _apart(like, other)
            return other
        if like._is_option and like.type is not None:
            return like.type.lift(other)
        if is_option(other):
            raise fail("an Option is compared with .is_(x), or its .value is taken under .is_some")
        if type(like) is not type(other) or (not isinstance(like, Truth) and like.type != other.type):
            raise _apart(like, other)
        return other
    if like.type is not None:
        if (
            isinstance(like, Number)
            and like.type.is_counted
            and isinstance(other, int)
            and not isinstance(other, bool)
        ):
            return Number(None, (graph.const(other, INT),))
        return like.type.lift(other)
    if isinstance(like, Truth):
        return as_bool(other)
    if isinstance(other, int) and not isinstance(other, bool):
        return Number(None, (graph.const(other, INT),))
    raise fail(f"expected a number, not {other!r}")


def _apart(like: Value, other: Value) -> LanguageError:
    written = getattr(like.type, "_written", "")
    return fail(f"a {like.describe()} and a {other.describe()} do not go together{written}")


def of_one_kind(a: Type | None, b: Type | None) -> bool:
    """True if numbers of the two types can be compared.

    A member of an enumeration can be compared only with members of the same enumeration.
    """
    return (a is None or a.goes_with(b)) and (b is None or b.goes_with(a))


# Choose one of several values by a condition; join conditions; find the least and the greatest number.


def where(condition: Truth | bool, yes: Any, no: Any) -> Any:
    """The value ``yes`` if the condition holds, else ``no``: a symbolic ``if``.

    The types of the two values must be equal, or both number types that can be compared.
    """
    condition = as_bool(condition)
    if not isinstance(yes, Value) and not isinstance(no, Value):
        yes = _plain(yes)
    if is_option(yes) and is_option(no) and yes.type != no.type:
        raise fail(f"where() cannot choose between a {yes.describe()} and a {no.describe()}")
    if not isinstance(yes, Value) or (is_option(no) and not is_option(yes)):
        yes = lift_like(no, yes)
    no = lift_like(yes, no)
    nodes = graph.selected(condition.node, yes.nodes, no.nodes)
    if mutation.active is not None and not condition.node.is_const:
        nodes = mutation.branched(condition.node, nodes, yes.nodes, no.nodes)
    if isinstance(yes, (Truth, Number)):
        return type(yes)(yes.type if yes.type == no.type else None, nodes)
    if yes.type != no.type:
        raise fail(f"where() cannot choose between a {yes.describe()} and a {no.describe()}")
    return yes.type.wrap(nodes)


def cases(*choices: tuple[Truth | bool, Any], otherwise: Any) -> Any:
    """A symbolic ``if … elif … else``: the value of the first choice whose condition holds, else ``otherwise``."""
    result = _first_that_holds(choices, otherwise)
    if mutation.active is None or not isinstance(result, Value):
        return result
    kind: Any = result.type.wrap if result.type is not None else functools.partial(type(result), None)

    def without(number: int) -> tuple[Node, ...]:
        rest = choices[:number] + choices[number + 1 :]
        return lift_like(result, _first_that_holds(rest, otherwise)).nodes

    others = {f"case {i + 1} dropped": functools.partial(without, i) for i in range(len(choices))}
    return kind(mutation.offered("branch", result.nodes, others))


def _first_that_holds(choices: tuple[tuple[Truth | bool, Any], ...], otherwise: Any) -> Any:
    given = [*(value for _, value in choices), otherwise]
    symbolic = [v for v in given if isinstance(v, Value)]
    options = [v for v in symbolic if is_option(v)]
    result = otherwise
    if symbolic and not isinstance(otherwise, Value):
        result = lift_like((options or symbolic)[0], otherwise)
    for condition, value in reversed(choices):
        result = where(condition, value, result)
    return result


def _plain(value: object) -> Value:
    if isinstance(value, bool):
        return as_bool(value)
    if isinstance(value, int):
        return Number(None, (graph.const(value, INT),))
    written = (
        f"T.{value} for a member of the Enum T"
        if isinstance(value, str)
        else f"T.lift({value!r}) with its type T"
    )
    raise fail(f"{value!r} does not show its type: write {written}")


def choose(index: Node, items: list[Any], element: Type) -> Any:
    """The item at a symbolic position; the element type's zero if the position is outside the list."""
    if index.is_const:
        return items[index.value] if 0 <= index.value < len(items) else element.zero()
    exact = index.low >= 0 and index.high < len(items)
    result = items[-1] if exact else element.zero()
    for i in range(len(items) - (2 if exact else 1), -1, -1):
        if index.low <= i <= index.high:
            result = where(Truth(None, (graph.eq(index, graph.const(i, INT)),)), items[i], result)
    return result


def all_of(items: Iterable[Truth | bool]) -> Truth:
    """The condition that all items hold; true if there are none."""
    return _joined("all of", graph.all_, items, {"all of: any of": graph.any_})


def any_of(items: Iterable[Truth | bool]) -> Truth:
    """The condition that at least one item holds; false if there are none."""
    return _joined("any of", graph.any_, items, {"any of: all of": graph.all_})


def _joined(
    word: str,
    join: Callable[[Iterable[Node]], Node],
    items: Iterable[Truth | bool],
    wrong: dict[str, Callable[[Iterable[Node]], Node]],
) -> Truth:
    """Join conditions by ``all_of`` or ``any_of``, with mutants that are named after the operation ``word``.

    If the conditions are a list, each mutant drops one condition. Otherwise each mutant joins the conditions by a
    function in ``wrong``.
    """
    if isinstance(items, Value):
        raise fail(f"{word.replace(' ', '_')}() takes a list: write [a, b], or … for i in index")
    node, nodes = any_size.joined(join, items, lambda i: as_bool(i).node)
    condition: tuple[Node, ...] = (node,)
    if mutation.active is not None:
        if isinstance(items, (list, tuple)):
            condition = mutation.joined(word, condition, nodes, join, depth=3)
        else:
            others = {change: (lambda other=other: (other(nodes),)) for change, other in wrong.items()}
            condition = mutation.offered("operation", condition, others, depth=3)
    return Truth(None, condition)


def total(items: Iterable[Truth]) -> Number:
    """The number of conditions that hold."""
    one, zero = graph.const(1, INT), graph.const(0, INT)
    result = zero
    for item in items:
        result = graph.add(result, graph.select(as_bool(item).node, one, zero))
    return Number(None, (result,))


def least(first: Number | int, *others: Number | int) -> Number:
    """The least of the numbers."""
    return _fold("least", graph.min_, first, others)


def greatest(first: Number | int, *others: Number | int) -> Number:
    """The greatest of the numbers."""
    return _fold("greatest", graph.max_, first, others)


def _fold(word: str, op: Any, first: Number | int, others: tuple[Number | int, ...]) -> Number:
    items = [i if isinstance(i, Value) else _plain(i) for i in (first, *others)]
    for item in items:
        if not isinstance(item, Number) or (item.type is not None and not item.type.is_counted):
            raise fail(f"least(), greatest() and least_by() compare numbers, not {item!r}")
    node = items[0].nodes[0]
    for item in items[1:]:
        lift_like(items[0], item)
        node = mutation.binary(word, op, node, item.nodes[0], depth=3)
    return Number(None, (node,))
