"""Compare all mutants of one scenario with the protocol.

A mutant that takes the same steps as the protocol in all reachable states is equivalent in that scenario, and is not
searched. Every other mutant is searched from the initial states, as ``highwater check`` searches. If no property
detects a mutant, its counts (those of ``highwater gate``) are compared with the protocol's counts.

``MutatedModel`` traces a protocol together with all its mutants. A constant field of the state has the mutant's number,
so all mutants share the machine code of the ordinary engine. For each action, an expression says whether the mutant
takes another step.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, TypeVar

import msgspec
import numpy as np
from msgspec import Meta, structs
from numpy.typing import NDArray

from highwater.checker.base.problems import InputError
from highwater.checker.engines.breadth_first import BreadthFirst
from highwater.checker.engines.native.instructions import Evaluation
from highwater.checker.engines.native.levels import NativeLevels
from highwater.checker.engines.native.program import roots_of
from highwater.checker.engines.native.state_graph import GraphLevels, Linking, LinkProgram
from highwater.checker.engines.solver.difference import instances_of_both, leads_elsewhere
from highwater.checker.engines.state_graph import Explored, Words
from highwater.checker.scenarios.model_key import engine_key, model_key
from highwater.checker.scenarios.request import Request
from highwater.checker.scenarios.search import DEADLOCK, EngineError, SearchOptions, SearchResult
from highwater.model.language import graph
from highwater.model.language.errors import LanguageError
from highwater.model.language.graph import INT, Node
from highwater.model.language.initial import Scalars
from highwater.model.language.interpreter import BoundError
from highwater.model.language.liveness import Liveness
from highwater.model.language.model import Instance, Model
from highwater.model.language.mutation import MOST, Mutant, Mutants
from highwater.model.language.protocol import Action, Invariant, Protocol
from highwater.model.language.step_properties import StepProperty
from highwater.model.language.tracing import Guard
from highwater.model.language.types import Array, Bool, Index, Int, Struct

NUMBER, CHANGED = "number of the mutant", "actions that the mutant changes"
"""The fields that a MutatedModel adds to the state. No protocol can have fields of these names."""


class MutatedModel(Model):
    """A model with all mutants of its actions. Two fields of the state, which no step writes, choose a mutant.

    The model has each instance twice: without mutants, for states whose mutant does not change the action, and with
    all mutants. Properties have no mutants. The initial states choose no mutant; ``constants`` has the values that
    choose one. ``mutants`` has the mutants by number, and ``actions_of`` the names of the actions that each changes.
    """

    def __init__(
        self,
        protocol: Protocol,
        invariants: Iterable[Invariant] = (),
        liveness: Iterable[Liveness] = (),
        step_properties: Iterable[StepProperty] = (),
    ) -> None:
        own, protocol = protocol.state, copy.copy(protocol)
        self._names = [a.name for a in protocol.actions() if protocol.has(a)]
        changed = Array(Index("action", len(self._names)), Bool)
        protocol.state = Struct(own.name, **own.fields, **{NUMBER: Int(0, MOST - 1), CHANGED: changed})
        protocol.state.absent = own.absent
        self.own_leaves = len(own.leaves(""))
        self.selector = graph.leaf(self.own_leaves, INT, 0, MOST - 1)
        self._made = Mutants(self.selector)
        super().__init__(protocol, invariants, liveness, step_properties)
        self.actions_of = self._actions_of()
        self.mutants: dict[int, Mutant] = {
            number: mutant for mutant, number in self._made.numbers.items() if number in self.actions_of
        }

    def constants(self, number: int) -> Scalars:
        """The values of the added fields, which are a state's last scalars, that choose a mutant; 0 chooses none."""
        changed = self.actions_of.get(number, ())
        return number, *(int(name in changed) for name in self._names)

    def of_action(self, name: str, *, changed: bool) -> list[Instance]:
        """The instances of an action with its mutants, or those without mutants, without the guard that chooses."""
        wanted = self._chooses(name, changed=changed)
        return [
            replace(i, guards=i.guards[1:])
            for i in self.instances
            if i.action.name == name and i.guards[0].node is wanted
        ]

    def _chooses(self, name: str, *, changed: bool) -> Node:
        input_ = self.inputs[self.own_leaves + 1 + self._names.index(name)]
        return input_ if changed else graph.not_(input_)

    def _trace_choice(self, action: Action, choice: Mapping[str, tuple[Any, Any]]) -> Iterable[Instance]:
        plain = super()._trace_choice(action, choice)
        for changed, instances in ((False, plain), (True, self._trace_mutated(action, choice))):
            guard = Guard("the mutant is chosen", self._chooses(action.name, changed=changed))
            yield from (replace(i, guards=(guard, *i.guards)) for i in instances)

    def _trace_mutated(self, action: Action, choice: Mapping[str, tuple[Any, Any]]) -> list[Instance]:
        with self._made.applied():
            try:
                return list(super()._trace_choice(action, choice))
            except LanguageError:
                # A mutant of a constant guard can reach code that the protocol never reaches.
                self._made.constants = False
                return list(super()._trace_choice(action, choice))
            finally:
                self._made.constants = True

    def _actions_of(self) -> dict[int, frozenset[str]]:
        found: dict[int, set[str]] = {}
        for instance in self.instances:
            for node in graph.reachable(roots_of(instance)):
                if node.op == "eq" and self.selector in node.args:
                    other = node.args[0] if node.args[1] is self.selector else node.args[1]
                    found.setdefault(other.value, set()).add(instance.action.name)
        return {number: frozenset(names) for number, names in sorted(found.items())}


_Levels = TypeVar("_Levels", bound=NativeLevels)
_FIRST, _MOST = 1 << 6, 1 << 14
"""The numbers of states that are compared at a time, at first and at most: most mutants differ early."""


def program_for(model: MutatedModel) -> LinkProgram:
    """The code of searches and graphs of all mutants of a model."""
    program = LinkProgram(model, common=True)
    program.judging = True
    return program


def levels_of(kind: type[_Levels], program: LinkProgram, options: SearchOptions, mutant: int) -> _Levels:
    """The levels of a search that begins in the initial states with this mutant; 0 is the protocol itself."""
    levels = kind(program, options)
    levels.start = levels.start | _choice(program, mutant)
    levels.table.clear()
    return levels


def _choice(program: LinkProgram, mutant: int) -> Words:
    model = program.model
    assert isinstance(model, MutatedModel)
    own = [leaf.low for leaf in model.leaves[: model.own_leaves]]
    return program.layout.pack([*own, *model.constants(mutant)])


class MutantSearch(BreadthFirst):
    """A search that ends at the first violation that is not in ``expected``."""

    def __init__(self, levels: NativeLevels, expected: frozenset[str]) -> None:
        super().__init__(levels.program.model, levels, levels.options, None)
        self._expected = expected

    def decided(self) -> bool:
        """True if the violations found so far end the search."""
        return bool(self.visited.found.keys() - self._expected) or super().decided()


def states_of(levels: NativeLevels) -> Words:
    """The packed states of all levels, in the order of the levels."""
    chunks = [levels.states.get(c.states) for level in levels.levels for c in level.chunks]
    return np.ascontiguousarray(np.concatenate(chunks))


def mutant_graph(program: LinkProgram, mutant: int, options: SearchOptions) -> Explored:
    """All states of a mutant and the steps between them, up to a limit. Raises the errors of ``explore``."""
    program.judging = False
    try:
        options = replace(options, deadlock=False, all_states=True, stop_at_first=False)
        with closing(levels_of(GraphLevels, program, options, mutant)) as levels:
            run = BreadthFirst(program.model, levels, options, None)
            run.explore()
            return Linking(run, levels).explored()
    finally:
        program.judging = True


class StepComparison:
    """Finds the protocol's states in which a mutant takes another step than the protocol.

    A step differs if mutant and protocol reach different states by it or prune it at different bounds, or if it is
    enabled or leaves its type in only one of them.
    """

    def __init__(self, program: LinkProgram, states: Words) -> None:
        self._program, self._states = program, states
        self._actions: dict[str, tuple[Evaluation, Evaluation]] = {}

    def first(self, model: MutatedModel, mutant: int) -> int | None:
        """The index of the first state in which a mutant differs; None if there is none."""
        choice, end = _choice(self._program, mutant), 0
        while end < len(self._states):
            start, end = end, min(2 * end + _FIRST, end + _MOST)
            states = self._states[start:end] | choice
            differs = [self._differs(states, model, name) for name in model.actions_of[mutant]]
            found = np.flatnonzero(np.logical_or.reduce(differs))
            if len(found):
                return start + int(found[0])
        return None

    def _differs(self, states: Words, model: MutatedModel, name: str) -> NDArray[np.bool_]:
        """For each state, True if a step of the action differs. Effects are compared only where guards hold."""
        if name not in self._actions:
            sides = (model.of_action(name, changed=changed) for changed in (False, True))
            pairs = instances_of_both(*sides)
            guards = [(a.enabled if a else graph.FALSE, b.enabled if b else graph.FALSE) for a, b in pairs]
            effects = [(a, b) for a, b in pairs if a is not None and b is not None]
            differ = graph.any_(graph.not_(graph.eq(*own)) for own in guards)
            both = graph.any_(graph.and_(*own) for own in guards)
            other = graph.any_(_effect_differs(a, b, model.inputs) for a, b in effects)
            layout = self._program.layout
            self._actions[name] = Evaluation(layout, [differ, both]), Evaluation(layout, [other])
        guards_differ, effect_differs = self._actions[name]
        found, possible = guards_differ(states)
        where = np.flatnonzero(possible)
        found[where] |= effect_differs(states[where])[0]
        return found


def _effect_differs(a: Instance, b: Instance, inputs: Sequence[Node]) -> Node:
    """The condition that two instances are enabled, and that their steps differ."""
    pruned, other = _pruned(a), _pruned(b)
    differ = [
        graph.not_(graph.eq(pruned.get(bound, graph.FALSE), other.get(bound, graph.FALSE)))
        for bound in dict.fromkeys([*pruned, *other])
    ]
    differ.append(graph.and_(a.leads_on, leads_elsewhere(a, b, inputs)))
    return graph.all_([a.enabled, b.enabled, graph.any_(differ)])


def _pruned(instance: Instance) -> dict[str | None, Node]:
    """For each bound, the condition that it prunes an enabled step; for None, that the step leaves its type."""
    found: dict[str | None, Node] = {}
    earlier = graph.FALSE
    for check in sorted(instance.checks, key=lambda c: c.bound is None):
        here = graph.and_(check.node, graph.not_(earlier))
        found[check.bound] = graph.or_(found.get(check.bound, graph.FALSE), here)
        earlier = graph.or_(earlier, check.node)
    return found


KILLED, NOTICED, EQUIVALENT, SURVIVED = "killed by a property", "noticed by counts", "equivalent", "survived"
NOT_COMPARED = "not compared"
KINDS = (KILLED, NOTICED, EQUIVALENT, SURVIVED)
"""The verdicts of one scenario. A mutant that no scenario compared has the verdict NOT_COMPARED."""
VERDICTS = (*KINDS, NOT_COMPARED)
VIOLATED, HOLDS, LEAVES = "violated", "holds", "leaves its type"
"""The ways to kill a mutant: a property is violated, an expected violation is missing, a value leaves its type."""
SAME_COUNTS, LIMIT = "same counts", "limit"
"""The ways to survive: a mutant takes another step but all counts are equal, or a limit ended the comparison."""

_TIMES, _MORE = 3, 200_000
"""A mutant's search ends at ``_TIMES`` times the protocol's number of states, plus ``_MORE``."""

Count = Annotated[int, Meta(ge=0)]
Kind = Annotated[str, Meta(pattern=f"^({'|'.join(KINDS)})\\Z")]
How = Annotated[str, Meta(pattern=f"^({'|'.join((VIOLATED, HOLDS, LEAVES, SAME_COUNTS, LIMIT))})\\Z")]


class MutantResult(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The verdict of one scenario on a mutant.

    - ``property``: the property that kills the mutant, at ``depth``. If ``how`` is HOLDS: the properties whose
      expected violation is missing; if it is LEAVES: the error message
    - ``count``: the name of the first count that differs. It is ``found`` instead of ``expected``; ``expected`` None
      means more states than the limit
    - ``differs``: the depth of the first state in which the mutant takes another step than the protocol
    - ``liveness``: True if only liveness properties were checked
    """

    kind: Kind
    how: How | None = None
    property: str | None = None
    depth: Count | None = None
    count: str | None = None
    expected: Count | None = None
    found: Count | None = None
    differs: Count | None = None
    liveness: bool = False


Report = Callable[[int, MutantResult], None]


def counts_of(result: SearchResult) -> dict[str, int]:
    """The counts of a search that ``highwater gate`` compares, by their names in a baseline."""
    found = {"distinct_states": result.distinct_states}
    if result.violations:
        return (
            found | {"depth": result.depth} | {f"violated.{v.property}": v.depth for v in result.violations}
        )
    found |= {"generated_states": result.generated_states, "depth": result.depth}
    for table in ("actions", "cut", "premises"):
        found |= {f"{table}.{name}": count for name, count in getattr(result, table).items()}
    return found


def is_finished(result: SearchResult) -> bool:
    """True if a search explored all states, or its violations ended it; False after a limit or an interruption."""
    return result.stopped_by in (None, "violation")


class Examination:
    """One scenario with all its mutants. ``states`` is the protocol's number of states; None if unknown.

    Raises InputError or LanguageError if the scenario cannot be traced.
    """

    def __init__(self, request: Request, memory_bytes: int | None = None, states: int | None = None) -> None:
        self.request, self.states = request, states
        self.model: MutatedModel = request.model(MutatedModel)  # type: ignore[assignment]
        checked = {*self.model.safety, *([DEADLOCK] if request.deadlock else [])}
        self.expected = request.expected & checked
        self.options = SearchOptions(
            workers=1, memory_bytes=memory_bytes, deadlock=request.deadlock, on_disk=False
        )

    @cached_property
    def digest(self) -> bytes:
        """A digest of all that a result depends on: code, model, properties, and expected violations."""
        checked = (self.request.properties, sorted(self.request.expected))
        code = engine_key("checker/comparing/")
        return hashlib.sha256(f"{code}{model_key(self.model)}{checked}".encode()).digest()

    @property
    def mutants(self) -> dict[int, Mutant]:
        """The mutants of the scenario's model, by number."""
        return self.model.mutants

    def safety(self, numbers: Collection[int], report: Report, limit_states: int | None) -> str | None:
        """Compare mutants by invariants, step properties and counts, and report each result.

        Returns a note if a limit ended the comparison, else None. Raises InputError if the protocol itself does not
        meet the scenario's expectations.
        """
        with self._explored(numbers, limit_states) as explored:
            base, result = explored.base, explored.result
            violated, whole = {v.property for v in result.violations}, is_finished(result)
            if not violated <= self.expected or (whole and violated != self.expected):
                raise InputError("the protocol itself violates other properties than the scenario expects")
            counts = counts_of(result) if whole else None
            limit = _limit(max(base.distinct, self.states or 0)) if whole else limit_states
            options = replace(self.options, limit_states=limit)
            for number, depth in explored.differing(self.model, numbers):
                if depth is not None:
                    searched = self._searched(explored.program, number, options, counts)
                    report(number, structs.replace(searched, differs=depth))
                else:
                    report(number, MutantResult(EQUIVALENT) if whole else MutantResult(SURVIVED, LIMIT))
            return None if whole else f"only the nearest {base.distinct:,} states were compared"

    def liveness(self, numbers: Collection[int], report: Report, limit_states: int | None) -> str | None:
        """Compare mutants by the liveness properties, one after the other, because each mutant has its own graph.

        Returns a note if a limit ended the comparison, else None. Raises InputError if the protocol itself does not
        meet the scenario's expectations.
        """
        with self._explored(numbers, limit_states, all_states=True) as explored:
            if not explored.result.complete:
                return "liveness properties were not checked: not all states were explored"
            program = explored.program
            options = replace(self.options, limit_states=_limit(explored.base.distinct))
            if self._lived(program, 0, options).kind == KILLED:
                raise InputError("liveness properties are violated, or hold, other than the scenario expects")
            for number, depth in explored.differing(self.model, numbers):
                if depth is None:
                    report(number, MutantResult(EQUIVALENT, liveness=True))
                else:
                    report(number, structs.replace(self._lived(program, number, options), differs=depth))
            return None

    @contextmanager
    def _explored(
        self, numbers: Collection[int], limit_states: int | None, *, all_states: bool = False
    ) -> Iterator[_Explored]:
        """Explore the unmutated protocol as ``highwater check`` does, and yield the search.

        With ``all_states``, the search continues after violations.
        """
        program = program_for(self.model)
        options = replace(self.options, limit_states=limit_states, all_states=all_states)
        with closing(levels_of(GraphLevels, program, options, 0)) as base:
            result = MutantSearch(base, self.expected).explore()
            _go_on(result)
            yield _Explored(program, base, result)

    def _searched(
        self, program: LinkProgram, number: int, options: SearchOptions, counts: dict[str, int] | None
    ) -> MutantResult:
        """Search a mutant and return its result.

        ``counts`` are the protocol's counts; None if the protocol's own search reached the limit.
        """
        with closing(levels_of(NativeLevels, program, options, number)) as levels:
            try:
                result = MutantSearch(levels, self.expected).explore()
            except BoundError as wrong:
                return MutantResult(KILLED, LEAVES, str(wrong), len(levels.levels))
        _go_on(result)
        depths = {v.property: v.depth for v in result.violations}
        if new := [(depth, name) for name, depth in depths.items() if name not in self.expected]:
            depth, name = min(new)
            return MutantResult(KILLED, VIOLATED, name, depth)
        states = result.distinct_states
        if not is_finished(result):
            if counts is None or states <= counts["distinct_states"]:
                return MutantResult(SURVIVED, LIMIT)
            return _noticed("distinct_states", counts["distinct_states"], states)
        if missed := sorted(self.expected - depths.keys()):
            return MutantResult(KILLED, HOLDS, ", ".join(missed), result.depth)
        if counts is None:  # the protocol has more states than the limit
            return _noticed("distinct_states", None, states)
        own = counts_of(result)
        other = next((name for name, count in counts.items() if own[name] != count), None)
        if other is None:
            return MutantResult(SURVIVED, SAME_COUNTS)
        return _noticed(other, counts[other], own[other])

    def _lived(self, program: LinkProgram, number: int, options: SearchOptions) -> MutantResult:
        """Check the liveness properties of a mutant.

        The result is SURVIVED if no property detects the mutant, or if its graph is incomplete.
        """
        from highwater.checker.engines.liveness import violating_run

        survived = MutantResult(SURVIVED, liveness=True)
        try:
            explored = mutant_graph(program, number, options)
            if not explored.complete:
                return survived
            runs = [violating_run(explored, prop).violation for prop in explored.model.liveness]
        except BoundError as wrong:
            return MutantResult(KILLED, LEAVES, str(wrong), liveness=True)
        except EngineError:
            return survived
        expected = self.request.scenario.expectation.violated
        depths = {v.property: v.depth for v in runs if v is not None}
        if new := [(depth, name) for name, depth in depths.items() if name not in expected]:
            depth, name = min(new)
            return MutantResult(KILLED, VIOLATED, name, depth, liveness=True)
        if missed := sorted(expected & {p.name for p in self.model.liveness} - depths.keys()):
            return MutantResult(KILLED, HOLDS, ", ".join(missed), liveness=True)
        return survived


@dataclass(frozen=True)
class _Explored:
    """The search of the unmutated protocol; ``base`` has its states."""

    program: LinkProgram
    base: GraphLevels
    result: SearchResult

    def differing(self, model: MutatedModel, numbers: Collection[int]) -> list[tuple[int, int | None]]:
        """Each mutant, with the depth of the first state with another step than the protocol's, or None.

        The mutants that have no such state come first.
        """
        states, sizes = states_of(self.base), np.cumsum(self.base.sizes)
        comparison = StepComparison(self.program, states)
        found: list[tuple[int, int | None]] = []
        for number in sorted(numbers):
            first = comparison.first(model, number)
            depth = None if first is None else int(np.searchsorted(sizes, first, side="right")) + 1
            found.append((number, depth))
        return sorted(found, key=lambda one: one[1] is not None)


def _limit(states: int) -> int:
    return _TIMES * states + _MORE


def _noticed(count: str, expected: int | None, found: int) -> MutantResult:
    return MutantResult(NOTICED, count=count, expected=expected, found=found)


def _go_on(result: SearchResult) -> None:
    if result.stopped_by == "interrupted":
        raise KeyboardInterrupt


@dataclass
class Record:
    """A mutant, the actions that it changes, and its results by (position of the part, name of the scenario)."""

    mutant: Mutant
    protocol: str
    actions: set[str] = field(default_factory=set)
    results: dict[tuple[int, str], MutantResult] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """The verdict over all scenarios, one of ``VERDICTS``.

        KILLED, or else NOTICED, if any scenario has this verdict; EQUIVALENT if all have it; NOT_COMPARED without
        results; else SURVIVED.
        """
        kinds = {r.kind for r in self.results.values()}
        if not kinds:
            return NOT_COMPARED
        if kinds == {EQUIVALENT}:
            return EQUIVALENT
        return next((kind for kind in (KILLED, NOTICED) if kind in kinds), SURVIVED)

    @property
    def deciding(self) -> list[tuple[str, MutantResult]]:
        """The scenarios whose verdict is the mutant's verdict, with their results, in order."""
        ordered = sorted(self.results.items())
        return [(scenario, r) for (_, scenario), r in ordered if r.kind == self.verdict]
