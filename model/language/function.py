"""Functions of a protocol on plain values: traced once on symbolic inputs, then evaluated without tracing.

A protocol's rules are Python functions over symbolic values. A Function makes a rule usable outside of a search, for
example to replay a system's actions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from highwater.model.language import graph, types
from highwater.model.language.errors import BoundError, LanguageError
from highwater.model.language.graph import BOOL, Node, compile_nodes, undefined_any
from highwater.model.language.messages import MessageKind
from highwater.model.language.tracing import Checks, tracing
from highwater.model.language.values import Value

Encoder = Callable[[Any, list[int]], None]
"""Appends the scalars of a plain value to a list; raises ValueError if the type does not contain the value."""

Decoder = Callable[[Sequence[int]], Any]


@dataclass(frozen=True)
class ChecksVerdict:
    """The evaluated result of ``Checks``: the answer, and the names of failed and of passed checks, in order."""

    answer: Any
    refused_by: tuple[str, ...]
    passed: tuple[str, ...]


class Function:
    """A function of symbolic values, turned into a function of plain values.

    ``inputs`` maps the name of each argument to its type. The function may return a symbolic value, Checks, a plain
    value, or a mapping from names to such results. A call returns the result as plain values; Checks become a
    ChecksVerdict. ``size`` is the number of nodes of the function's graph. Calls of ``require`` are ignored.

    A call raises ValueError if an argument is not a value of its type. It raises BoundError if a result is outside its
    type or needs a division by zero.
    """

    def __init__(self, function: Callable[..., Any], **inputs: types.Type) -> None:
        self.name = function.__name__
        self.inputs = inputs
        self._encoders = {name: encoder(type_) for name, type_ in inputs.items()}
        arguments, leaf = {}, 0
        for name, type_ in inputs.items():
            leaves = type_.leaves(name)
            nodes = [graph.leaf(leaf + i, x.sort, x.low, x.high) for i, x in enumerate(leaves)]
            arguments[name] = type_.wrap(nodes)
            leaf += len(leaves)
        with tracing() as trace:
            returned = function(**arguments)
        if trace.writes:
            raise LanguageError(f"function {self.name} writes s.next; it returns its result instead")
        self._roots: list[Node] = []
        self._bounds: list[tuple[int, types.Leaf]] = []
        self._decode = self._result(returned)
        self.size = len(graph.reachable(self._roots))
        without = undefined_any(self._roots)
        self._divides = None if without is graph.FALSE else self._add([without])
        self._evaluate = compile_nodes(self._roots)

    def __call__(self, **arguments: Any) -> Any:
        """Evaluate the function on plain values, given by argument name."""
        scalars: list[int] = []
        for name, encode in self._encoders.items():
            encode(arguments[name], scalars)
        results = self._evaluate(scalars)
        if self._divides is not None and results[self._divides]:
            raise BoundError(f"{self.name}: // or % by zero")
        for position, leaf in self._bounds:
            value = int(results[position])
            if not leaf.low <= value <= leaf.high:
                raise BoundError(
                    f"{self.name}: {leaf.path or 'the result'} leaves {leaf.low}..{leaf.high}: {value}"
                )
        return self._decode(results)

    def _result(self, returned: Any) -> Decoder:
        if isinstance(returned, Value):
            return self._value(returned)
        if isinstance(returned, Checks):
            answer = self._result(returned.answer)
            names = [c.name for c in returned]
            start = self._add([c.holds.node for c in returned])

            def verdict(results: Sequence[int]) -> ChecksVerdict:
                held = results[start : start + len(names)]
                refused = tuple(n for n, h in zip(names, held, strict=True) if not h)
                passed = tuple(n for n, h in zip(names, held, strict=True) if h)
                return ChecksVerdict(answer(results), refused, passed)

            return verdict
        if isinstance(returned, Mapping):
            parts = {name: self._result(part) for name, part in returned.items()}
            return lambda results: {name: decode(results) for name, decode in parts.items()}
        return lambda results: returned

    def _value(self, value: Value) -> Decoder:
        start = self._add(list(value.nodes))
        end = start + len(value.nodes)
        type_ = value.type
        if type_ is None:
            convert: Callable[[int], Any] = bool if value.nodes[0].sort == BOOL else int
            return lambda results: convert(results[start])
        for i, (leaf, node) in enumerate(zip(type_.leaves(""), value.nodes, strict=True)):
            if node.low < leaf.low or node.high > leaf.high:
                self._bounds.append((start + i, leaf))
        return lambda results: type_.decode(results[start:end])

    def _add(self, nodes: list[Node]) -> int:
        start = len(self._roots)
        self._roots += nodes
        return start


def encoder(type: types.Type) -> Encoder:
    """A function that appends the scalars of a plain value of this type to a list, without creating graph nodes."""
    if isinstance(type, MessageKind):
        return _messages(type)
    if isinstance(type, types.BoolType):
        return _bool
    if isinstance(type, types.Enum):
        return _enum(type)
    if isinstance(type, types.NumberType):
        return _number(type)
    if isinstance(type, types.Set):
        return _set(type)
    if isinstance(type, types.Option):
        return _option(type)
    if isinstance(type, types.Array):
        return _array(type)
    if isinstance(type, types.Struct):
        return _struct(type)
    if isinstance(type, types.Seq):
        return _seq(type)
    raise LanguageError(f"{type} cannot be an input of a function")


def _bool(plain: Any, scalars: list[int]) -> None:
    if not isinstance(plain, bool):
        raise ValueError(f"{plain!r} is not a Bool")
    scalars.append(plain)


def _enum(type: types.Enum) -> Encoder:
    numbers = {name: i for i, name in enumerate(type.members)}

    def encode(plain: Any, scalars: list[int]) -> None:
        if not isinstance(plain, str) or plain not in numbers:
            raise ValueError(f"{plain!r} is not a member of {type}")
        scalars.append(numbers[plain])

    return encode


def _number(type: types.NumberType) -> Encoder:
    low, high = type.low, type.high

    def encode(plain: Any, scalars: list[int]) -> None:
        if plain.__class__ is not int or not low <= plain <= high:
            raise ValueError(f"{plain!r} is not a value of {type}")
        scalars.append(plain)

    return encode


def _set(type: types.Set) -> Encoder:
    inner = encoder(type.index)

    def encode(plain: Any, scalars: list[int]) -> None:
        bits = 0
        for item in plain:
            number: list[int] = []
            inner(item, number)
            bits |= 1 << number[0]
        scalars.append(bits)

    return encode


def _option(type: types.Option) -> Encoder:
    inner = encoder(type.content_type)
    none = [n.value for n in type.none().nodes]
    flag = len(none) > 1 or not isinstance(type.content_type, types.NumberType)

    def encode(plain: Any, scalars: list[int]) -> None:
        if plain is None:
            scalars.extend(none)
            return
        if flag:
            scalars.append(1)
        inner(plain, scalars)

    return encode


def _array(type: types.Array) -> Encoder:
    inner, size = encoder(type.element), type.index.size
    names = type.index.members if isinstance(type.index, types.Enum) else ()

    def encode(plain: Any, scalars: list[int]) -> None:
        if names and isinstance(plain, Mapping):
            if set(plain) != set(names):
                raise ValueError(f"{type} has the elements {', '.join(names)}")
            plain = [plain[name] for name in names]
        if len(plain) != size:
            raise ValueError(f"{type} has {size} elements, not {len(plain)}")
        for item in plain:
            inner(item, scalars)

    return encode


def _messages(type: MessageKind) -> Encoder:
    def encode(plain: Any, scalars: list[int]) -> None:
        try:
            scalars.extend(type.encode(plain))
        except LanguageError as wrong:
            raise ValueError(wrong.message) from None

    return encode


def _struct(type: types.Struct) -> Encoder:
    fields = [(name, encoder(t)) for name, t in type.fields.items()]

    def encode(plain: Any, scalars: list[int]) -> None:
        for name, inner in fields:
            if name not in plain:
                raise ValueError(f"{type} needs {name}")
            inner(plain[name], scalars)

    return encode


def _seq(type: types.Seq) -> Encoder:
    inner = encoder(type.element)
    padding = [n.value for n in type.element.zero().nodes]

    def encode(plain: Any, scalars: list[int]) -> None:
        if len(plain) > type.maximum:
            raise ValueError(f"{type} cannot hold {len(plain)} elements")
        scalars.append(len(plain))
        for item in plain:
            inner(item, scalars)
        scalars.extend(padding * (type.maximum - len(plain)))

    return encode
