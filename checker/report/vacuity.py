"""Vacuity in a scenario: actions that are impossible, and properties that are constant.

A mistake in a protocol's text often has no other sign: a guard is false in every state, and the verdict is "holds".
But most impossible actions are intended: the scenario allows no crash, for example, or leaves a feature out. So the
protocol is also traced with other parameters. An action that is possible there is *withheld* by the scenario. Every
other impossible action gives a warning, unless the scenario expects it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

from highwater.checker.engines import cache
from highwater.checker.scenarios.request import Request
from highwater.model.language import Action, LanguageError, Model, Protocol, State, graph
from highwater.model.language.model import state_inputs, trace_instances
from highwater.model.language.tracing import NeverTaken, next_script, parameter_values, tracing

IMPOSSIBLE, CONSTANT = "impossible", "constant"


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


def idle(model: Model, request: Request) -> Idle:
    """The vacuity of a scenario. It is cached if the request has a key."""
    expectation = request.scenario.expectation
    names = sorted(expectation.impossible), sorted(expectation.constant)
    found = cache.found(Idle, model.identity, *names)
    if found is None:
        found = Idle(tuple(constant_properties(model)), vacuous(model, request))
        cache.keep(found, model.identity, *names)
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


def vacuous(model: Model, request: Request) -> tuple[Vacuous, ...]:
    """Warnings about vacuous actions and properties that the scenario does not expect.

    There is no warning about an action that other parameters or rules allow.
    """
    expectation = request.scenario.expectation
    constant = [
        Vacuous(CONSTANT, name, f"{name} {how} with these parameters and rules: it checks nothing")
        for name, how in constant_properties(model).items()
        if name not in expectation.constant
    ]
    impossible = {a.name: a for a in model.actions if a.name in {*model.ruled_out} - expectation.impossible}
    for other in _others(request) if impossible else ():
        impossible = {name: a for name, a in impossible.items() if not other(a)}
    return (*constant, *(_impossible(model, action) for action in impossible.values()))


def _impossible(model: Model, action: Action) -> Vacuous:
    guards = ", ".join(dict.fromkeys(repr(guard) for guard in _refusing(model, action)))
    why = f"false in every state: {guards}" if guards else "its parameters have no values"
    return Vacuous(IMPOSSIBLE, action.name, f"{action.name} can never be enabled: {why}")


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


def _allowing(protocol: Protocol) -> Callable[[Action], bool]:
    """A function that tells if an action has an instance that its guards do not rule out, under other parameters.

    Each action is traced at most once.
    """
    leaves = protocol.state.leaves("")
    inputs = state_inputs(leaves)
    known: dict[str, bool] = {}

    def traced(action: Action) -> bool:
        domains = [parameter_values(protocol, action, p) for p in action.domains]
        with suppress(
            LanguageError
        ):  # the user did not choose these parameters, so this is not the user's error
            for choice in itertools.product(*domains):
                parameters = dict(zip(action.domains, choice, strict=True))
                if any(True for _ in trace_instances(protocol, leaves, inputs, action, parameters)):
                    return True
        return False

    def allows(action: Action) -> bool:
        if action.name not in known:
            known[action.name] = traced(action)
        return known[action.name]

    return allows


def _others(request: Request) -> Iterator[Callable[[Action], bool]]:
    """Yield the scenario's protocol three times, with parameters that allow almost every action.

    1. Each parameter has its default, or 1 if the default is 0; all rules are off. The result is cached for all
       scenarios of the protocol.
    2. The parameters that are 0 are 1; the rules are the scenario's.
    3. The parameters that are 0 have their maximum, the others are one larger; the rules are the scenario's.
    """
    protocol = request.scenario.definition.protocol
    make: Callable[..., Protocol] = protocol  # mypy takes a class for unhashable
    small = tuple((name, p.default or min(1, p.high)) for name, p in protocol.parameters.items())
    most = {name: parameter.high for name, parameter in protocol.parameters.items()}
    raised = {n: min(value + 1, most[n]) if value else most[n] for n, value in request.parameters.items()}
    some = {n: value or min(1, most[n]) for n, value in request.parameters.items()}
    rules = [name for name, on in request.rules.items() if on]
    with suppress(LanguageError):  # the user did not choose these parameters
        yield _shared(make, small)
    for parameters in (some, raised):
        with suppress(LanguageError):
            yield _allowing(protocol(parameters, rules))


@lru_cache(maxsize=64)
def _shared(
    protocol: Callable[..., Protocol], parameters: tuple[tuple[str, int], ...]
) -> Callable[[Action], bool]:
    return _allowing(protocol(dict(parameters), ()))
