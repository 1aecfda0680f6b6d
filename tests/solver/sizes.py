"""A trace for any size, at a fixed size: the same expressions as the model's, which a solver compares."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import z3

from highwater.checker.engines.solver.any_size import OpenTrace
from highwater.checker.engines.solver.terms import Numbers, Translator
from highwater.model.language import Model, graph
from highwater.model.language.any_size import MAP, ORDER, free, is_variable
from highwater.model.language.containers import is_distinct, members_of
from highwater.model.language.graph import BITS, INT, Node, made_of
from highwater.model.language.types import Array, Option, Seq, SeqValue, Set, Struct, Type, Value


class AtSize:
    """The expressions of a trace at one size. ``scalars`` has a value for each input: a node, a list or a sequence."""

    def __init__(self, trace_size: int, size: int, scalars: dict[int, Any]) -> None:
        self.stand_in, self.size, self.scalars = trace_size, size, dict(scalars)

    def __call__(self, node: Node) -> Any:
        known: dict[tuple[Node, tuple[int, ...]], Any] = {}
        return self._at(node, {}, known)

    def _at(self, node: Node, bound: dict[Node, int], known: dict[Any, Any]) -> Any:
        key = node, tuple(bound[v] for v in sorted(free(node), key=lambda v: v.id))
        if key not in known:
            known[key] = self._made(node, bound, known)
        return known[key]

    def _made(self, node: Node, bound: dict[Node, int], known: dict[Any, Any]) -> Any:
        if is_variable(node):
            return graph.const(bound[node], INT)
        if node.op == "input":
            return self.scalars[node.value]
        if node.is_const:
            return self._constant(node)
        if node.op in ("exists", "those", "each"):
            v, body = node.args
            each = [self._at(body, {**bound, v: i}, known) for i in range(self.size)]
            if node.op == "each":
                return each
            if node.op == "exists":
                return graph.any_(each)
            bits = [graph.select(c, graph.const(1 << i, BITS), graph.EMPTY) for i, c in enumerate(each)]
            result = graph.EMPTY
            for bit in bits:
                result = graph.union(result, bit)
            return result
        args = [self._at(a, bound, known) for a in node.args]
        match node.op:
            case "get":
                return self._chosen(*args)
            case "put":
                hits = [graph.eq(args[1], graph.const(i, INT)) for i in range(self.size)]
                return [graph.select(h, args[2], old) for h, old in zip(hits, args[0], strict=True)]
            case "after":
                return args
            case "first":
                return self._first(*args)[1]
            case "agree":
                return self._agree(*args)
            case "eq" if node.args[0].sort.startswith(MAP):
                return graph.all_(graph.eq(a, b) for a, b in zip(*args, strict=True))
            case "select" if node.sort.startswith(MAP):
                return [graph.select(args[0], a, b) for a, b in zip(*args[1:], strict=True)]
            case "select" if node.sort == ORDER:
                return ("select", *args)
        return made_of(node.op, args, self.size)

    def _constant(self, node: Node) -> Any:
        if node.sort == ORDER:
            return None
        if node.sort.startswith(MAP):
            return [graph.const(node.value, node.sort[len(MAP) :])] * self.size
        if node.sort == BITS and node.value == (1 << self.stand_in) - 1:
            return graph.const((1 << self.size) - 1, BITS)
        if node.sort == INT and abs(node.value - self.stand_in) <= 2:
            return graph.const(node.value - self.stand_in + self.size, INT)
        return node

    def _chosen(self, items: Sequence[Node], index: Node) -> Node:
        result = items[-1]
        for i in range(self.size - 2, -1, -1):
            result = graph.select(graph.eq(index, graph.const(i, INT)), items[i], result)
        return result

    def _agree(self, a: Any, b: Any, members: Node) -> Node:
        subsets = [graph.intersection(members, graph.const(bits, BITS)) for bits in range(1, 1 << self.size)]
        return graph.all_(graph.eq(self._first(a, s)[1], self._first(b, s)[1]) for s in subsets)

    def _first(self, order: Any, members: Node) -> tuple[Node, Node]:
        """Whether the set has a member, and the first one in the order; 0 if there is none."""
        found, result = graph.FALSE, graph.ZERO
        if isinstance(order, list):
            order, second, own, others = order
            a, x = self._first(order, graph.intersection(own, members))
            b, y = self._first(second, graph.intersection(others, members))
            return graph.or_(a, b), graph.select(a, x, y)
        if isinstance(order, tuple):
            yes, no = self._first(order[2], members), self._first(order[3], members)
            return graph.select(order[1], yes[0], no[0]), graph.select(order[1], yes[1], no[1])
        items = [(graph.TRUE, graph.const(i, INT)) for i in range(self.size)]
        if order is not None:
            places = range(order.type.maximum)
            items = [((order.length > i).node, order.at(i).node) for i in places]
        for there, item in reversed(items):
            hit = graph.and_(there, graph.member(item, members))
            found, result = graph.or_(hit, found), graph.select(hit, item, result)
        return found, result


def scalars(open_: Type, value: Value) -> Iterator[Any]:
    """For each scalar of a type over an index of any size: its value, for a value of the same type at a fixed size."""
    type_ = value.type
    if isinstance(open_, Struct):
        for name, field in open_.fields.items():
            yield from scalars(field, getattr(value, name))
    elif isinstance(open_, Array) and open_.is_any_size:
        assert isinstance(type_, Array)
        each = [list(scalars(open_.element, value.at(i))) for i in range(type_.index.size)]  # type: ignore[attr-defined]
        yield from map(list, zip(*each, strict=True))
    elif isinstance(open_, Seq) and open_.over is not None:
        assert isinstance(value, SeqValue)
        assert isinstance(type_, Seq)
        yield members_of(value, Set(type_.element)).node  # type: ignore[arg-type]
        yield value
    elif isinstance(open_, Option) and len(open_.layout) > 1:
        yield value.nodes[0]
        yield from scalars(open_.content_type, type_.content_type.wrap(value.nodes[1:]))  # type: ignore[union-attr]
    else:
        yield from value.nodes


class Comparison:
    """Compares a trace with the model of one size, in all states whose sequences have distinct elements."""

    def __init__(self, trace: OpenTrace, model: Model, size: int) -> None:
        self.trace, self.model, self.size = trace, model, size
        state = model.protocol.state
        self.before, self.after = state.wrap(model.inputs), state.wrap(model.after)
        open_ = trace.protocol.state
        self.inputs = dict(enumerate([*scalars(open_, self.before), *scalars(open_, self.after)]))
        self.numbers = Numbers()
        leaves = [*model.leaves, *model.leaves]
        variables = [self.numbers.variable(f"{leaf.path}#{i}", leaf) for i, leaf in enumerate(leaves)]
        self.translate = Translator(self.numbers, variables)
        self.solver = z3.SolverFor("QF_BV")
        for v, leaf in zip(variables, leaves, strict=True):
            self.solver.add(self.numbers.in_type(v, leaf))
        for value in (self.before, self.after):
            self.solver.add([self.translate(c) for c in _sequences(state, value)])

    def same(self, a: Node, b: Node, given: Node = graph.TRUE) -> bool:
        """True if no state tells the two conditions or numbers apart."""
        wrong = graph.and_(given, graph.not_(graph.eq(a, b)))
        if wrong is graph.FALSE:
            return True
        return bool(self.solver.check(self.translate(wrong)) == z3.unsat)

    def at_size(self, parameters: Sequence[Any] = ()) -> AtSize:
        """The trace's expressions at the size, for a step with these scalars of the parameters."""
        own = dict(enumerate(parameters, 2 * len(self.trace.leaves)))
        return AtSize(self.trace.size, self.size, {**self.inputs, **own})

    def properties(self) -> Iterator[tuple[str, bool]]:
        """For each property, whether it is the model's."""
        model = {p.name: p.node for p in self.model.properties}
        model |= {p.name: p.node for p in self.model.step_properties}
        still = self.model.unchanged
        for name, node in {**self.trace.invariants, **self.trace.steps}.items():
            yield name, self.same(self.at_size()(node), model[name], graph.not_(still))

    def instances(self) -> Iterator[tuple[str, bool]]:
        """For each action and choice of parameters, whether guards and effects are the model's."""
        open_state = self.trace.protocol.state
        for action in self.model.actions:
            for _, traced, types in self.trace.instances(action):
                for choice in self.model.choices(action):
                    if any(traced.parameters[n] != choice[n][1] for n in choice if n not in types):
                        continue
                    plain = {n: p for n, (_, p) in choice.items()}
                    values = [
                        self._parameter(action.domains[n], types[n], v)
                        for n, (v, _) in choice.items()
                        if n in types
                    ]
                    at = self.at_size([x for value in values for x in value])
                    instance = next(
                        (i for i in self.model.instances if i.action is action and i.parameters == plain),
                        None,
                    )
                    enabled = graph.FALSE if instance is None else instance.enabled
                    alike = self.same(at(traced.enabled), enabled)
                    if instance is not None and alike:
                        alike = self._same_effect(at, traced, instance, open_state)
                    yield f"{action.name}({plain})", alike

    def _parameter(self, attribute: str, open_: Type, value: Any) -> list[Any]:
        domain = getattr(self.model.protocol, attribute)
        if not isinstance(value, Value):
            value = (domain if isinstance(domain, Type) else open_).lift(value)
        return list(scalars(open_, value))

    def _same_effect(self, at: AtSize, traced: Any, instance: Any, open_: Struct) -> bool:
        nodes = [
            traced.writes[i].node if i in traced.writes else n for i, n in enumerate(self.trace.model.inputs)
        ]
        after = [
            instance.writes[i].node if i in instance.writes else n for i, n in enumerate(self.model.inputs)
        ]
        expected = scalars(open_, self.model.protocol.state.wrap(after))
        pairs = [(at(a), b) for a, b in zip(nodes, expected, strict=True)]
        members = graph.EMPTY
        for a, b in pairs:
            if isinstance(b, SeqValue):
                subsets = [graph.const(bits, BITS) for bits in range(1 << self.size)]
                own = [graph.intersection(members, s) for s in subsets]
                if not all(self.same(at._first(a, s)[1], at._first(b, s)[1], instance.leads_on) for s in own):
                    return False
            elif isinstance(b, list):
                if not all(self.same(x, y, instance.leads_on) for x, y in zip(a, b, strict=True)):
                    return False
            elif not self.same(a, b, instance.leads_on):
                return False
            members = b if isinstance(b, Node) else members
        return True


def _sequences(type_: Type, value: Value) -> Iterator[Node]:
    """The conditions that sequences have distinct elements, and zeros past their ends."""
    if isinstance(type_, Struct):
        for name, field in type_.fields.items():
            yield from _sequences(field, getattr(value, name))
    elif isinstance(type_, Seq):
        assert isinstance(value, SeqValue)
        yield is_distinct(value).node
        for position in range(type_.maximum):
            zero = value.at(position) == type_.element.zero()
            yield ((value.length > position) | zero).node


def differences(trace: OpenTrace, model: Model, size: int) -> list[str]:
    """The properties and instances of a model that the trace for any size does not have."""
    compared = Comparison(trace, model, size)
    return [name for name, alike in itertools.chain(compared.properties(), compared.instances()) if not alike]
