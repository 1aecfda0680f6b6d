"""Vacuity in a scenario: actions that are never taken, and properties that are constant.

A mistake in a protocol's text often has no other sign: an action is never taken, and the verdict is "holds". But
most vacuous actions are intended: the scenario allows no crash, for example, or leaves a feature out. So the protocol
is also traced with other parameters, and with rules off. An action that is possible there is *withheld* by the
scenario. An action whose guards read values that only withheld actions write is withheld, too. Every other vacuous
action gives a warning, unless the scenario expects it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

from highwater.checker.engines import cache
from highwater.checker.scenarios.request import Request
from highwater.checker.scenarios.search import SearchResult
from highwater.model.language import graph
from highwater.model.language.errors import LanguageError
from highwater.model.language.model import Instance, Model, state_inputs, trace_instances
from highwater.model.language.protocol import Action, Protocol
from highwater.model.language.state import State
from highwater.model.language.tracing import NeverTaken, next_script, parameter_values, tracing
from highwater.model.language.types import Leaf

IMPOSSIBLE, NEVER_TAKEN, CONSTANT = "impossible", "never taken", "constant"


@dataclass(frozen=True)
class Vacuous:
    """A warning about a vacuous action or property. ``kind`` is one of this module's constants."""

    kind: str
    name: str
    text: str


@dataclass(frozen=True)
class Idle:
    """The vacuity of a scenario: the names from ``constant_properties``, and the warnings."""

    constant: tuple[str, ...]
    warnings: tuple[Vacuous, ...]


def idle(model: Model, request: Request, result: SearchResult) -> Idle:
    """The vacuity of a scenario after its search. It is cached if the request has a key."""
    expectation, never = request.scenario.expectation, _never_taken(model, request, result)
    asked = sorted(expectation.impossible), sorted(expectation.constant), never
    found = cache.found(Idle, model.identity, *asked)
    if found is None:
        found = Idle(tuple(constant_properties(model)), vacuous(model, request, result))
        cache.keep(found, model.identity, *asked)
    return found


def constant_properties(model: Model) -> dict[str, str]:
    """The properties that check nothing, each with a predicate such as "is true in every state". Goals are left out.

    Such a property has the same value in every state or step, or its premise never holds, or no step writes any
    value that it reads.
    """
    found = {}
    for prop in model.properties:
        if prop.invariant.goal:
            continue
        if prop.node.is_const:
            found[prop.name] = f"is {'true' if prop.node is graph.TRUE else 'false'} in every state"
        elif prop.premise is graph.FALSE:
            found[prop.name] = "has a premise that holds in no state"
    for step in model.step_properties:
        if step.stated.goal:
            continue
        if step.node.is_const:
            found[step.name] = "is true of every step"
        elif not step.asked:
            found[step.name] = "is about what no step writes"
        elif step.node is model.unchanged:
            found[step.name] = "is false of every step that changes something"
        elif step.premise is graph.FALSE:
            found[step.name] = "has a premise that holds of no step"
    for live in model.liveness:
        how = [case.is_constant for case in live.cases]
        if all(how):
            found[live.name] = how[0]
    return found


def vacuous(model: Model, request: Request, result: SearchResult) -> tuple[Vacuous, ...]:
    """Warnings about vacuous actions and properties that the scenario does not expect.

    There is no warning about an action that other parameters or rules allow. An action counts as never taken only
    if every state was explored.
    """
    expectation = request.scenario.expectation
    told = [
        Vacuous(CONSTANT, name, f"{name} {how} with these parameters and rules: it checks nothing")
        for name, how in constant_properties(model).items()
        if name not in expectation.constant
    ]
    impossible = [name for name in model.ruled_out if name not in expectation.impossible]
    never = _never_taken(model, request, result)
    if impossible or never:
        withheld = _withheld(model, request, never)
        told += [_impossible(model, name) for name in impossible if name not in withheld]
        why = "no reachable state enables it, or a bound prunes its steps"
        told += [Vacuous(NEVER_TAKEN, n, f"{n} is never taken: {why}") for n in never if n not in withheld]
    return tuple(told)


def _never_taken(model: Model, request: Request, result: SearchResult) -> list[str]:
    """The actions that no reachable state enables, although tracing does not rule them out.

    Actions that the scenario expects to be impossible are left out. Empty unless every state was explored.
    """
    if not result.complete:
        return []
    known = {*model.ruled_out, *request.scenario.expectation.impossible}
    return [name for name, count in result.actions.items() if not count and name not in known]


def _impossible(model: Model, name: str) -> Vacuous:
    action = next(a for a in model.actions if a.name == name)
    guards = ", ".join(dict.fromkeys(repr(guard) for guard in _refusing(model, action)))
    why = f"false in every state: {guards}" if guards else "its parameters have no values"
    return Vacuous(IMPOSSIBLE, name, f"{name} can never be enabled: {why}")


def _refusing(model: Model, action: Action) -> Iterator[str]:
    """For each combination of the action's parameter values, the name of the first guard that is constant false."""
    domains = [parameter_values(model.protocol, action, p) for p in action.domains]
    for choice in itertools.product(*domains):
        arguments = {p: value for p, (value, _) in zip(action.domains, choice, strict=True)}
        script: tuple[int, ...] | None = ()
        while script is not None:
            with tracing(model.protocol.on, ends_early=True, script=script) as trace, suppress(NeverTaken):
                action.function(model.protocol, State(model.protocol.state, model.inputs), **arguments)
            script = next_script(trace.chosen)
            yield trace.guards[-1].name


# --- actions that other parameters allow --------------------------------------------------------------


def _withheld(model: Model, request: Request, idle: Sequence[str]) -> set[str]:
    """The names of the actions that the scenario withholds: other parameters or rules would allow them.

    ``idle`` has the actions that no reachable state enables. Such an action counts as withheld if its guards read a
    field to which withheld actions write a value that no other action writes.
    """
    left = {action.name: action for action in model.actions if action.name in model.ruled_out}
    withheld: set[str] = set()
    missing = _Written()
    others = [_shared_others(request), _others(request)]
    if idle:  # the written values matter: begin with parameters close to the scenario's
        others.reverse()
    for other in itertools.chain(*others):
        for name, action in list(left.items()):
            if (instance := other.first(action)) is not None:
                withheld.add(left.pop(name).name)
                missing.add(other.leaves, instance)
        if not left:
            break
    waiting = {name: [i for i in model.instances if i.action.name == name] for name in idle}
    there = _Written()
    for state in model.initial:
        for leaf, value in zip(model.leaves, state, strict=True):
            there.values.setdefault(_field(leaf), set()).add(value)
    for instance in model.instances:
        if instance.action.name not in waiting:
            there.add(model.leaves, instance)
    while found := [n for n, own in waiting.items() if missing.beyond(there) & _read(model, own)]:
        for name in found:
            withheld.add(name)
            for instance in waiting.pop(name):
                missing.add(model.leaves, instance)
    return withheld


class _Written:
    """The values that steps write, by field. A field is in ``anything`` if some step writes an unknown value to it."""

    def __init__(self) -> None:
        self.values: dict[str, set[int]] = {}
        self.anything: set[str] = set()

    def add(self, leaves: list[Leaf], instance: Instance) -> None:
        """Add the values that an instance writes."""
        for leaf, write in instance.writes.items():
            field = _field(leaves[leaf])
            self.values.setdefault(field, set())
            left = [write.node]
            while left:
                node = left.pop()
                if node.op == "select":
                    left += node.args[1:]
                elif node.is_const:
                    self.values[field].add(node.value)
                elif not (node.op == "input" and node.value == leaf):  # an unchanged value
                    self.anything.add(field)

    def beyond(self, other: _Written) -> set[str]:
        """The fields to which these steps write a value that the steps of ``other`` do not write."""
        known = {f for f in self.values if f not in other.anything}
        return {f for f in known if f in self.anything or self.values[f] - other.values.get(f, set())}


class _Other:
    """A protocol with other parameters or rules. Each of its actions is traced at most once."""

    def __init__(self, protocol: Protocol) -> None:
        self._protocol, self.leaves = protocol, protocol.state.leaves("")
        self._inputs = state_inputs(self.leaves)
        self._known: dict[str, Instance | None] = {}

    def first(self, action: Action) -> Instance | None:
        """The first instance of an action that its guards do not rule out; None if there is none."""
        if action.name not in self._known:
            self._known[action.name] = self._traced(action)
        return self._known[action.name]

    def _traced(self, action: Action) -> Instance | None:
        domains = [parameter_values(self._protocol, action, p) for p in action.domains]
        for choice in itertools.product(*domains):
            try:
                parameters = dict(zip(action.domains, choice, strict=True))
                own = trace_instances(self._protocol, self.leaves, self._inputs, action, parameters)
                instance = next(own, None)
            except LanguageError:  # the user did not choose these parameters, so this is not the user's error
                return None
            if instance is not None:
                return instance
        return None


def _shared_others(request: Request) -> Iterator[_Other]:
    """Yield the protocol with small parameters twice: first with all rules off, then with the request's rules.

    Each parameter has its default, or 1 if the default is 0. With these values almost every action is possible. Results
    are cached for all scenarios of the protocol. Steps may write other values than in the scenario.
    """
    protocol = request.scenario.definition.protocol
    make: Callable[..., Protocol] = protocol  # mypy takes a class for unhashable
    parameters = tuple((name, p.default or min(1, p.high)) for name, p in protocol.parameters.items())
    for rules in ((), tuple(name for name, on in request.rules.items() if on)):
        with suppress(LanguageError):
            yield _shared(make, parameters, rules)


def _others(request: Request) -> Iterator[_Other]:
    """Yield the scenario's protocol four times, with these changes. No parameter exceeds its maximum.

    1. all parameters are one larger
    2. the parameters that are 0 are one larger
    3. the parameters that are 0 have their maximum
    4. the parameters that are 0 are one larger, and all rules are off
    """
    definition, given = request.scenario.definition, dict(request.parameters)
    rules = [name for name, on in request.rules.items() if on]
    most = {name: parameter.high for name, parameter in definition.protocol.parameters.items()}
    larger = {name: min(value + 1, most[name]) for name, value in given.items()}
    zero = [name for name, value in given.items() if not value]
    a_step, all_ = ({name: chosen[name] for name in zero} for chosen in (larger, most))
    for raised, on in ((larger, rules), (a_step, rules), (all_, rules), (a_step, [])):
        with suppress(LanguageError):  # the user did not choose these parameters
            yield _Other(definition.protocol({**given, **raised}, on))


@lru_cache(maxsize=64)
def _shared(
    protocol: Callable[..., Protocol], parameters: tuple[tuple[str, int], ...], rules: tuple[str, ...]
) -> _Other:
    return _Other(protocol(dict(parameters), rules))


def _field(leaf: Leaf) -> str:
    """The path of a scalar without the positions of elements: ``logs[1]`` becomes ``logs[]``."""
    return re.sub(r"\[\d+\]", "[]", leaf.path)


def _read(model: Model, instances: Iterable[Instance]) -> set[str]:
    """The fields that the guards of these instances read."""
    left = [guard.node for instance in instances for guard in instance.guards]
    seen: set[int] = set()
    found: set[str] = set()
    while left:
        node = left.pop()
        if node.id in seen:
            continue
        seen.add(node.id)
        if node.op == "input":
            found.add(_field(model.leaves[node.value]))
        left += node.args
    return found
