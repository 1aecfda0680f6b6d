"""Symmetry: states with renamed index values, and a test that renaming does not change a protocol's behaviour.

If a protocol treats a state and its renamings alike, a search explores only one of them. A renamed state is a list of
expressions over the original state, which every engine can evaluate.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from math import factorial, prod

from highwater.model.language import graph
from highwater.model.language.errors import LanguageError, place_of
from highwater.model.language.graph import BITS, INT, Evaluate, Node, compile_nodes
from highwater.model.language.initial import LISTED, Scalars
from highwater.model.language.interpreter import Interpreter, PossibleStep
from highwater.model.language.messages import MessageKind, number_of, value_at
from highwater.model.language.model import Model
from highwater.model.language.types import (
    Array,
    Enum,
    Index,
    IntType,
    Option,
    Seq,
    SeqValue,
    Set,
    Struct,
    Type,
    where,
)

Renaming = Mapping[str, Sequence[int]]
"""For each symmetric index, by name: the new value of each index value."""


def renamed(model: Model, renaming: Renaming) -> list[Node]:
    """The scalars of the state after its index values are renamed, as expressions over the state's original scalars."""
    return _rename(model.protocol.state, model.inputs, renaming)


MOST = 50_000
"""The maximum number of renamings. The native engine compiles code for each."""


def renamings(model: Model) -> Iterator[Renaming]:
    """All renamings of the protocol's symmetric indices except the identity.

    Raises LanguageError if there are more than ``MOST``.
    """
    sizes = _sizes(model)
    count = prod(factorial(size) for size in sizes.values())
    if count > MOST:
        of = ", ".join(f"{name!r} ({size})" for name, size in sizes.items())
        raise LanguageError(
            f"the symmetric indices of {model.protocol.name}, {of}, have {count:,} renamings, and {MOST:,} are the "
            "most: make an index smaller, or explore without symmetry",
            place_of(type(model.protocol)),
        )
    choices = [[(name, p) for p in itertools.permutations(range(size))] for name, size in sizes.items()]
    identity = {name: tuple(range(size)) for name, size in sizes.items()}
    for choice in itertools.product(*choices):
        if dict(choice) != identity:
            yield dict(choice)


def _sizes(model: Model) -> dict[str, int]:
    found: dict[str, int] = {}
    for type_ in _types(model.protocol.state):
        index = type_ if isinstance(type_, (Index, Enum)) else getattr(type_, "index", None)
        if isinstance(index, (Index, Enum)) and index.name in model.protocol.symmetric:
            found[index.name] = index.size
    for name in model.protocol.symmetric:
        if name not in found:
            raise LanguageError(
                f"{model.protocol.name} declares symmetry in {name!r}, an index its state does not use",
                place_of(type(model.protocol)),
            )
    if not found:
        raise LanguageError(
            f"{model.protocol.name} declares no symmetric index", place_of(type(model.protocol))
        )
    return found


def _types(type_: Type) -> Iterator[Type]:
    yield type_
    inner: list[Type] = []
    if isinstance(type_, MessageKind):
        inner = [type_.message]
    elif isinstance(type_, Struct):
        inner = list(type_.fields.values())
    elif isinstance(type_, (Array, Seq)):
        inner = [type_.element]
    elif isinstance(type_, Option):
        inner = [type_.content_type]
    for part in inner:
        yield from _types(part)


def _rename(type_: Type, nodes: Sequence[Node], renaming: Renaming) -> list[Node]:
    if isinstance(type_, (Index, Enum)) and type_.name in renaming:
        return [_mapped(nodes[0], renaming[type_.name])]
    if isinstance(type_, IntType) and type_.names is not None and type_.names.name in renaming:
        return [_mapped(nodes[0], renaming[type_.names.name])]
    if isinstance(type_, Set) and type_.index.name in renaming:
        result = graph.const(0, BITS)
        for value, name in enumerate(renaming[type_.index.name]):
            here = graph.member(graph.const(value, INT), nodes[0])
            bit, empty = graph.const(1 << name, BITS), graph.const(0, BITS)
            result = graph.union(result, graph.select(here, bit, empty))
        return [result]
    found: list[Node] = []
    if isinstance(type_, Struct):
        for part in type_.fields.values():
            found += _rename(part, nodes[len(found) : len(found) + part.leaf_count], renaming)
        return found
    if isinstance(type_, MessageKind):
        return _messages(type_, nodes, renaming)
    if isinstance(type_, Array):
        width = type_.element.leaf_count
        parts = [
            _rename(type_.element, nodes[i * width : (i + 1) * width], renaming)
            for i in range(type_.index.size)
        ]
        if type_.index.name in renaming:
            order = renaming[type_.index.name]
            parts = [parts[order.index(name)] for name in range(type_.index.size)]
        return [node for part in parts for node in part]
    if isinstance(type_, Seq) and type_.ascends:
        return _ascending(type_, nodes, renaming)
    if isinstance(type_, Seq):
        width = type_.element.leaf_count
        items = [nodes[0]]
        for i in range(type_.maximum):
            item = nodes[1 + i * width : 1 + (i + 1) * width]
            there = graph.lt(graph.const(i, INT), nodes[0])  # elements past the end stay zero
            other = _rename(type_.element, item, renaming)
            items += (graph.select(there, b, a) for a, b in zip(item, other, strict=True))
        return items
    if isinstance(type_, Option):
        there = type_.present(nodes)
        if len(nodes) == type_.content_type.leaf_count:  # none is one value of the scalar, without a flag
            whole = _rename(type_.content_type, nodes, renaming)
            return [graph.select(there, b, a) for a, b in zip(nodes, whole, strict=True)]
        content = _rename(type_.content_type, nodes[1:], renaming)
        return [nodes[0], *(graph.select(there, b, a) for a, b in zip(nodes[1:], content, strict=True))]
    return list(nodes)


def _ascending(type_: Seq, nodes: Sequence[Node], renaming: Renaming) -> list[Node]:
    """The scalars of an ascending sequence with its members renamed and sorted again."""
    element = type_.element
    assert isinstance(element, Index)
    order = renaming.get(element.name, range(element.size))
    values = SeqValue(type_, tuple(nodes))
    found = type_.zero()
    for new in element:
        found = where(values.has(order.index(int(new))), found.append(new), found)
    return list(found.nodes)


def _messages(kind: MessageKind, nodes: Sequence[Node], renaming: Renaming) -> list[Node]:
    """The scalars of the messages of a kind after renaming: each bit or count moves to the renamed message."""
    result = [graph.const(0, INT if kind.copies else BITS)] * kind.index.size
    for number in kind.possible:
        message = value_at(kind.message, number)
        renamed = number_of(kind.message, _rename(kind.message, message.nodes, renaming)).value
        if kind.copies:
            result[renamed] = nodes[number]
            continue
        word, bit = divmod(renamed, kind.width)
        one = graph.const(1 << bit, BITS)
        here = kind.there(nodes, number) > 0
        result[word] = graph.union(result[word], graph.select(here.node, one, graph.const(0, BITS)))
    return result


def _mapped(node: Node, order: Sequence[int]) -> Node:
    result = node
    for old, new in enumerate(order):
        if old != new:
            result = graph.select(graph.eq(node, graph.const(old, INT)), graph.const(new, INT), result)
    return result


def asymmetry(model: Model, samples: int = 200, seed: int = 0) -> str | None:
    """The reason why the protocol or a property is not symmetric; None if a random walk finds no asymmetry.

    The walk visits ``samples`` states and compares each with its renamings. The successors of the renamed state must be
    the renamed successors, and both states must satisfy the same properties. If no step is possible, the walk restarts
    in a random initial state, or in the first one if there are too many to list. The renaming of an initial state need
    not be initial.
    """
    interpreter = Interpreter(model)
    maps = []
    for renaming in renamings(model):
        moved = [name for order in renaming.values() for name in range(len(order)) if order[name] != name]
        if len(moved) == 2:  # swaps of two values generate all renamings
            maps.append((renaming, compile_nodes(renamed(model, renaming))))

    rng = random.Random(seed)
    many = model.start is not None and model.start.candidates > LISTED
    starts = [model.first_initial] if many else model.initial
    state = rng.choice(starts)
    for _ in range(samples):
        steps = [s for s in interpreter.steps(state) if s.state is not None]
        for renaming, function in maps:
            if found := _difference(interpreter, state, steps, function):
                return f"{found} differs under {_shown(renaming)}"
        state = rng.choice(steps).state if steps else rng.choice(starts)  # type: ignore[assignment]
    return None


def _difference(
    interpreter: Interpreter, state: Scalars, steps: Sequence[PossibleStep], function: Evaluate
) -> str:
    """The names of properties or actions that differ between a state and its renaming, as text; "" if none differ."""

    def apply(plain: Scalars | None) -> Scalars:
        assert plain is not None
        return tuple(int(v) for v in function(plain))

    other = apply(state)
    names = set(interpreter.violated(state)) ^ set(interpreter.violated(other))
    for step in () if names else steps:
        assert step.state is not None
        broken = interpreter.broken(state, step.state)
        if names := set(broken) ^ set(interpreter.broken(other, apply(step.state))):
            break
    if names:
        return f"property {', '.join(sorted(names))}"
    mine = {(step.instance.action.name, apply(step.state)) for step in steps}
    theirs = {(s.instance.action.name, s.state) for s in interpreter.steps(other) if s.state is not None}
    names = {name for name, _ in mine ^ theirs}
    return f"action {', '.join(sorted(names))}" if names else ""


def _shown(renaming: Renaming) -> str:
    return "; ".join(
        f"{name} " + ", ".join(f"{old} ↔ {new}" for old, new in enumerate(order) if old < new)
        for name, order in renaming.items()
        if any(old != new for old, new in enumerate(order))
    )
