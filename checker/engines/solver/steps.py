"""What can happen next, for a solver: instances of actions, as the Model has them or with parameters left open.

An action with open parameters is the same function, traced once more with a symbolic value for each parameter,
so that one term stands for all its instances. Where the protocol's text asks for a plain value (in an ``if``,
as the key of a table) its instances are taken one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from highwater.model.language import graph, values
from highwater.model.language.errors import LanguageError
from highwater.model.language.graph import Node
from highwater.model.language.model import Instance, Model, trace_instance
from highwater.model.language.protocol import Action
from highwater.model.language.types import Bool, IntType, Leaf, Type


@dataclass(frozen=True)
class OpenStep:
    """A way to go on: an instance whose parameters may be inputs too.

    ``leaves`` are those inputs, numbered from ``start`` on (the state's leaves come first), ``types`` the type
    of each open parameter and where its inputs begin, ``chosen`` the condition that they are in their domains.
    """

    instance: Instance
    start: int = 0
    leaves: tuple[Leaf, ...] = ()
    types: Mapping[str, tuple[int, Type]] = field(default_factory=dict)
    chosen: Node = graph.TRUE

    @property
    def name(self) -> str:
        """The action's name."""
        return self.instance.action.name

    def parameters(self, scalars: Sequence[int]) -> dict[str, Any]:
        """The parameters as plain values, from the scalars of the open ones."""
        found = dict(self.instance.parameters)
        for name, (start, type_) in self.types.items():
            found[name] = type_.decode(scalars[start - self.start :][: type_.leaf_count])
        return found


def steps(model: Model, *, grouped: bool) -> list[OpenStep]:
    """Every way to go on: the model's instances, or one for each action where ``grouped`` and possible."""
    if not grouped:
        return [OpenStep(instance) for instance in model.instances]
    found: list[OpenStep] = []
    start = len(model.leaves)
    possible = {i.action.name for i in model.instances}
    for action in model.actions:
        if action.name not in possible:
            continue
        step = _open(model, action, start) if action.domains else None
        if step is not None:
            start += len(step.leaves)
            found.append(step)
        else:
            found += [OpenStep(i) for i in model.instances if i.action is action]
    return found


def instance_number(model: Model, step: OpenStep, scalars: Sequence[int]) -> int:
    """Which of the model's instances a step is with these open parameters.

    Raises LanguageError where the model has none: its guards cannot hold for these parameters.
    """
    wanted = step.parameters(scalars)
    for number, instance in enumerate(model.instances):
        if instance.action is step.instance.action and dict(instance.parameters) == wanted:
            return number
    raise LanguageError(f"{step.name} has no instance with {wanted}")


def _open(model: Model, action: Action, start: int) -> OpenStep | None:
    leaves: list[Leaf] = []
    types: dict[str, tuple[int, Type]] = {}
    chosen = graph.TRUE
    choice: dict[str, tuple[Any, Any]] = {}
    for name, attribute in action.domains.items():
        domain = getattr(model.protocol, attribute)
        constants = None if isinstance(domain, Type) else list(domain)
        type_ = domain if isinstance(domain, Type) else _common_type(constants or [])
        if type_ is None:
            return None
        own = type_.leaves(name)
        first = start + len(leaves)
        nodes = [
            graph.const(leaf.low, leaf.sort)
            if leaf.low == leaf.high
            else graph.leaf(first + i, leaf.sort, leaf.low, leaf.high)
            for i, leaf in enumerate(own)
        ]
        if constants is not None:
            chosen = graph.and_(chosen, graph.any_(_equal(type_, nodes, plain) for plain in constants))
        leaves += own
        types[name] = first, type_
        choice[name] = type_.wrap(nodes), None
    try:
        instance = trace_instance(
            model.protocol, model.leaves, [*model.inputs, *_places(start, leaves)], action, choice
        )
    except (LanguageError, TypeError, ValueError, AttributeError, KeyError, IndexError):
        return None  # the text wants plain parameters; with those it was traced before
    return None if instance is None else OpenStep(instance, start, tuple(leaves), types, chosen)


def _places(start: int, leaves: Sequence[Leaf]) -> Iterator[Node]:
    for number, leaf in enumerate(leaves, start):
        yield graph.leaf(number, leaf.sort, leaf.low, leaf.high)


def _common_type(constants: Sequence[Any]) -> Type | None:
    """The type of all values that a parameter is chosen from; None where they have none in common."""
    if not constants:
        return None
    if all(isinstance(c, bool) for c in constants):
        return Bool
    if all(isinstance(c, int) and not isinstance(c, bool) for c in constants):
        return IntType(min(constants), max(constants))
    types = [c.type if isinstance(c, values.Value) else None for c in constants]
    return types[0] if types[0] is not None and all(t == types[0] for t in types) else None


def _equal(type_: Type, nodes: Sequence[Node], plain: Any) -> Node:
    return graph.all_(graph.eq(a, b) for a, b in zip(nodes, type_.lift(plain).nodes, strict=True))
