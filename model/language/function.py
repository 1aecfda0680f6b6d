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
from highwater.model.language.tracing import Checks, tracing
from highwater.model.language.types import Value

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

    A call raises LanguageError if an argument is not a value of its type. It raises BoundError if a result is outside
    its type or needs a division by zero.
    """

    def __init__(self, function: Callable[..., Any], **inputs: types.Type) -> None:
        self.name = function.__name__
        self.inputs = inputs
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
        for name, type_ in self.inputs.items():
            scalars += type_.encode(arguments[name])
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
