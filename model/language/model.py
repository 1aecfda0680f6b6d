"""A protocol traced for one choice of parameters and rules: what every engine reads."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from highwater.model.language import graph, values
from highwater.model.language.domains import parameter_values
from highwater.model.language.errors import LanguageError, fail, meant, place_of
from highwater.model.language.graph import INT, Node
from highwater.model.language.initial import Scalars, Start, start_of
from highwater.model.language.liveness import Liveness, TracedLiveness, trace_liveness
from highwater.model.language.protocol import Action, Invariant, Protocol, check_conditions
from highwater.model.language.state import State
from highwater.model.language.step_properties import (
    JudgedSteps,
    StepProperty,
    TracedStepProperty,
    judged,
    trace_step_property,
)
from highwater.model.language.tracing import (
    Check,
    Guard,
    NeverTaken,
    Write,
    bound_checks,
    guards_asked,
    next_script,
    returned_condition,
    tracing,
)
from highwater.model.language.types import Leaf

Choice = Mapping[str, tuple[Any, Any]]
"""An action's parameters, each with its symbolic value and a plain one."""
NO_STATE = "initially() holds in none of the states that initial() gives"
"""What is said where there is no initial state."""


def said(value: object) -> object:
    """A plain value as reports show it: ``none``, ``true`` and ``false`` replace Python's names."""
    return str(value).lower() if value is None or isinstance(value, bool) else value


@dataclass(frozen=True)
class Instance:
    """An action with its parameters fixed: guards, next scalars, and conditions that leave a type.

    A step is enabled where all guards hold. An enabled step that meets a check with a bound is cut there and
    counted; else, one that meets a check without a bound is an error in the protocol; else it leads to the
    state in which ``writes`` (leaf number to value) have replaced the old scalars.
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
        """Whether a step can be taken and leads to a state: it is enabled, and meets no check."""
        return graph.and_(self.enabled, graph.not_(graph.any_(c.node for c in self.checks)))

    def __str__(self) -> str:
        return f"{self.action.name}({', '.join(f'{k}={v}' for k, v in self.said.items())})"

    @property
    def said(self) -> dict[str, object]:
        """The parameter values as reports show them."""
        return {name: said(value) for name, value in self.parameters.items()}

    @property
    def sentence(self) -> str:
        """What happens, in the protocol's words, and what the action chose itself."""
        own = [f"{name} {value}" for name, value in self.said.items() if name not in self.action.domains]
        said = self.action.says.format(**self.said)
        return f"{said} ({', '.join(own)})" if own and said else said


@dataclass(frozen=True)
class Property:
    """An invariant traced: ``node`` holds in good states, ``premise`` where it has something to say."""

    invariant: Invariant
    node: Node
    premise: Node

    @property
    def name(self) -> str:
        """The invariant's name."""
        return self.invariant.name


@dataclass(frozen=True)
class Outline:
    """Names of what was traced, in the order in which engines number it: a search needs no more beside its code."""

    instances: tuple[str, ...]
    """For each instance that of its action."""
    bounds: tuple[str, ...]
    properties: tuple[str, ...]
    step_properties: tuple[str, ...]

    @property
    def safety(self) -> tuple[str, ...]:
        """What is asked of states and of steps."""
        return self.properties + self.step_properties


class Model:
    """A protocol, traced. Construction runs every action (once per choice of parameters) and every property.

    ``properties`` are the invariants, ``step_properties`` those of steps, ``liveness`` those of runs. Raises
    LanguageError, with the place in the protocol's source, where the protocol misuses the language.
    """

    identity: bytes | None = None
    """The name under which is kept what is found out about the model; None where it is nobody's, or was changed."""

    def __init__(
        self,
        protocol: Protocol,
        invariants: Iterable[Invariant] = (),
        liveness: Iterable[Liveness] = (),
        step_properties: Iterable[StepProperty] = (),
    ) -> None:
        self.protocol = protocol
        invariants, liveness, of_steps = tuple(invariants), tuple(liveness), tuple(step_properties)
        _check_names(protocol, (*invariants, *of_steps, *liveness))
        self.leaves: list[Leaf] = protocol.state.leaves("")
        self.inputs = state_inputs(self.leaves)
        self.actions = [a for a in protocol.actions() if protocol.has(a)]
        self._asked = invariants, liveness, of_steps
        self._trace()

    def _trace(self) -> None:
        """Trace all of it now, so that what is wrong with the protocol is said here."""
        _ = self.instances, self.properties, self.step_properties, self.liveness, self.bounds

    @cached_property
    def instances(self) -> list[Instance]:
        """Every action with every choice of its parameters, as far as it can ever be taken."""
        return [instance for action in self.actions for instance in self._trace_action(action)]

    @cached_property
    def properties(self) -> list[Property]:
        """The invariants that exist under these rules."""
        return self._trace_invariants(self._asked[0])

    @cached_property
    def step_properties(self) -> list[TracedStepProperty]:
        """The properties of steps that exist under these rules."""
        return [trace_step_property(self, p) for p in self._asked[2] if self.protocol.has(p)]

    @cached_property
    def liveness(self) -> list[TracedLiveness]:
        """The liveness properties that exist under these rules."""
        return [trace_liveness(self, x) for x in self._asked[1] if self.protocol.has(x)]

    @cached_property
    def bounds(self) -> list[str]:
        """The bounds at which steps can be cut."""
        return sorted({c.bound for i in self.instances for c in i.checks if c.bound})

    @cached_property
    def after(self) -> list[Node]:
        """The scalars of the state after a step, for properties of steps: inputs numbered behind those before it."""
        return state_inputs(self.leaves, len(self.leaves))

    @cached_property
    def unchanged(self) -> Node:
        """Whether the states before and after a step are the same."""
        return graph.all_(graph.eq(old, new) for old, new in zip(self.inputs, self.after, strict=True))

    @cached_property
    def judged(self) -> list[tuple[JudgedSteps, ...]]:
        """For each instance, what the properties of steps say of its steps, over the state before alone."""
        return judged(self, large=True)

    @cached_property
    def judged_in_place(self) -> list[tuple[JudgedSteps, ...]]:
        """The same without the large properties, which are asked as they are."""
        return judged(self, large=False)

    @property
    def outline(self) -> Outline:
        """Names of what was traced."""
        return Outline(
            tuple(i.action.name for i in self.instances),
            tuple(self.bounds),
            tuple(p.name for p in self.properties),
            tuple(p.name for p in self.step_properties),
        )

    @property
    def safety(self) -> list[str]:
        """The names of what is asked of states and of steps, in the order in which engines number them."""
        return list(self.outline.safety)

    @cached_property
    def ruled_out(self) -> list[str]:
        """The names of actions without instances: with these parameters their guards cannot hold."""
        possible = set(self.outline.instances)
        return [a.name for a in self.actions if a.name not in possible]

    @cached_property
    def start(self) -> Start | None:
        """What the initial states are, which can be many; None of a model that has only the list of them."""
        return start_of(self.protocol, self.inputs)

    @cached_property
    def initial(self) -> list[Scalars]:
        """The initial states, each once; LanguageError where there is none."""
        assert self.start is not None
        states = self.start.states()
        if not states:
            raise LanguageError(NO_STATE, place_of(self.protocol.initially))
        return states

    @property
    def first_initial(self) -> Scalars:
        """One of the initial states, which can be many; LanguageError where there is none."""
        found = self.start.first() if self.start is not None else self.initial[0]
        if found is None:
            raise LanguageError(NO_STATE, place_of(self.protocol.initially))
        return found

    def is_initial(self, state: Scalars) -> bool:
        """Whether a state is an initial one."""
        start = self.start
        if start is None or start.candidates < 64 or "initial" in vars(self):
            return state in self.initial
        return start.has(state)

    def parameters_of(self, action: Action) -> list[str]:
        """What tells the instances of an action apart: its parameters, and the choices that it makes itself."""
        own = (name for i in self.instances if i.action is action for name in i.parameters)
        return list(dict.fromkeys((*action.domains, *own)))

    def decode(self, state: Sequence[int]) -> dict[str, Any]:
        """A state as plain, readable values."""
        return self.protocol.state.decode(state)

    def property(self, name: str) -> Property:
        """The traced invariant of this name; LanguageError where there is none."""
        for found in self.properties:
            if found.name == name:
                return found
        known = ", ".join(p.name for p in self.properties) or "none"
        raise LanguageError(f"{self.protocol.name} has no property {name!r} here; it has {known}")

    def stated(self, name: str) -> Invariant | StepProperty:
        """The invariant or the property of steps of this name, as it is stated; LanguageError as of ``property``."""
        if name in self.outline.step_properties:
            return next(p.stated for p in self.step_properties if p.name == name)
        return self.property(name).invariant

    def step_condition(self, name: str) -> Node:
        """What the property of steps of this name says of the states before and after a step that changes something."""
        return next(p.node for p in self.step_properties if p.name == name)

    def instance(self, number: int) -> Instance:
        """The instance of this number."""
        return self.instances[number]

    def enabled(self, name: str, parameters: Mapping[str, Any]) -> values.Truth:
        """Whether a step of an action with these parameters, as plain values, can be taken."""
        known = {a.name: a for a in self.protocol.actions()}
        if name not in known:
            raise fail(
                f"{self.protocol.name} has no action {name!r}; it has {', '.join(known)}{meant(name, known)}"
            )
        for parameter in parameters:
            if parameter not in (names := self.parameters_of(known[name])):
                raise fail(f"{name} has no parameter {parameter!r}; it has {', '.join(names) or 'none'}")
        wanted = {p: v._plain() if isinstance(v, values.Value) else v for p, v in parameters.items()}
        own = (i for i in self.instances if i.action.name == name)
        fitting = (i for i in own if all(i.parameters.get(p) == v for p, v in wanted.items()))
        return values.Truth(None, (graph.any_(i.enabled for i in fitting),))

    def _trace_invariants(self, invariants: Iterable[Invariant]) -> list[Property]:
        return [self.trace_invariant(i) for i in invariants if self.protocol.has(i)]

    def choices(self, action: Action) -> Iterator[Choice]:
        """All choices of an action's parameters: each as a symbolic value and as a plain one."""
        for choice in itertools.product(
            *(parameter_values(self.protocol, action, p) for p in action.domains)
        ):
            yield dict(zip(action.domains, choice, strict=True))

    def _trace_action(self, action: Action) -> Iterable[Instance]:
        for choice in self.choices(action):
            yield from self._trace_choice(action, choice)

    def _trace_choice(self, action: Action, choice: Choice) -> Iterable[Instance]:
        return trace_instances(self.protocol, self.leaves, self.inputs, action, choice)

    def trace_invariant(self, invariant: Invariant) -> Property:
        """An invariant on this model's state. LanguageError where it does more than look."""
        self.protocol.check_sources([invariant])
        with tracing(self.protocol.on, enabled=self.enabled) as trace:
            result = invariant.function(self.protocol, State(self.protocol.state, self.inputs))
        where = place_of(invariant.function)
        if trace.writes or trace.guards:
            raise LanguageError(
                f"invariant {invariant.name} writes or requires something; it only looks", where
            )
        node = returned_condition(result, f"invariant {invariant.name}", where).node
        node = graph.not_(node) if invariant.goal else node
        premise = graph.any_(trace.premises) if trace.premises else graph.TRUE
        return Property(invariant, node, premise)


def trace_instance(
    protocol: Protocol,
    leaves: list[Leaf],
    inputs: list[Node],
    action: Action,
    choice: Choice,
) -> Instance | None:
    """Run an action on symbolic inputs, one a leaf, with its parameters fixed; None where it can never be taken.

    ``choice`` gives each parameter as a symbolic value and as a plain one. LanguageError where the action chooses more
    than its parameters (``one_of``), so that it has several instances.
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
    """As ``trace_instance``, an instance for each of the choices that the action makes itself (``one_of``)."""
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


def _check_names(protocol: Protocol, properties: Iterable[Invariant | StepProperty | Liveness]) -> None:
    """LanguageError where two properties have one name, or one belongs to a rule that there is not."""
    seen: dict[str, object] = {}
    for found in properties:
        where = place_of(found.function)
        if seen.setdefault(found.name, found) is not found:
            raise LanguageError(f"two properties have the name {found.name!r}", where)
        check_conditions(protocol, found)


def state_inputs(leaves: Sequence[Leaf], start: int = 0) -> list[Node]:
    """The scalars of a state as symbolic values, numbered from ``start`` on; 0: of the one before a step."""
    return [_input(i, leaf) for i, leaf in enumerate(leaves, start)]


def _input(number: int, leaf: Leaf) -> Node:
    """A scalar of a state; known while tracing where its type has one value only."""
    if leaf.low == leaf.high:
        return graph.const(leaf.low, leaf.sort)
    return graph.leaf(number, leaf.sort, leaf.low, leaf.high)


# The states just outside a scenario's bounds: looked at, and not gone on from.
#
# A step that crosses a bound is cut, so no invariant is asked of the state that it leads to. In a model
# whose types were
# widened (``types.widening``) there is room for that state. Here its steps are told to start inside the
# bounds.


def beyond(leaves: Sequence[Leaf], nodes: Sequence[Node]) -> Node:
    """Whether a state, given by its scalars, is outside the bounds that its types were widened from."""
    return graph.any_(_over(leaf, node) for leaf, node in zip(leaves, nodes, strict=True))


def confine(model: Model) -> Node:
    """Let steps of a widened model start inside the bounds only; gives whether a state is outside.

    What is an error inside the bounds is none in a step that crosses one: it is cut there, as without widening.
    """
    outside = beyond(model.leaves, model.inputs)
    inside = Guard("the state is inside the bounds", graph.not_(outside))
    model.instances = [_confined(model.leaves, instance, inside) for instance in model.instances]
    model.bounds = sorted({c.bound for i in model.instances for c in i.checks if c.bound})
    return outside


def _confined(leaves: Sequence[Leaf], instance: Instance, inside: Guard) -> Instance:
    errors = [check for check in instance.checks if check.bound is None]
    crossing = [
        Check(
            number,
            graph.and_(error.node, _over(leaves[number], write.node)),
            leaves[number].bound,
            *told(error),
        )
        for error in errors
        for number, write in instance.writes.items()
        if leaves[number].limit is not None
    ]
    checks = (*instance.checks, *(check for check in crossing if check.node is not graph.FALSE))
    return replace(instance, guards=(inside, *instance.guards), checks=checks)


def told(check: Check) -> tuple[str, str | None]:
    """What a check says, and where."""
    return check.message, check.place


def _over(leaf: Leaf, node: Node) -> Node:
    if leaf.limit is None:
        return graph.FALSE
    return graph.lt(graph.const(leaf.limit, INT), node)
