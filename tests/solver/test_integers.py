"""Bit-vectors and mathematical integers in the solver agree with the interpreter's NUMBERS."""

from __future__ import annotations

from random import Random

import pytest
import z3

from highwater.checker.engines.solver.terms import WIDE, Numbers, Translator, bits_of, is_wide
from highwater.model.language import graph
from highwater.model.language.graph import BITS, BOOL, INT, Node
from highwater.model.language.interpreter import compile_nodes
from highwater.model.language.types import Leaf

NUMBERS = Numbers()
HUGE = 1 << 60
RANGES = [
    (0, 0), (0, 1), (0, 6), (1, 5), (3, 3), (-1, 0), (-8, 7), (-9, 3), (-3, 9), (-6, -2), (-40, 40), (5, 300),
    (-1000, 1000), (0, (1 << WIDE) - 1), (0, HUGE), (-HUGE, HUGE), (-HUGE, 5),
]  # fmt: skip
"""Narrow and wide, signed and unsigned, filling their bits or not; more than 64 values and fewer."""


def leaf(low: int, high: int, sort: str = INT) -> Leaf:
    return Leaf(f"{low}..{high}", sort, low, high)


def edges(low: int, high: int) -> list[int]:
    """Values at and near the ends of an interval, and near 0."""
    near = {low, low + 1, high - 1, high, 0, 1, -1, 2, (low + high) // 2}
    return sorted(v for v in near if low <= v <= high)


def plain(term: z3.ExprRef, low: int) -> int:
    value = z3.simplify(term)
    if z3.is_bool(value):
        assert z3.is_true(value) or z3.is_false(value)
        return int(z3.is_true(value))
    return int(value.as_signed_long() if low < 0 and z3.is_bv(value) else value.as_long())


ranges = pytest.mark.parametrize("interval", RANGES, ids=lambda r: f"{r[0]}..{r[1]}")


@ranges
def test_an_interval_has_the_bits_that_it_needs(interval: tuple[int, int]) -> None:
    low, high = interval

    def fits(width: int) -> bool:
        first, end = (-(1 << width - 1), 1 << width - 1) if low < 0 else (0, 1 << width)
        return first <= low and high < end

    assert fits(bits_of(low, high))
    assert bits_of(low, high) < 3 or not fits(bits_of(low, high) - 2), "no more than one to spare"
    assert is_wide(low, high) == (high - low >= 1 << WIDE)
    assert NUMBERS.is_integer_leaf(leaf(low, high)) == is_wide(low, high)


@ranges
def test_the_conditions_of_a_type_are_met_by_its_values_alone(interval: tuple[int, int]) -> None:
    low, high = interval
    scalar = leaf(low, high)
    term = NUMBERS.variable("x", scalar)
    conditions = z3.And([z3.BoolVal(True), *NUMBERS.in_type(term, scalar)])
    width = bits_of(low, high)
    lowest, highest = (-(1 << width - 1), (1 << width - 1) - 1) if low < 0 else (0, (1 << width) - 1)
    if z3.is_int(term):
        lowest, highest = low - 2, high + 2
    for value in {low - 1, high + 1, lowest, highest, *edges(low, high)}:
        if low < high and lowest <= value <= highest:
            literal = z3.IntVal(value) if z3.is_int(term) else z3.BitVecVal(value, width)
            within = z3.simplify(z3.substitute(conditions, (term, literal)))
            assert z3.is_true(within) == (low <= value <= high), value
            assert z3.is_true(within) or z3.is_false(within)


@ranges
def test_a_value_that_the_solver_chose_is_read_back(interval: tuple[int, int]) -> None:
    scalar = leaf(*interval)
    term = NUMBERS.variable("x", scalar)
    for value in edges(*interval):
        solver = z3.Solver()
        solver.add(*NUMBERS.in_type(term, scalar), term == NUMBERS.literal(value, scalar))
        assert solver.check() == z3.sat
        assert NUMBERS.value(solver.model(), term, scalar) == value


def pairs() -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Each range with two others, and a wide range with ones that give a narrow result."""
    some = [(a, RANGES[(i * k + k) % len(RANGES)]) for i, a in enumerate(RANGES) for k in (3, 8)]
    return [*some, ((-HUGE, 5), (-1000, 1000)), ((0, HUGE), (-1000, 1000))]


def results(a: Node, b: Node, flag: Node, bits: Node) -> list[Node]:
    """Every operation on or to numbers, for two numbers, a condition and a set."""
    few = [graph.member(x, bits) for x in (a, b) if x.low >= 0 and x.high < 4]
    few += [graph.singleton(x, 4) for x in (a, b) if x.low >= 0 and x.high < 4]
    constants = [graph.const(v, INT) for x in (a, b) for v in {x.low, x.low + 1, x.high}]
    return [
        *few,
        graph.add(a, b), graph.sub(a, b), graph.min_(a, b), graph.max_(a, b), graph.select(flag, a, b),
        graph.eq(a, b), graph.lt(a, b), graph.lt(b, a), graph.add(a, graph.count(bits)),
        graph.lt(graph.count(bits), graph.select(flag, a, b)), graph.eq(graph.add(a, b), graph.sub(b, a)),
        graph.sub(graph.min_(a, b), graph.max_(a, graph.const(-1, INT))),
        *(graph.eq(x, c) for x in (a, b) for c in constants), *(graph.lt(c, a) for c in constants),
    ]  # fmt: skip


def test_operations_on_numbers_of_all_sizes() -> None:
    """Operands of different widths, signs and kinds; results written into a scalar of another width."""
    rng = Random(1)
    for first, second in pairs():
        leaves = [leaf(*first), leaf(*second), leaf(0, 1, BOOL), leaf(0, 15, BITS)]
        inputs = [graph.leaf(i, x.sort, x.low, x.high) for i, x in enumerate(leaves)]
        nodes = results(*inputs)
        variables = [NUMBERS.variable(f"x{i}", x) for i, x in enumerate(leaves)]
        translate = Translator(NUMBERS, variables)
        terms = [(n, n.low, translate(n)) for n in nodes]
        for node in nodes:
            if node.sort == INT:
                for wide in (leaf(node.low, node.high), leaf(node.low - 9, node.high + 1), leaf(-HUGE, HUGE)):
                    terms.append((node, wide.low, translate.scalar(node, wide)))
        whole = z3.Function("all", *(t.sort() for *_, t in terms), z3.BoolSort())(*(t for *_, t in terms))
        evaluate = compile_nodes([n for n, *_ in terms])
        for _ in range(3):
            state = [rng.choice(edges(x.low, x.high)) for x in leaves[:3]] + [rng.randint(0, 15)]
            literals = [NUMBERS.literal(v, x) for v, x in zip(state, leaves, strict=True)]
            fixed = [p for p in zip(variables, literals, strict=True) if not p[0].eq(p[1])]
            found = z3.simplify(z3.substitute(whole, *fixed)).children()
            expected = [int(v) for v in evaluate(state)]
            got = [plain(t, low) for (_, low, _), t in zip(terms, found, strict=True)]
            assert got == expected, (first, second, state)


def test_results_from_a_wide_number_are_mathematical_integers() -> None:
    """No intermediate result is truncated, even if the result's own interval is narrow."""
    wide, small = graph.leaf(0, INT, 0, HUGE), graph.leaf(1, INT, 0, 6)
    flag = graph.leaf(2, BOOL, 0, 1)
    for node in (
        graph.min_(wide, small),
        graph.select(flag, graph.min_(small, wide), small),
        graph.max_(graph.min_(wide, small), small),
        graph.add(graph.min_(wide, small), small),
        graph.sub(graph.min_(wide, small), small),
    ):
        assert NUMBERS.is_integer(node), node.op
    assert not NUMBERS.is_integer(graph.add(small, small))
    assert not NUMBERS.is_integer(graph.count(graph.leaf(3, BITS, 0, 7)))
