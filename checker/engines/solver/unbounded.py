"""A protocol whose numbers end nowhere: the parameters that bound them are set beyond any field of a real system."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from highwater.model.language import graph
from highwater.model.language.errors import LanguageError
from highwater.model.language.model import Model
from highwater.model.language.protocol import Invariant, Protocol
from highwater.model.language.step_properties import StepProperty
from highwater.model.language.types import Array, IntType, Option, Seq, Struct, Type

BEYOND = 1 << 80
"""The bound in a proof for all epochs and offsets. Kafka's are 32 and 64 bits wide."""


APART = 40
"""How far above a scenario's own bounds it is looked at whether they shape anything but intervals."""


def unbounded(
    protocol: type[Protocol],
    parameters: Mapping[str, int],
    rules: Iterable[str],
    invariants: Iterable[Invariant] = (),
    step_properties: Iterable[StepProperty] = (),
) -> tuple[type[Protocol], dict[str, int]]:
    """The protocol with wider ranges for the parameters that bound its numbers, and those parameters set.

    A parameter bounds numbers where it names the bound of a number of the state and of no sequence: a sequence has
    a place for each element, so its length stays bounded. LanguageError where there is no such parameter, or where
    one has more to say than where numbers end (it counts actions, or is the end of a loop).
    """
    rules, invariants, of_steps = list(rules), list(invariants), list(step_properties)
    bounds = list(_bounds(protocol(parameters, rules).state))
    sequences = {name for name, kind in bounds if kind is Seq}
    names = sorted({name for name, kind in bounds if kind is IntType} - sequences)
    names = [name for name in names if name in protocol.parameters]
    if not names:
        raise LanguageError(f"{protocol.name} bounds no number by a parameter: there is nothing to unbound")
    wider = {name: replace(p, high=BEYOND) if name in names else p for name, p in protocol.parameters.items()}
    kind = type(protocol.__name__, (protocol,), {"parameters": wider})

    def shape(**bounds: int) -> tuple[int, ...]:
        model = Model(kind({**parameters, **bounds}, rules), invariants, step_properties=of_steps)
        roots = [i.enabled for i in model.instances]
        roots += [p.node for p in model.properties] + [p.node for p in model.step_properties]
        roots += [w.node for i in model.instances for w in i.writes.values()]
        return len(model.leaves), len(model.instances), len(graph.reachable(roots))

    high = {name: parameters.get(name, wider[name].default) + APART for name in names}
    at_high = shape(**high)
    for name in names:
        if shape(**{**high, name: high[name] + 1}) != at_high:
            raise LanguageError(
                f"{protocol.name}: {name} does more than to bound numbers: it cannot be unbounded"
            )
    return kind, {**parameters, **dict.fromkeys(names, BEYOND)}


def _bounds(type_: Type) -> Iterator[tuple[str, type[Type]]]:
    """The names of the bounds in a type, with the type that each bounds."""
    if isinstance(type_, IntType) and type_.bound:
        yield type_.bound, IntType
    elif isinstance(type_, Option):
        yield from _bounds(type_.content_type)
    elif isinstance(type_, Array):
        yield from _bounds(type_.element)
    elif isinstance(type_, Struct):
        for field in type_.fields.values():
            yield from _bounds(field)
    elif isinstance(type_, Seq):
        if type_.bound:
            yield type_.bound, Seq
        yield from _bounds(type_.element)
