"""Proof by induction for an index of any size: a protocol is proved once, for every number of brokers.

The protocol is traced with an index whose size is not known (``highwater.model.language.any_size``). Each action and
invariant gives an obligation that holds for all sizes if a solver refutes its negation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import z3

from highwater.checker.base.processes import answers
from highwater.checker.engines.solver.induction import INITIAL, WITHIN_TYPES
from highwater.checker.engines.solver.smt import ATTEMPTS, Obligation, Script
from highwater.checker.engines.solver.terms import BEYOND, Limits, Stopped, interrupts_held
from highwater.model.language import (
    Action,
    Invariant,
    LanguageError,
    Model,
    Protocol,
    State,
    StepProperty,
    graph,
)
from highwater.model.language.any_size import STAND_INS, AnySize, Shapes, irregular
from highwater.model.language.graph import Node, substituted
from highwater.model.language.model import Instance, Outline, condition_of_steps, trace_instances
from highwater.model.language.tracing import choices_of, looking, returned_condition
from highwater.model.language.types import Int, Leaf, Type, as_bool

LISTED_TWICE = "listed_once"
"""The name of a condition that is checked for every action: two sequences that are joined have no common element."""


@dataclass(frozen=True)
class Obligations:
    """The obligations of a protocol, and the parts whose trace depends on the size, each with the reason."""

    obligations: tuple[Obligation, ...]
    irregular: Mapping[str, str]
    actions: tuple[str, ...]
    properties: tuple[str, ...]


class OpenTrace:
    """A protocol traced with one stand-in for the unknown size."""

    def __init__(
        self,
        kind: type[Protocol],
        parameters: Mapping[str, int],
        rules: Iterable[str],
        invariants: Iterable[Invariant],
        step_properties: Iterable[StepProperty],
        size: int,
    ) -> None:
        self.size = size
        self._fingerprint = Shapes(size)
        self.protocol = _open(kind, size)(parameters, rules)
        self.model = Model(self.protocol, outline=Outline((), (), (), ()))
        self.leaves = self.model.leaves
        self.irregular: dict[str, str] = {}
        self.obligations: list[Obligation] = []
        self.fingerprints: dict[tuple[str, str, int], list[str]] = {}
        self.invariants = self._properties(invariants, lambda i: self.model.trace_invariant(i).node)
        self.steps = self._properties(step_properties, lambda p: condition_of_steps(self.model, p)[0])
        self.actions: list[str] = []

    def _properties(self, stated: Iterable[Any], traced: Callable[[Any], Node]) -> dict[str, Node]:
        """The traced conditions of the properties that exist, without those that depend on the size."""
        own = [p for p in stated if self.protocol.has(p)]
        found = {p.name: self._checked(p.name, partial(traced, p)) for p in own}
        return {name: node for name, node in found.items() if node is not None}

    def _checked(self, name: str, traced: Callable[[], Node]) -> Node | None:
        """The traced condition; None if it depends on the size, which is then recorded."""
        try:
            node = traced()
        except (LanguageError, TypeError) as wrong:
            self.irregular[name] = str(wrong)
            return None
        return node if self._is_regular(name, [node]) else None

    def _is_regular(self, name: str, nodes: Iterable[Node]) -> bool:
        reason = next(irregular(nodes, self.size), None)
        if reason is not None:
            self.irregular[name] = reason
        return reason is None

    def _oblige(
        self, action: str, name: str, own: Iterable[Leaf], premises: Iterable[Node], conclusion: Node
    ) -> None:
        """Add an obligation for each part of a conjunction."""
        parts = [n for n in graph.conjuncts([conclusion]) if n.op != "and" and n is not graph.TRUE]
        leaves = {**dict(enumerate(self.leaves)), **dict(enumerate(own, self._parameters))}
        premises = list(premises)
        for part in sorted(parts, key=self._fingerprint):
            number = sum((o.action, o.property) == (action, name) for o in self.obligations)
            key = action, name, number
            self.fingerprints[key] = list(map(self._fingerprint, [*premises, part]))
            script = Script(leaves, self.size)
            self.obligations.append(script.obligation(action, name, number, premises, part))

    @property
    def _parameters(self) -> int:
        """The number of the first scalar of a step's parameters: those of the states before and after come first."""
        return 2 * len(self.leaves)

    def initial(self) -> None:
        """The obligations of the initial states."""
        protocol, model = self.protocol, self.model

        def condition() -> Node:
            with looking("any_initial()", None, protocol.on):
                result = protocol.any_initial(State(protocol.state, model.inputs))
            return returned_condition(result, "any_initial()", None).node

        begins = self._checked(INITIAL, condition)
        for name, node in self.invariants.items():
            if begins is not None:
                self._oblige(INITIAL, name, (), [begins], node)

    def action(self, action: Action) -> None:
        """The obligations of an action."""
        try:
            found = list(self.instances(action))
        except LanguageError as wrong:
            self.irregular[action.name] = str(wrong)
            return
        if found:
            self.actions.append(action.name)
        for own, instance, _ in found:
            self._step(action.name, own, instance)

    def instances(self, action: Action) -> Iterator[tuple[list[Leaf], Instance, dict[str, Type]]]:
        """The action's instances, each with the scalars and the types of the parameters that are inputs.

        Parameters that range over a type or over numbers are inputs.
        """
        protocol, model = self.protocol, self.model
        own: list[Leaf] = []
        choice: dict[str, tuple[Any, Any]] = {}
        listed: dict[str, str] = {}
        types: dict[str, Type] = {}
        for name, attribute in action.domains.items():
            domain = getattr(protocol, attribute)
            if isinstance(domain, range) and domain:
                domain = Int(domain.start, domain[-1])
            if not isinstance(domain, Type):
                listed[name] = attribute
                continue
            leaves = domain.leaves(name)
            start = self._parameters + len(own)
            nodes = [
                graph.const(x.low, x.sort)
                if x.low == x.high
                else graph.leaf(start + i, x.sort, x.low, x.high)
                for i, x in enumerate(leaves)
            ]
            own += leaves
            types[name] = domain
            choice[name] = domain.wrap(nodes), None
        inputs = [*model.inputs, *model.after]
        inputs += [graph.leaf(self._parameters + i, x.sort, x.low, x.high) for i, x in enumerate(own)]
        rest = Action(action.name, action.function, listed)
        for given in choices_of(protocol, rest):
            for instance in trace_instances(protocol, self.leaves, inputs, action, {**choice, **given}):
                yield own, instance, types

    def _step(self, action: str, own: list[Leaf], instance: Instance) -> None:
        after = [
            instance.writes[i].node if i in instance.writes else n for i, n in enumerate(self.model.inputs)
        ]
        nodes = [instance.enabled, *after, *(c.node for c in instance.checks)]
        if not self._is_regular(action, nodes):
            return
        before = list(self.invariants.values())
        cut = graph.any_(c.node for c in instance.checks if c.bound)
        error = graph.any_(c.node for c in instance.checks if not c.bound)
        premises = [*before, instance.enabled, graph.not_(cut)]
        self._oblige(action, WITHIN_TYPES, own, premises, graph.not_(error))
        self._oblige(action, LISTED_TWICE, own, premises, _joined_once(after))
        first = len(self.leaves)
        new = {n.value: after[i] for i, n in enumerate(self.model.inputs) if not n.is_const}
        both = {first + i: node for i, node in enumerate(after)}
        premises.append(graph.not_(error))
        for name, node in self.invariants.items():
            then = substituted([node], new)[0]
            self._oblige(action, name, own, premises, graph.TRUE if then is node else then)
        for name, node in self.steps.items():
            self._oblige(action, name, own, premises, substituted([node], both)[0])


def _joined_once(nodes: Iterable[Node]) -> Node:
    """The condition that all sequences that are joined have no element in common."""
    joins = [n for n in graph.reachable(nodes) if n.op == "after"]
    return graph.all_(graph.eq(graph.intersection(n.args[2], n.args[3]), graph.EMPTY) for n in joins)


def _open(kind: type[Protocol], size: int) -> type[Protocol]:
    """The protocol with an unknown number for the parameter ``any_size``. Raises LanguageError if it has none."""
    if not kind.any_size:
        raise LanguageError(f"{kind.name} has no index of any size: its class names no parameter `any_size`")

    opened: type[Protocol]

    def define(self: Any) -> Any:
        sized, *others = kind.any_size
        setattr(self.p, sized, AnySize(size))
        for name in others:
            if getattr(self.p, name):
                setattr(self.p, name, BEYOND)
        return super(opened, self).define()

    opened = type(kind.__name__, (kind,), {"define": define})
    return opened


def trace(
    kind: type[Protocol],
    parameters: Mapping[str, int],
    rules: Iterable[str],
    invariants: Iterable[Invariant],
    step_properties: Iterable[StepProperty] = (),
) -> Obligations:
    """The obligations of a protocol for every size of the index that its parameter ``any_size`` gives the size of.

    An action or a property whose trace depends on the size is in ``irregular``, and has no obligations.
    """
    rules, invariants, of_steps = list(rules), list(invariants), list(step_properties)
    found = []
    for size in STAND_INS:
        traced = OpenTrace(kind, parameters, rules, invariants, of_steps, size)
        traced.initial()
        for action in traced.model.actions:
            traced.action(action)
        found.append(traced)
    one, other = found
    if (wrong := _initial_states(kind, parameters, rules)) is not None:
        one.irregular.setdefault(INITIAL, wrong)
    bad = one.irregular | other.irregular
    for key in one.fingerprints.keys() | other.fingerprints.keys():
        if one.fingerprints.get(key) != other.fingerprints.get(key):
            bad.setdefault(key[0], "its trace depends on the number of values of the index")
    kept = tuple(o for o in one.obligations if o.action not in bad and o.property not in bad)
    return Obligations(kept, bad, tuple(one.actions), (*one.invariants, *one.steps))


SIZES = range(1, 5)
"""The sizes for which the initial states are compared with ``any_initial``."""


def _initial_states(kind: type[Protocol], parameters: Mapping[str, int], rules: list[str]) -> str | None:
    """The reason why an initial state of a small size does not satisfy ``any_initial``; None if all do."""
    for size in SIZES:
        protocol = kind({**parameters, kind.any_size[0]: size}, rules)
        model = Model(protocol, outline=Outline((), (), (), ()))
        try:
            with looking("any_initial()", None, protocol.on):
                node = as_bool(protocol.any_initial(State(protocol.state, model.inputs))).node
        except (LanguageError, TypeError) as wrong:
            return f"any_initial(): {wrong}"
        if not all(graph.values_of([node], state)[0] for state in model.initial):
            return f"an initial state of size {size} does not satisfy any_initial()"
    return None


@dataclass(frozen=True)
class Decided:
    """A solver's answer to an obligation: ``unsat`` (proved), ``sat`` or ``unknown``, and the time in seconds."""

    obligation: Obligation
    answer: str
    seconds: float


@dataclass
class AnySizeResult:
    """The answers to all obligations. ``stopped_by``: the limit that ended the proof, or None."""

    traced: Obligations
    decided: list[Decided] = field(default_factory=list)
    stopped_by: str | None = None
    seconds: float = 0.0

    @property
    def failures(self) -> list[Decided]:
        """The obligations that the solver did not prove."""
        return [d for d in self.decided if d.answer != "unsat"]

    @property
    def proved(self) -> bool:
        """True if all obligations are proved, and no action or property depends on the size."""
        whole = len(self.decided) == len(self.traced.obligations)
        return whole and not (self.stopped_by or self.failures or self.traced.irregular)


def decide(
    traced: Obligations, limits: Limits, workers: int = 1, progress: Callable[[Decided], None] | None = None
) -> AnySizeResult:
    """Ask Z3 for each obligation, ``workers`` obligations at the same time."""
    result = AnySizeResult(traced)
    started = limits.used
    try:
        for _, decided in answers(list(traced.obligations), lambda o: ask(o, limits), workers):
            result.decided.append(decided)
            if progress:
                progress(decided)
    except Stopped as stopped:
        result.stopped_by = stopped.why
    except KeyboardInterrupt:
        result.stopped_by = "interrupted"
    result.seconds = limits.used - started
    return result


def ask(
    obligation: Obligation,
    limits: Limits,
    attempts: Iterable[tuple[Sequence[int], float]] = ATTEMPTS,
) -> Decided:
    """Z3's answer to an obligation, after ``attempts``: groups of facts, and the most seconds for each.

    Raises Stopped if a limit of the whole proof is reached.
    """
    began, answer = limits.used, "unknown"
    for groups, seconds in attempts:
        left = seconds if limits.seconds is None else min(seconds, limits.seconds - limits.used)
        solver = z3.SimpleSolver()
        with interrupts_held():
            solver.from_string(obligation.text(groups).replace("(check-sat)", ""))
            try:
                answer = "sat" if Limits(left, limits.memory_bytes).check(solver) else "unsat"
            except Stopped as stopped:
                if stopped.why == "memory" or (limits.seconds is not None and limits.used > limits.seconds):
                    raise
                answer = "unknown"
        if answer == "unsat":
            break
    return Decided(obligation, answer, limits.used - began)
