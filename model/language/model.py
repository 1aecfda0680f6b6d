"""The model that every engine reads: a protocol traced with fixed parameters and rules."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from highwater.model.language import graph
from highwater.model.language.declarations import check_names, takes
from highwater.model.language.errors import LanguageError, fail, meant, place_of
from highwater.model.language.graph import Node, inputs_of, substituted, undefined
from highwater.model.language.initial import Scalars, Start, start_of
from highwater.model.language.liveness import Case, FairGroup, Fairness, Kind, Liveness, Tag, TracedLiveness
from highwater.model.language.protocol import Action, Invariant, Protocol, check_actions, check_conditions
from highwater.model.language.state import State
from highwater.model.language.step_properties import JudgedSteps, OfAStep, StepProperty, TracedStepProperty
from highwater.model.language.tracing import (
    Check,
    Guard,
    NeverTaken,
    Write,
    bound_checks,
    choices_of,
    guards_asked,
    looking,
    next_script,
    returned_condition,
    tracing,
)
from highwater.model.language.types import Leaf, Truth, Value, as_bool

NO_STATE = "initially() holds in none of the states that initial() gives"
"""The error message for a protocol without an initial state."""


Choice = Mapping[str, tuple[Any, Any]]
"""Values for the parameters of an action: name to (symbolic value, plain value)."""


def said(value: object) -> object:
    """A plain value as reports show it: ``none``, ``true`` and ``false`` replace Python's words."""
    return str(value).lower() if value is None or isinstance(value, bool) else value


@dataclass(frozen=True)
class Instance:
    """An action with fixed parameter values. It is enabled in states that satisfy all ``guards``.

    Its step from such a state has one of three results:

    * If a check with a bound is true, the step is pruned and counted at that bound.
    * Otherwise, if a check without a bound is true, the protocol has an error.
    * Otherwise the step changes the scalars in ``writes`` (scalar number to next value).
    """

    action: Action
    parameters: Mapping[str, Any]
    guards: tuple[Guard, ...]
    writes: Mapping[int, Write]
    checks: tuple[Check, ...]

    @cached_property
    def enabled(self) -> Node:
        """The conjunction of the guards."""
        return graph.all_(g.node for g in self.guards)

    @cached_property
    def leads_on(self) -> Node:
        """The condition that the instance is enabled and its step leads to a state (no check is true)."""
        return graph.and_(self.enabled, graph.not_(graph.any_(c.node for c in self.checks)))

    def __str__(self) -> str:
        return f"{self.action.name}({', '.join(f'{k}={v}' for k, v in self.said.items())})"

    @property
    def said(self) -> dict[str, object]:
        """The parameter values as reports show them, by parameter name."""
        return {name: said(value) for name, value in self.parameters.items()}

    @property
    def sentence(self) -> str:
        """The action's sentence with its parameter values, and the values that the action chose by ``one_of``.

        If the action has no sentence: its name and its parameter values.
        """
        if not self.action.says:
            return str(self)
        own = [f"{name} {value}" for name, value in self.said.items() if name not in self.action.domains]
        sentence = self.action.says.format(**self.said)
        return f"{sentence} ({', '.join(own)})" if own else sentence


def trace_instance(
    protocol: Protocol,
    leaves: list[Leaf],
    inputs: list[Node],
    action: Action,
    choice: Choice,
) -> Instance | None:
    """Trace an action with fixed parameter values; None if a guard is constant false with these values.

    ``inputs`` has one node for each scalar of the state. Raises LanguageError if the action calls ``one_of``, because
    it then has several instances.
    """
    found = list(trace_instances(protocol, leaves, inputs, action, choice))
    if len(found) > 1 or any(len(i.parameters) > len(choice) for i in found):
        raise LanguageError(f"action {action.name} makes choices of its own", place_of(action.function))
    return found[0] if found else None


def trace_instances(
    protocol: Protocol,
    leaves: list[Leaf],
    inputs: list[Node],
    action: Action,
    choice: Choice,
) -> Iterator[Instance]:
    """Trace an action with fixed parameter values: one instance for each combination of values chosen by ``one_of``.

    Instances with a guard that is constant false are left out. ``inputs`` has one node for each scalar of the state.
    """
    script: tuple[int, ...] | None = ()
    while script is not None:
        with tracing(protocol.on, ends_early=True, script=script) as trace:
            state = State(protocol.state, inputs)
            arguments = {name: value for name, (value, _) in choice.items()}
            try:
                returned: object = action.function(protocol, state, **arguments)  # type: ignore[func-returns-value]
                taken = True
            except NeverTaken:
                returned, taken = None, False
        script = next_script(trace.chosen)
        if returned is not None:
            raise LanguageError(
                f"action {action.name} returned a value; it writes s.next and returns nothing",
                place_of(action.function),
            )
        if taken:
            chosen = {name: plain for name, plain, *_ in trace.chosen}
            if both := sorted(set(chosen) & set(choice)):
                raise LanguageError(
                    f"action {action.name} has a parameter {both[0]!r} already: call the choice otherwise",
                    place_of(action.function),
                )
            yield Instance(
                action,
                {name: plain for name, (_, plain) in choice.items()} | chosen,
                guards_asked(trace),
                {leaf: w for leaf, w in sorted(trace.writes.items()) if w.node is not inputs[leaf]},
                tuple(bound_checks(trace, leaves)),
            )


def state_inputs(leaves: Sequence[Leaf], start: int = 0) -> list[Node]:
    """The input nodes for the scalars of a state, numbered from ``start`` on."""
    return [_input(i, leaf) for i, leaf in enumerate(leaves, start)]


def _input(number: int, leaf: Leaf) -> Node:
    """The input node of a scalar; a constant if its type has only one value."""
    if leaf.low == leaf.high:
        return graph.const(leaf.low, leaf.sort)
    return graph.leaf(number, leaf.sort, leaf.low, leaf.high)


@dataclass(frozen=True)
class Property:
    """A traced invariant, with its condition ``node``; for a reachability goal, the negated condition.

    States that do not satisfy ``premise`` satisfy the invariant vacuously.
    """

    invariant: Invariant
    node: Node
    premise: Node

    @property
    def name(self) -> str:
        """The invariant's name."""
        return self.invariant.name


@dataclass(frozen=True)
class Outline:
    """The names of a traced model's instances, bounds and properties, in the engines' order.

    A search needs only the outline and the model's machine code.
    """

    instances: tuple[str, ...]
    """For each instance, the name of its action."""
    bounds: tuple[str, ...]
    properties: tuple[str, ...]
    step_properties: tuple[str, ...]

    @property
    def safety(self) -> tuple[str, ...]:
        """The names of the invariants, then of the step properties."""
        return self.properties + self.step_properties


class Model:
    """A traced protocol. Construction traces every property, and every action once for each combination of choices.

    Choices are an action's parameter values and the values that the action chooses by ``one_of``. Raises
    LanguageError, with the place in the protocol's source, if the protocol misuses the language. If the ``outline`` of
    an equal model is given, nothing is traced before it is needed.
    """

    identity: bytes | None = None
    """The key under which results for this model are cached; None: nothing is cached."""

    def __init__(
        self,
        protocol: Protocol,
        invariants: Iterable[Invariant] = (),
        liveness: Iterable[Liveness] = (),
        step_properties: Iterable[StepProperty] = (),
        *,
        outline: Outline | None = None,
    ) -> None:
        self.protocol = protocol
        invariants, liveness, of_steps = tuple(invariants), tuple(liveness), tuple(step_properties)
        if outline is not None:
            self.outline = outline
        _check_names(protocol, (*invariants, *of_steps, *liveness))
        self.leaves: list[Leaf] = protocol.state.leaves("")
        self.inputs = state_inputs(self.leaves)
        self.actions = [a for a in protocol.actions() if protocol.has(a)]
        self._asked = invariants, liveness, of_steps
        if outline is None:  # trace now, so that construction raises the protocol's errors
            _ = self.instances, self.properties, self.step_properties, self.liveness, self.bounds

    @cached_property
    def instances(self) -> list[Instance]:
        """The instances of all actions, without instances that have a guard that is constant false."""
        return [
            instance
            for action in self.actions
            for choice in self.choices(action)
            for instance in self._trace_choice(action, choice)
        ]

    @cached_property
    def properties(self) -> list[Property]:
        """The traced invariants that exist under the model's rules and parameters."""
        return self._trace_invariants(self._asked[0])

    @cached_property
    def step_properties(self) -> list[TracedStepProperty]:
        """The traced step properties that exist under the model's rules and parameters."""
        return [trace_step_property(self, p) for p in self._asked[2] if self.protocol.has(p)]

    @cached_property
    def liveness(self) -> list[TracedLiveness]:
        """The traced liveness properties that exist under the model's rules and parameters."""
        return [trace_liveness(self, x) for x in self._asked[1] if self.protocol.has(x)]

    @cached_property
    def bounds(self) -> list[str]:
        """The names of the bounds at which steps can be pruned, sorted."""
        return sorted({c.bound for i in self.instances for c in i.checks if c.bound})

    @cached_property
    def after(self) -> list[Node]:
        """The input nodes of the state after a step, for step properties. They are numbered after ``inputs``."""
        return state_inputs(self.leaves, len(self.leaves))

    @cached_property
    def unchanged(self) -> Node:
        """The condition that the states before and after a step are equal."""
        return graph.all_(graph.eq(old, new) for old, new in zip(self.inputs, self.after, strict=True))

    @cached_property
    def judged(self) -> list[tuple[JudgedSteps, ...]]:
        """For each instance, its step properties as conditions on the state before the step (function ``judged``)."""
        return judged(self, large=True)

    @cached_property
    def judged_in_place(self) -> list[tuple[JudgedSteps, ...]]:
        """For each instance, its step properties as in ``judged``, without large ones (``is_large``)."""
        return judged(self, large=False)

    @cached_property
    def outline(self) -> Outline:
        """The names of the model's instances, bounds and properties."""
        return Outline(
            tuple(i.action.name for i in self.instances),
            tuple(self.bounds),
            tuple(p.name for p in self.properties),
            tuple(p.name for p in self.step_properties),
        )

    @property
    def safety(self) -> list[str]:
        """The names of invariants and step properties, in the engines' order."""
        return list(self.outline.safety)

    @cached_property
    def ruled_out(self) -> list[str]:
        """The names of actions without instances: a guard is always false, or an action's parameter has no values."""
        possible = set(self.outline.instances)
        return [a.name for a in self.actions if a.name not in possible]

    @cached_property
    def start(self) -> Start | None:
        """The initial states as families; None if the model has only the list ``initial``."""
        return start_of(self.protocol, self.inputs)

    @cached_property
    def initial(self) -> list[Scalars]:
        """All initial states, each once. Raises LanguageError if there are none, or too many to list."""
        assert self.start is not None
        states = self.start.states()
        if not states:
            raise LanguageError(NO_STATE, place_of(self.protocol.initially))
        return states

    @property
    def first_initial(self) -> Scalars:
        """An initial state. Raises LanguageError if there is none."""
        found = self.start.first() if self.start is not None else self.initial[0]
        if found is None:
            raise LanguageError(NO_STATE, place_of(self.protocol.initially))
        return found

    def is_initial(self, state: Scalars) -> bool:
        """True if the state is an initial state."""
        start = self.start
        if start is None or start.candidates < 64 or "initial" in vars(self):
            return state in self.initial
        return start.has(state)

    def parameters_of(self, action: Action) -> list[str]:
        """The names of an action's parameters, then the names of its choices by ``one_of``."""
        own = (name for i in self.instances if i.action is action for name in i.parameters)
        return list(dict.fromkeys((*action.domains, *own)))

    def decode(self, state: Sequence[int]) -> dict[str, Any]:
        """The state as plain values, by field name."""
        return self.protocol.state.decode(state)

    def property(self, name: str) -> Property:
        """The traced invariant of this name. Raises LanguageError if the model has no invariant of this name."""
        for found in self.properties:
            if found.name == name:
                return found
        known = ", ".join(p.name for p in self.properties) or "none"
        raise LanguageError(f"{self.protocol.name} has no property {name!r} here; it has {known}")

    def stated(self, name: str) -> Invariant | StepProperty:
        """The declaration of the invariant or step property of this name.

        Raises LanguageError if the model has neither of this name.
        """
        if name in self.outline.step_properties:
            return next(p.stated for p in self.step_properties if p.name == name)
        return self.property(name).invariant

    def step_condition(self, name: str) -> Node:
        """The condition of the step property of this name, on the states before and after a step.

        For a reachability goal it is the negated condition.
        """
        return next(p.node for p in self.step_properties if p.name == name)

    def enabled(self, name: str, parameters: Mapping[str, Any]) -> Truth:
        """The condition that the action with this name is enabled with these parameter values.

        Omitted parameters can have any value. Raises LanguageError if the action or a parameter is unknown.
        """
        known = {a.name: a for a in self.protocol.actions()}
        if name not in known:
            raise fail(
                f"{self.protocol.name} has no action {name!r}; it has {', '.join(known)}{meant(name, known)}"
            )
        for parameter in parameters:
            if parameter not in (names := self.parameters_of(known[name])):
                raise fail(f"{name} has no parameter {parameter!r}; it has {', '.join(names) or 'none'}")
        wanted = {p: v._plain() if isinstance(v, Value) else v for p, v in parameters.items()}
        own = (i for i in self.instances if i.action.name == name)
        fitting = (i for i in own if all(i.parameters.get(p) == v for p, v in wanted.items()))
        return Truth(None, (graph.any_(i.enabled for i in fitting),))

    def _trace_invariants(self, invariants: Iterable[Invariant]) -> list[Property]:
        return [self.trace_invariant(i) for i in invariants if self.protocol.has(i)]

    def beginning(self, states: Sequence[Scalars]) -> Model:
        """A model with the same steps and properties that begins in these states."""
        model = copy.copy(self)
        model.start, model.initial = None, list(states)
        return model

    def seeking(self, sought: Node, state: Scalars) -> Model:
        """A model with the same steps that begins in ``state``. Its one property is violated where ``sought`` holds."""
        model = self.beginning([state])
        for judging in ("step_properties", "liveness", "judged", "judged_in_place"):
            vars(model).pop(judging, None)
        model._asked = (), (), ()
        seen = Invariant("the state that is looked for", lambda m, s: True, "")
        model.properties = [Property(seen, graph.not_(sought), graph.TRUE)]
        return model

    def choices(self, action: Action) -> Iterator[Choice]:
        """All combinations of parameter values of an action; each maps names to (symbolic value, plain value)."""
        yield from choices_of(self.protocol, action)

    def _trace_choice(self, action: Action, choice: Choice) -> Iterable[Instance]:
        return trace_instances(self.protocol, self.leaves, self.inputs, action, choice)

    def trace_invariant(self, invariant: Invariant) -> Property:
        """Trace an invariant on this model's state.

        Raises LanguageError if the invariant writes or requires something.
        """
        return Property(invariant, *_condition(self, f"invariant {invariant.name}", invariant, self.inputs))


def _condition(
    model: Model, what: str, stated: Invariant | StepProperty, *states: Sequence[Node]
) -> tuple[Node, Node]:
    """The condition and the premise of a property, on these states. The condition of a goal is negated.

    Raises LanguageError if the property writes or requires something; ``what`` names it in the message.
    """
    protocol, where = model.protocol, place_of(stated.function)
    protocol.check_sources([stated])
    with looking(what, where, protocol.on, model.enabled) as trace:
        result = stated.function(protocol, *(State(protocol.state, list(nodes)) for nodes in states))
    node = returned_condition(result, what, where).node
    return graph.not_(node) if stated.goal else node, trace.premise


def _check_names(protocol: Protocol, properties: Iterable[Invariant | StepProperty | Liveness]) -> None:
    """Raises LanguageError if two properties have the same name, or a property names an unknown rule or parameter."""
    properties = tuple(properties)
    check_names(type(protocol).__name__, properties)
    for found in properties:
        check_conditions(protocol, found)


# Step properties.


def condition_of_steps(model: Model, stated: StepProperty) -> tuple[Node, Node]:
    """The condition and the premise of a step property, on the states before and after a step.

    For a reachability goal the condition is negated.
    """
    return _condition(model, f"step property {stated.name}", stated, model.inputs, model.after)


def trace_step_property(model: Model, stated: StepProperty) -> TracedStepProperty:
    """Trace a step property. The traced property holds for every step that changes nothing."""
    node, premise = condition_of_steps(model, stated)
    still = {n.value: old for n, old in zip(model.after, model.inputs, strict=True) if not n.is_const}
    at_rest, premise_at_rest = substituted([node, premise], still)
    first = len(model.leaves)
    read = frozenset(number - first for number in inputs_of([node, premise]) if number >= first)
    needs_change = at_rest is graph.TRUE and premise_at_rest is graph.FALSE
    instances = _instances_writing(model, read if at_rest is graph.TRUE else range(first))
    if at_rest is not graph.TRUE:
        node = graph.or_(node, model.unchanged)
    return TracedStepProperty(stated, node, premise, instances, read if needs_change else None)


def _instances_writing(model: Model, leaves: Collection[int]) -> frozenset[int]:
    return frozenset(n for n, i in enumerate(model.instances) if any(leaf in leaves for leaf in i.writes))


def judged(model: Model, *, large: bool) -> list[tuple[JudgedSteps, ...]]:
    """For each instance, its step properties as conditions on the state before the step.

    A property is omitted if the instance cannot violate it (``asked``), or if it holds vacuously for every step of the
    instance. Without ``large``, large properties (``is_large``) are omitted, too.
    """
    chosen = {i: (p.node, p.premise) for i, p in enumerate(model.step_properties) if large or not p.is_large}
    of_a_step = OfAStep(model.inputs, itertools.chain.from_iterable(chosen.values()))
    found: list[tuple[JudgedSteps, ...]] = []
    for number, instance in enumerate(model.instances):
        relevant = [i for i in chosen if number in model.step_properties[i].asked]
        roots = [node for i in relevant for node in chosen[i]]
        nodes = of_a_step.substituted(roots, {i: write.node for i, write in instance.writes.items()})
        steps = map(JudgedSteps, relevant, nodes[::2], nodes[1::2])
        found.append(tuple(s for s in steps if s.node is not graph.TRUE or s.premise is not graph.FALSE))
    return found


# Liveness properties, and the steps that they assume to be fair.


def trace_liveness(model: Model, liveness: Liveness) -> TracedLiveness:
    """Trace a liveness property on a model: one case for each combination of parameter values."""
    model.protocol.check_sources([liveness])
    cases, where = [], place_of(liveness.function)
    for choice in choices_of(model.protocol, liveness):
        symbolic = {name: value for name, (value, _) in choice.items()}
        plain = {name: value for name, (_, value) in choice.items()}
        cases.append(_case(liveness, _look(model, liveness.name, liveness.function, symbolic), plain))
    if not cases:
        raise LanguageError(f"the parameters of {liveness.name} have no values: it says nothing", where)
    assumed = [each for fairness in liveness.fair for each in _without_tags(model, liveness, fairness)]
    groups = tuple(group for fairness in assumed for group in _groups(model, liveness, fairness))
    return TracedLiveness(liveness, tuple(cases), groups)


def _look(model: Model, name: str, function: Callable[..., Any], parameters: Mapping[str, Any]) -> Any:
    """Trace a function of (protocol, state, parameters) and return its result.

    Raises LanguageError if the function writes or requires something.
    """
    what, protocol = f"liveness property {name}", model.protocol
    with looking(what, place_of(function), protocol.on, model.enabled):
        return function(protocol, State(protocol.state, model.inputs), **parameters)


def _case(liveness: Liveness, returned: Any, parameters: Mapping[str, Any]) -> Case:
    kind, where = liveness.kind, place_of(liveness.function)
    what, premise = f"liveness property {liveness.name}", graph.TRUE
    if isinstance(returned, tuple):
        if len(returned) != 2 or kind is Kind.ALWAYS_EVENTUALLY:
            only = "the goal" if kind is Kind.ALWAYS_EVENTUALLY else "(premise, goal)"
            raise LanguageError(f"the {kind} property {liveness.name} returns {only}", where)
        first, returned = returned
        premise = returned_condition(first, what, where).node
        premise = graph.or_(premise, undefined(as_bool(first).node))
    elif kind in (Kind.LEADS_TO, Kind.LEADS_TO_ALWAYS):
        raise LanguageError(f"the {kind} property {liveness.name} returns (premise, goal)", where)
    goals = list(returned) if kind.lasting and isinstance(returned, (list, Iterator)) else [returned]
    if not goals:
        raise LanguageError(f"{what} returned no goal at all", where)
    return Case(premise, tuple(returned_condition(goal, what, where).node for goal in goals), parameters)


def _without_tags(model: Model, liveness: Liveness, fairness: Fairness) -> Iterator[Fairness]:
    """The fairness assumption with each tag replaced by its actions.

    A tag outside of ``either`` gives one assumption for each action.
    """
    actions = model.protocol.actions()
    check_actions(model.protocol, liveness.name, place_of(liveness.function), [fairness])
    names: list[str] = []
    for named in fairness.actions:
        names += [a.name for a in actions if named in a.tags] if isinstance(named, Tag) else [named]
    if fairness.apart:
        yield from (replace(fairness, actions=(own,)) for own in names)
    else:
        yield replace(fairness, actions=tuple(dict.fromkeys(names)))


def _groups(model: Model, liveness: Liveness, fairness: Fairness) -> Iterator[FairGroup]:
    """The groups of steps of a fairness assumption: one for each combination of values of the parameters ``by``."""
    known = {a.name: a for a in model.protocol.actions()}
    shared = set.intersection(*(set(model.parameters_of(known[a])) for a in fairness.actions))
    by = fairness.by
    if by is None:
        by = tuple(d for d in known[fairness.actions[0]].domains if d in shared and d not in fairness.only)
    for parameter in (*by, *fairness.only):
        if parameter not in shared:
            names = " and ".join(fairness.actions)
            raise LanguageError(
                f"{liveness.name}: {names} have no parameter {parameter!r} (in common)",
                place_of(liveness.function),
            )
    found: dict[str, set[int]] = {}
    choices: dict[str, dict[str, Any]] = {}
    for number, instance in enumerate(model.instances):
        given = instance.parameters
        fits = all(p in given and given[p] == value for p, value in fairness.only.items())
        if instance.action.name in fairness.actions and fits:
            chosen = {p: given[p] for p in by if p in given}
            choice = ", ".join(f"{p}={value}" for p, value in chosen.items())
            found.setdefault(choice, set()).add(number)
            choices[choice] = chosen
    for choice, numbers in found.items():
        strength, names = "strong" if fairness.strong else "weak", " or ".join(fairness.actions)
        label, when = f"{strength} {names}({choice}){fairness.condition}", None
        if fairness.when is not None:
            takes(fairness.when, f"when= of {liveness.name}", "protocol", "state", domains=choices[choice])
            returned = _look(model, liveness.name, fairness.when, choices[choice])
            what, where = f"the condition of {label}", place_of(fairness.when)
            when = returned_condition(returned, what, where).node
            if undefined(as_bool(returned).node) is not graph.FALSE:
                raise LanguageError(f"{what} divides by what can be zero: put the case in a where()", where)
        yield FairGroup(label, fairness.strong, frozenset(numbers), when)
