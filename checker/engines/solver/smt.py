"""Proof obligations about an index of any size, as SMT-LIB text.

The size N is an integer constant, and an index value an integer from 0 to N − 1. A set is a predicate, an array a
function. A count is an integer constant about which only ``_FACTS`` are known, and so is the first member of a set in
an order. Every fact is true of finite sets, so an obligation that a solver proves holds for every N.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from highwater.model.language import graph
from highwater.model.language.any_size import MAP, ORDER, free, is_variable
from highwater.model.language.graph import BITS, BOOL, EMPTY, Leaf, Node

ATTEMPTS = ((0,), 1.5), ((0, 2), 3.0), ((0, 1), 3.0), ((0,), 10.0), ((0, 1, 2), 60.0)
"""The groups of facts about counts that a solver gets, each with the most seconds: with fewer facts it is often faster.

0: a subset has no more members; 1: sets of at most one member; 2: a subset with as many members is the whole set.
"""


@dataclass(frozen=True)
class Obligation:
    """A statement to prove: if the premises hold, then the conclusion.

    ``number`` tells the obligations of one action and property apart: one for each instance and part of the property.
    """

    action: str
    property: str
    number: int
    lines: tuple[str, ...]
    facts: tuple[tuple[str, int], ...]
    """Facts about counts, each with its group (``ATTEMPTS``)."""

    @cached_property
    def name(self) -> str:
        """The name of the obligation's file, without its ending."""
        return f"{self.action}-{self.property}-{self.number}"

    def text(self, groups: Sequence[int] = ATTEMPTS[-1][0]) -> str:
        """The SMT-LIB text that asks a solver for a counterexample, with the facts of these groups."""
        facts = [f"(assert {fact})" for fact, own in self.facts if own in groups]
        return "\n".join([*self.lines, *facts, "(check-sat)", ""])


class Script:
    """The SMT-LIB text of one obligation.

    ``leaves``: the scalars of the state and of the parameters, by their input number. ``size`` is the stand-in of the
    index's size in the graph.
    """

    def __init__(self, leaves: dict[int, Leaf], size: int) -> None:
        self.leaves, self.size = leaves, size
        self._full = (1 << size) - 1
        self._names: dict[Node, str] = {}
        self._variables: dict[Node, str] = {}
        self._lines: list[str] = []
        self._counts: dict[Node, str] = {}
        self._firsts: dict[Node, str] = {}

    def obligation(
        self, action: str, name: str, number: int, premises: Iterable[Node], conclusion: Node
    ) -> Obligation:
        """The obligation that the premises imply the conclusion."""
        hold = [self._term(p) for p in premises]
        wrong = self._term(conclusion)
        facts = tuple(self._count_facts())
        asserted = [*self._first_facts(), *hold, f"(not {wrong})"]
        lines = [
            f"; {action}: {name}",
            "(set-logic ALL)",
            "(declare-const N Int)",
            "(assert (<= 1 N))",
            *self._declarations(),
            *self._lines,
            *(f"(assert {c})" for c in asserted),
        ]
        return Obligation(action, name, number, tuple(lines), facts)

    # --- inputs ---------------------------------------------------------------------------------------------

    def _declarations(self) -> Iterator[str]:
        """The declarations of all inputs, and the axioms of their types."""
        for number, leaf in self.leaves.items():
            if leaf.sort == ORDER or leaf.low == leaf.high:
                continue
            name, sort = f"s{number}", leaf.sort.removeprefix(MAP)
            argument = "(Int)" if self._is_function(leaf.sort) else "()"
            yield f"(declare-fun {name} {argument} {'Int' if sort == graph.INT else 'Bool'}) ; {leaf.path}"
            if leaf.sort == BITS:
                if leaf.high != self._full:
                    raise NotImplementedError(f"{leaf.path} is a set of something else")
                yield f"(assert (forall ((x Int)) (! (=> ({name} x) {_in_range('x')}) :pattern (({name} x)))))"
            elif leaf.sort == graph.INT:
                yield f"(assert (<= {self._number(leaf.low)} {name} {self._number(leaf.high)}))"
            elif sort == graph.INT:
                limits = f"(<= {self._number(leaf.low)} ({name} x) {self._number(leaf.high)})"
                yield f"(assert (forall ((x Int)) (! (=> {_in_range('x')} {limits}) :pattern (({name} x)))))"

    @staticmethod
    def _is_function(sort: str) -> bool:
        return sort == BITS or sort.startswith(MAP)

    def _number(self, value: int) -> str:
        """A constant. Constants near the stand-in are relative to the size."""
        if self.size - 2 <= value <= self.size + 1:
            offset = value - self.size
            return "N" if not offset else f"(+ N {offset})" if offset > 0 else f"(- N {-offset})"
        return str(value) if value >= 0 else f"(- {-value})"

    # --- terms ----------------------------------------------------------------------------------------------

    def _term(self, root: Node, argument: str = "") -> str:
        """The term of a scalar, or of a set's or function's value for ``argument``."""
        for node in graph.reachable([root]):
            if node not in self._names:
                self._names[node] = self._define(node)
        return self._use(root, argument)

    def _use(self, node: Node, argument: str = "") -> str:
        """The term of a node whose definition is known."""
        if node.is_const:
            return self._constant(node, argument)
        name = self._names[node]
        arguments = [] if node.op == "input" else [self._variables[v] for v in _in_order(node)]
        if self._is_function(node.sort):
            arguments.append(argument)
        return f"({' '.join([name, *arguments])})" if arguments else name

    def _constant(self, node: Node, argument: str) -> str:
        if node.sort == BITS:
            if node is EMPTY:
                return "false"
            if node.value == self._full:
                return _in_range(argument)
            return f"(or false {' '.join(f'(= {argument} {i})' for i in range(self.size) if node.value >> i & 1)})"
        if node.sort.removeprefix(MAP) == BOOL:
            return "true" if node.value else "false"
        return self._number(node.value)

    def _define(self, node: Node) -> str:
        """Define a node, and return its name."""
        if node.is_const:
            return ""
        if is_variable(node):
            self._variables[node] = f"v{len(self._variables)}"
            return self._variables[node]
        if node.op == "input":
            return f"s{node.value}"
        if node.sort == ORDER:
            return "?"
        name = f"n{len(self._names)}"
        if node.op == "agree":
            self._lines.append(f"(declare-const {name} Bool)")
            return name
        if node.op in ("count", "first"):
            table = self._counts if node.op == "count" else self._firsts
            table[node] = name
            self._lines.append(f"(declare-const {name} Int)")
            return name
        parameters = [self._variables[v] for v in _in_order(node)]
        parameters += ["x"] * self._is_function(node.sort)
        declared = " ".join(f"({p} Int)" for p in parameters)
        sort = "Int" if node.sort.removeprefix(MAP) == graph.INT else "Bool"
        self._lines.append(f"(define-fun {name} ({declared}) {sort} {self._body(node)})")
        return name

    def _body(self, node: Node) -> str:
        args, use = node.args, self._use
        if node.op in _PLAIN:
            return f"({_PLAIN[node.op]} {' '.join(use(a, 'x') for a in args)})"
        match node.op:
            case "eq":
                return self._equal(*args)
            case "exists":
                v = self._variables[args[0]]
                return f"(exists (({v} Int)) (and {_in_range(v)} {use(args[1])}))"
            case "those" | "each":
                v = self._variables[args[0]]
                body = f"(let (({v} x)) {use(args[1])})"
                return f"(and {_in_range('x')} {body})" if node.op == "those" else body
            case "member" | "get":
                index, of = args if node.op == "member" else args[::-1]
                return use(of, use(index))
            case "put":
                return f"(ite (= x {use(args[1])}) {use(args[2])} {use(args[0], 'x')})"
            case "singleton":
                return f"(= x {use(args[0])})"
            case "difference":
                return f"(and {use(args[0], 'x')} (not {use(args[1], 'x')}))"
            case "min" | "max":
                a, b = map(use, args)
                return f"(ite (< {a} {b}) {a} {b})" if node.op == "min" else f"(ite (< {a} {b}) {b} {a})"
        raise NotImplementedError(node.op)

    def _equal(self, a: Node, b: Node) -> str:
        if self._is_function(a.sort):
            x, y = self._use(a, "x"), self._use(b, "x")
            return f"(forall ((x Int)) (=> {_in_range('x')} (= {x} {y})))"
        return f"(= {self._use(a)} {self._use(b)})"

    # --- facts about finite sets ------------------------------------------------------------------------------

    def _count_facts(self) -> Iterator[tuple[str, int]]:
        """The facts about counts. All finite sets satisfy them."""
        sets = [(name, node.args[0]) for node, name in self._counts.items()]
        for c, s in sets:
            x, y = self._term(s, "x"), self._term(s, "y")
            yield f"(<= 0 {c} N)", 0
            yield f"(= (= {c} 0) (forall ((x Int)) (not {x})))", 0
            yield f"(= (<= {c} 1) (forall ((x Int) (y Int)) (=> (and {x} {y}) (= x y))))", 1
        for (c, s), (d, t) in itertools.permutations(sets, 2):
            x, y = self._term(s, "x"), self._term(t, "x")
            subset = f"(forall ((x Int)) (=> {x} {y}))"
            yield f"(=> {subset} (<= {c} {d}))", 0
            yield f"(=> (and {subset} (= {c} {d})) (forall ((x Int)) (=> {y} {x})))", 2

    def _first_facts(self) -> Iterator[str]:
        """The facts about the first member of a set in an order, which is total."""
        found = list(self._firsts.items())
        for node, name in found:
            yield _in_range(name)
            yield f"(=> (exists ((x Int)) {self._term(node.args[1], 'x')}) {self._term(node.args[1], name)})"
        for (a, c), (b, d) in itertools.permutations(found, 2):
            if a.args[0] is b.args[0]:
                x, y = self._term(b.args[1], "x"), self._term(a.args[1], "x")
                subset = f"(forall ((x Int)) (=> {x} {y}))"
                yield f"(=> (and {subset} {self._term(b.args[1], c)}) (= {c} {d}))"


def _in_range(x: str) -> str:
    return f"(and (<= 0 {x}) (< {x} N))"


def _in_order(node: Node) -> Sequence[Node]:
    return sorted(free(node), key=lambda v: v.value)


_PLAIN = {
    "not": "not", "and": "and", "or": "or", "lt": "<", "add": "+", "sub": "-", "mul": "*", "select": "ite",
    "union": "or", "intersection": "and",
}  # fmt: skip
"""Operations that SMT-LIB has, pointwise for sets and functions."""
