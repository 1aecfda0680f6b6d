"""Counterexamples: a run that violates a property, step by step.

An engine reports a run as instance numbers. This module replays each run with the interpreter, the reference engine. So
the reference engine has checked every reported run, whichever engine found it.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import click

from highwater.checker.base.files import refuse_unwritable, written
from highwater.checker.base.problems import InternalError
from highwater.checker.base.text import at, lines, say
from highwater.checker.scenarios.request import Request
from highwater.checker.scenarios.search import DEADLOCK, DEADLOCK_MEANING, ViolatingRun
from highwater.model.language import Model, Option, StepProperty, Struct
from highwater.model.language.graph import compile_nodes, inputs_of
from highwater.model.language.initial import Scalars
from highwater.model.language.interpreter import Interpreter, differences
from highwater.model.language.model import Instance
from highwater.model.language.refinement import Implementation, Refinement
from highwater.traces.reports.text import count, fold


class BrokenRunError(InternalError):
    """An engine's run is invalid or does not violate the property: the engine has a defect."""


@dataclass(frozen=True)
class Step:
    """A step of a run, and the state that it leads to.

    ``changes`` maps the path of each changed value to a pair: the value before and the value after.
    """

    action: str
    parameters: Mapping[str, Any]
    sentence: str
    changes: Mapping[str, tuple[Any, Any]]
    state: Mapping[str, Any]


@dataclass(frozen=True)
class LoopBack:
    """The loop at the end of a run that violates a liveness property. Steps count from 0.

    - ``start``: the step whose state equals the last state; if it is the last step, the run stays in this state
    - ``due``: the step at which the goal becomes due; the run does not reach it from then on. For a goal that must
      last, the least of ``missed``
    - ``kind``: the kind of the property, such as ``leads-to``
    - ``fairness``: for each fairness assumption, the reason why the loop meets it
    - ``missed``: for each alternative of a goal that must last, a step of the loop at which the alternative is false
    """

    start: int
    due: int
    kind: str
    fairness: tuple[str, ...]
    missed: tuple[int, ...] = ()


@dataclass(frozen=True)
class Counterexample:
    """A run that violates a property. The first of ``steps`` is the initial state.

    - ``loop``: the loop of a run that violates a liveness property
    - ``parameters``: the property's parameter values for this run
    - ``others``: other parameter values with which the property is violated
    - ``of_step``: True if the last step violates a step property
    - ``abstract``: for a refinement, the run mapped to the abstract protocol, which does not allow the last step
    """

    name: str
    source: str
    meaning: str
    steps: tuple[Step, ...]
    loop: LoopBack | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    others: tuple[Mapping[str, Any], ...] = ()
    of_step: bool = False
    abstract: AbstractRun | None = None
    goal: bool = False
    """True if the run reaches a goal instead of violating a property."""

    @property
    def verb(self) -> str:
        """The verb for the run: it violates a property, or reaches a goal."""
        return "reaches" if self.goal else "violates"

    @property
    def outcome(self) -> str:
        """The predicate for the property or the goal: "is violated" or "is reached"."""
        return "is reached" if self.goal else "is violated"

    @property
    def called(self) -> str:
        """The property's name, followed by the parameters of this run if it has any."""
        return f"{self.name}({_values(self.parameters)})" if self.parameters else self.name

    @property
    def depth(self) -> int:
        """The level of the violating state, or of the state after the violating step; initial states have level 1."""
        return len(self.steps)

    @property
    def where(self) -> str:
        """Where the violation is in the run, in words. Step numbers are those of the printed lines."""
        depth = self.depth
        if self.of_step:
            return f"by step {depth}, which leads from depth {depth - 1} to depth {depth}"
        return self.end

    @property
    def end(self) -> str:
        """The end of the run in words: its depth and number of steps, or the loop."""
        depth = self.depth
        if self.loop is None:
            return f"at depth {depth}, after {count(depth - 1, 'step')}"
        round_ = depth - 1 - self.loop.start
        after = count(self.loop.start, "step")
        if round_:
            return f"after {after} by a loop of {count(round_, 'step')}"
        return f"after {after}: it ends there"


def follow(model: Model, interpreter: Interpreter, violation: ViolatingRun) -> Counterexample:
    """Replay a run with the interpreter. Raises BrokenRunError if the run is invalid or violates nothing."""
    try:
        return _followed(model, interpreter, violation)
    except BrokenRunError as wrong:
        wrong.facts |= _asked(model, violation)
        raise


def _asked(model: Model, violation: ViolatingRun) -> dict[str, Any]:
    """The facts about an invalid run that the report of the internal error lists."""
    return {
        "protocol": model.protocol.name,
        "parameters": dict(sorted(model.protocol.parameter_values.items())),
        "rules": sorted(model.protocol.rules_on),
        "property": violation.property,
        "initial": list(violation.initial),
        "path": list(violation.path),
        "steps": [str(model.instances[n]) for n in violation.path if 0 <= n < len(model.instances)],
        "loop_start": violation.loop_start,
    }


def _followed(model: Model, interpreter: Interpreter, violation: ViolatingRun) -> Counterexample:
    state = violation.initial
    if not model.is_initial(state):
        raise BrokenRunError(f"the run to a violation of {violation.property} starts in no initial state")
    steps = [Step("initial", {}, "initial state", {}, model.decode(state))]
    states, most = [state], len(model.outline.instances)
    for number in violation.path:
        if not 0 <= number < most:
            raise BrokenRunError(
                f"the run to a violation of {violation.property} takes step {number}, which is none"
            )
        instance = model.instances[number]
        after = None if interpreter.refusals(state, instance) else interpreter.step(state, number).state
        if after is None:
            raise BrokenRunError(
                f"the run to a violation of {violation.property} takes {instance}, which is not enabled"
            )
        parameters, changes = dict(instance.parameters), interpreter.changes(state, after)
        steps.append(Step(instance.action.name, parameters, instance.sentence, changes, model.decode(after)))
        state = after
        states.append(state)
    if violation.loop_start is not None:
        return _follow_loop(model, interpreter, violation, violation.loop_start, states, steps)
    if violation.property == DEADLOCK:
        if any(True for _ in interpreter.steps(state)):
            raise BrokenRunError("the run ends in a state that is no deadlock")
        return Counterexample(DEADLOCK, "", DEADLOCK_MEANING, tuple(steps))
    found = model.stated(violation.property)
    if isinstance(found, StepProperty):
        if len(states) < 2 or not interpreter.breaks(found.name, *states[-2:]):
            raise BrokenRunError(f"the last step of the run does not violate {found.name}")
        run = _as_abstract(model, found, states, [step.parameters for step in steps[1:]])
        return Counterexample(
            found.name, found.source, found.meaning, tuple(steps), of_step=True, abstract=run, goal=found.goal
        )
    if violation.property not in interpreter.violated(state):
        raise BrokenRunError(f"the run ends in a state that does not violate {violation.property}")
    return Counterexample(found.name, found.source, found.meaning, tuple(steps), goal=found.goal)


def _as_abstract(
    model: Model, found: StepProperty, states: list[Scalars], parameters: list[Mapping[str, Any]]
) -> AbstractRun | None:
    """The run mapped to the abstract protocol of a refinement; None if the property is no refinement.

    Raises BrokenRunError if the abstract protocol allows the last step.
    """
    if not isinstance(found, Refinement):
        return None
    run = Abstract(found.of(model.protocol)).run(states, parameters)
    if run.steps[-1].allowed:
        raise BrokenRunError(
            f"the last step of the run is one of {run.name}: it does not violate {found.name}"
        )
    return run


def _follow_loop(
    model: Model,
    interpreter: Interpreter,
    violation: ViolatingRun,
    loop_start: int,
    states: list[Scalars],
    steps: list[Step],
) -> Counterexample:
    from highwater.checker.engines.liveness import NotViolatedError, confirm

    prop = next(p for p in model.liveness if p.name == violation.property)
    try:
        case = prop.cases[violation.case]
        confirmed = confirm(interpreter, prop, states, violation.path, loop_start, case)
    except NotViolatedError as wrong:
        raise BrokenRunError(f"the run that violates {prop.name} is none: {wrong}") from None
    loop = LoopBack(loop_start, confirmed.due, str(prop.kind), confirmed.fairness, confirmed.missed)
    found, others = prop.liveness, tuple(prop.cases[number].parameters for number in violation.others)
    rest = tuple(steps), loop, case.parameters, others
    return Counterexample(found.name, found.source, found.meaning, *rest)


def follow_all(model: Model, violations: Iterable[ViolatingRun]) -> tuple[Counterexample, ...]:
    """Replay all runs. The shortest run comes first; equally long runs are in the order of the model's properties."""
    violations = list(violations)
    if not violations:
        return ()
    interpreter = Interpreter(model)
    names = [*model.outline.safety, *(p.name for p in model.liveness)]
    order = {name: i for i, name in enumerate(names)}
    violations.sort(key=lambda v: (v.depth, order.get(v.property, len(order))))
    return tuple(follow(model, interpreter, violation) for violation in violations)


def tell(
    model: Model, example: Counterexample, *, full: bool = False, width: int | None = None
) -> Iterator[str]:
    """The lines of a counterexample: the property, one line a step, and the state that violates it.

    For a step property, both states of the violating step come last; for a loop, the state that repeats. With
    ``width`` (in columns), changes that do not fit are folded below their step. ``full`` adds the whole state after
    each step, and the reasons why the loop is fair.
    """
    type = model.protocol.state
    rule = f" ({example.source})" if example.source else ""
    title = click.style(f"{example.called}{rule}", fg="green" if example.goal else "red", bold=True)
    yield f"{title} {example.outcome} {example.where}."
    if example.others:
        yield from fold(f"Also for {'; '.join(map(_values, example.others))}.", "  ", width)
    yield from fold(f"It says: {example.meaning}", "  ", width)
    yield ""
    longest = min(56, max(len(step.sentence) for step in example.steps))
    for number, step in enumerate(example.steps, 1):
        if example.loop and example.loop.start + 2 == number:
            yield click.style("      and then forever:", bold=True)
        head = f"{number:4}  {step.sentence}"
        if number > 1:
            told = "; ".join(_changes(type, step.changes)) or "changes nothing"
            colour = "cyan" if step.changes else "yellow"
            if width is not None and max(len(head), longest + 6) + 2 + len(told) > width:
                yield head
                yield from (click.style(line, fg=colour) for line in fold(told, " " * 10, width))
            else:
                yield f"{head:{longest + 6}}  {click.style(told, fg=colour)}"
        else:
            yield head
        if example.abstract and number > 1:
            yield from abstract_step(example.abstract, number - 2, width)
        if full:
            yield from _state(type, step.state, " " * 10, width)
    if example.loop:
        yield from _loop(example, example.loop, full, width)
    yield ""
    if example.abstract:
        yield from no_abstract_step(example.abstract, width)
    if example.of_step:
        left_out = "" if full else " (what stays the same is left out)"
        yield f"The step that {example.verb} {example.name}, before → after{left_out}:"
        states = example.steps[-2].state, example.steps[-1].state
        yield from _both_states(type, *states, "  ", width, same_too=full)
        return
    only = None if full else read_by(model, example)
    what = (
        f"The state that {example.verb} {example.name}"
        if not example.loop
        else "The state that it comes back to"
    )
    yield f"{what}{'' if only is None else ', as far as the property reads it'}:"
    yield from _state(type, example.steps[-1].state, "  ", width, only)


def read_by(model: Model, example: Counterexample) -> list[str] | None:
    """The paths of the scalars that a run's property reads.

    None if it is a step property, or if it reads all scalars or no scalar.
    """
    nodes = [p.node for p in model.properties if p.name == example.name]
    cases = [case for p in model.liveness if p.name == example.name for case in p.cases]
    for case in cases:
        if case.parameters == example.parameters:
            nodes += [case.premise, *case.goals]
    numbers = inputs_of(nodes)
    found = [leaf.path for number, leaf in enumerate(model.leaves) if number in numbers]
    return found if 0 < len(found) < len(model.leaves) else None


def _loop(example: Counterexample, loop: LoopBack, full: bool, width: int | None) -> Iterator[str]:
    stays = loop.start == example.depth - 1
    again = f"and so on from state {loop.start + 1}" if not stays else "and nothing that is fair can be done"
    yield click.style(f"      {again}", bold=True)
    if loop.missed:
        where = " and ".join(dict.fromkeys(f"state {step + 1}" for step in loop.missed))
        several = "none of what has to last does" if len(loop.missed) > 1 else "what has to last does not"
        yield f"      {several}: see {where}"
    elif loop.due:
        yield f"      what must happen is due since state {loop.due + 1}"
    if full:
        for line in loop.fairness:
            yield from fold(line, "      ", width)


def plain(model: Model, example: Counterexample) -> Iterator[str]:
    """The lines of ``tell`` without colours, and with each step on one line."""
    return map(click.unstyle, tell(model, example))


def _changes(type: Any, changes: Mapping[str, tuple[Any, Any]]) -> Iterator[str]:
    """The changes of a step as texts, one for each struct with changed fields.

    For example: ``quorum: leader none → 0, leader_epoch none → 0``.
    """
    groups: dict[str, list[str]] = {}
    for path, (before, after) in changes.items():
        place, _, name = path.rpartition(".")
        inner = at(type, path)
        gone = isinstance(inner, Option) and after is None and isinstance(inner.content_type, Struct)
        # The content of a received message is left out: the step that sent it showed it.
        old = "" if gone else f"{say(inner, before, brief=True)} "
        groups.setdefault(place, []).append(f"{name} {old}→ {say(inner, after, brief=True)}")
    for place, texts in groups.items():
        if not place:
            yield from texts
        elif len(texts) == 1:
            yield f"{place}.{texts[0]}"
        else:
            yield f"{place}: {', '.join(texts)}"


def _state(
    type: Any, state: Any, indent: str, width: int | None, only: Collection[str] | None = None
) -> Iterator[str]:
    pairs = list(lines(type, state, only))
    longest = max((len(path) for path, _ in pairs), default=0)
    for path, text in pairs:
        head = f"{indent}{path:{longest}}  "
        yield from fold(text, head, width, " " * len(head))


def _values(parameters: Mapping[str, Any]) -> str:
    """The parameters as text: ``c=c1, r=r2``."""
    return ", ".join(f"{name}={value}" for name, value in parameters.items())


def _both_states(
    type: Any, before: Any, after: Any, indent: str, width: int | None, *, same_too: bool = True
) -> Iterator[str]:
    """The lines of two states: for each path, the value before and the value after.

    Equal values are shown once or, without ``same_too``, not at all.
    """
    old, new = dict(lines(type, before)), dict(lines(type, after))
    paths = [path for path in dict.fromkeys((*old, *new)) if same_too or old.get(path) != new.get(path)]
    longest = max((len(path) for path in paths), default=0)
    for path in paths:
        one, two = old.get(path, "–"), new.get(path, "–")
        head = f"{indent}{path:{longest}}  "
        yield from fold(one if one == two else f"{one} → {two}", head, width, " " * len(head))


def abstract_step(run: AbstractRun, number: int, width: int | None) -> Iterator[str]:
    """The lines for ``run.steps[number]``; none if the abstract state does not change."""
    step = run.steps[number]
    if step.changes or step.leaves:
        told = (
            f"{step.sentence}: " if step.allowed else click.style("none of its steps: ", fg="red", bold=True)
        )
        changes = "; ".join(_changes(run.type, step.changes)) or ", ".join(step.leaves)
        yield from fold(f"{told}{changes}", f"        = {run.name}: ", width, " " * 12)


def no_abstract_step(run: AbstractRun, width: int | None) -> Iterator[str]:
    """The lines about a last step that is not allowed: its abstract states, and the most similar abstract actions."""
    step = run.steps[-1]
    before = run.steps[-2].state if len(run.steps) > 1 else run.initial
    if step.leaves:
        yield f"No action of {run.name} does this, whose types have no such state: {', '.join(step.leaves)}."
        yield ""
        return
    yield f"No action of {run.name} does this, before → after:"
    yield from _both_states(run.type, before, step.state, "  ", width)
    yield ""
    for near in step.near:
        yield from fold(_nearly(run, near), "  nearest: ", width, " " * 11)
    yield ""


def _nearly(run: AbstractRun, near: NearestAction) -> str:
    """A similar action as text: its false guards, and how its result differs from the result of the step."""
    told = [f"{near.sentence} ({near.action})"]
    if near.refused_by:
        told.append(f"refused by {', '.join(repr(name) for name in near.refused_by)}")
    if near.differs:
        others = []
        for path, (would, does) in near.differs.items():
            inner = at(run.type, path)
            others.append(f"{path} {say(inner, would)} in place of {say(inner, does)}")
        told.append(f"it would leave {', '.join(others)}")
    return "; ".join(told)


MOST = 3
"""The most abstract actions that are shown as similar to a step."""


@dataclass(frozen=True)
class NearestAction:
    """An abstract action that makes part of a step's changes. ``refused_by`` are its false guards, or exceeded bounds.

    ``differs`` maps a path to a pair: the value after the action, and the value after the step.
    """

    action: str
    parameters: Mapping[str, Any]
    sentence: str
    refused_by: tuple[str, ...]
    differs: Mapping[str, tuple[Any, Any]]


@dataclass(frozen=True)
class AbstractStep:
    """A step mapped to the abstract protocol. ``action`` is None if nothing changes or the step is not ``allowed``.

    - ``changes``: for the path of each changed value, a pair: the value before and the value after
    - ``near``: if the step is not allowed, the actions most similar to it
    - ``leaves``: for each abstract value outside its type, a text with its path and the type's interval. If there is
      such a value, ``changes`` and ``state`` are empty
    """

    action: str | None
    parameters: Mapping[str, Any]
    sentence: str
    changes: Mapping[str, tuple[Any, Any]]
    state: Mapping[str, Any]
    allowed: bool
    near: tuple[NearestAction, ...] = ()
    leaves: tuple[str, ...] = ()


@dataclass(frozen=True)
class AbstractRun:
    """A run mapped to the abstract protocol, with this protocol's name and state type."""

    name: str
    type: Any
    initial: Mapping[str, Any]
    steps: tuple[AbstractStep, ...]


class _Attempt:
    """The result of an abstract instance in an abstract state, even if its guards are false."""

    def __init__(self, instance: Instance, before: Scalars) -> None:
        guards, checks, writes = instance.guards, instance.checks, instance.writes
        roots = [*(g.node for g in guards), *(c.node for c in checks), *(w.node for w in writes.values())]
        values = iter(compile_nodes(roots)(before))
        self.instance = instance
        self.refused = [g.name for g in guards if not next(values)]
        met = [c.message for c in checks if next(values)]
        self.refused = self.refused or list(dict.fromkeys(met))
        after = list(before)
        for leaf in writes:
            after[leaf] = int(next(values))
        self.after = tuple(after)


class Abstract:
    """Maps the steps of a protocol to steps of the abstract protocol that it implements."""

    def __init__(self, implementation: Implementation) -> None:
        self.implementation = implementation
        self.model = implementation.model

    def run(self, states: Sequence[Scalars], parameters: Sequence[Mapping[str, Any]]) -> AbstractRun:
        """The abstract run of a run of the protocol. ``parameters`` has the parameter values of each step."""
        seen = [self.implementation.state(state) for state in states]
        pairs = zip(itertools.pairwise(seen), parameters, strict=True)
        steps = tuple(self.step(a, b, given) for (a, b), given in pairs)
        protocol = self.model.protocol
        return AbstractRun(
            protocol.name or type(protocol).__name__, protocol.state, self.model.decode(seen[0]), steps
        )

    def step(
        self, before: Scalars, after: Scalars, given: Mapping[str, Any] = MappingProxyType({})
    ) -> AbstractStep:
        """The abstract step from one abstract state to another.

        If several abstract instances make this step, the result has the one that shares most parameter values with
        ``given``.
        """
        if leaves := self.implementation.left(after):
            return AbstractStep(None, {}, "", {}, {}, False, (), tuple(leaves))
        state = self.model.decode(after)
        if before == after:
            return AbstractStep(None, {}, "", {}, state, True)
        changes = differences(self.model.decode(before), state)
        attempts = [_Attempt(instance, before) for instance in self.model.instances]
        taken = [a.instance for a in attempts if not a.refused and a.after == after]
        if taken:
            found = max(taken, key=lambda i: sum(given.get(n) == v for n, v in i.parameters.items()))
            return AbstractStep(
                found.action.name, dict(found.parameters), found.sentence, changes, state, True
            )
        return AbstractStep(None, {}, "", changes, state, False, self._near(attempts, before, after))

    def _near(
        self, attempts: Sequence[_Attempt], before: Scalars, after: Scalars
    ) -> tuple[NearestAction, ...]:
        """The actions that make most of a step's changes: at most ``MOST``, each with the instance that fits best.

        They are ordered by the number of false guards, then by the number of other changes.
        """
        changed = self._changed(before, after)
        best: dict[str, tuple[tuple[int, int, int], _Attempt]] = {}
        for attempt in attempts:
            does, other = self._changed(before, attempt.after), self._changed(attempt.after, after)
            rank = len(changed & other), len(attempt.refused), len(other - changed)
            name = attempt.instance.action.name
            if does & changed and (name not in best or rank < best[name][0]):
                best[name] = rank, attempt
        ranked = sorted(best.values(), key=lambda found: found[0])
        nearest = [attempt for rank, attempt in ranked if rank[0] == ranked[0][0][0]]
        return tuple(self._nearest(attempt, after) for attempt in nearest[:MOST])

    def _nearest(self, attempt: _Attempt, after: Scalars) -> NearestAction:
        instance, model = attempt.instance, self.model
        left = self.implementation.left(attempt.after)
        differs = {} if left else differences(model.decode(attempt.after), model.decode(after))
        return NearestAction(
            instance.action.name,
            dict(instance.parameters),
            instance.sentence,
            tuple(attempt.refused),
            differs,
        )

    def _changed(self, before: Scalars, after: Scalars) -> set[str]:
        """The names of the fields in which two abstract states differ."""
        fields = self.implementation.fields.items()
        return {name for name, leaves in fields if any(before[i] != after[i] for i in leaves)}


# The output of ``--trace-out``: one run as a file in the format of docs/trace-format.md, or as ITF.


class TraceOutput:
    """The target of ``--trace-out``.

    The constructor checks that the target can be written, so that a long search does not end without its trace.
    """

    def __init__(self, target: str | None) -> None:
        self.target = target
        if target is not None:
            refuse_unwritable("--trace-out", target)

    def write_violation(
        self, request: Request, model: Model, violations: Iterable[ViolatingRun], example: Counterexample
    ) -> str:
        """Write the run of a counterexample. Returns a line with its length and the violated property, if any."""
        run = next(v for v in violations if v.property == example.name and v.depth == example.depth)
        violated = () if example.goal else (example.name,)
        return self._write(request, model, run.initial, run.path, violated, {}, run.loop_start)

    def write_walk(self, request: Request, model: Model, depth: int, seed: int) -> str:
        """Write a random walk of at most ``depth`` states, and return a line with its length.

        The interpreter takes the walk anew, because engines store only walks that violate a property.
        """
        from highwater.traces.runs.writing import random_walk

        walk = random_walk(model, depth, seed)
        return self._write(request, model, walk.initial, walk.path, walk.violated, {"seed": seed})

    def _write(
        self,
        request: Request,
        model: Model,
        initial: Scalars,
        path: Iterable[int],
        violated: Sequence[str],
        about: Mapping[str, Any],
        loop_start: int | None = None,
    ) -> str:
        from highwater.traces.runs import writing

        assert self.target is not None
        about = {**about, "violates": list(violated)} if violated else about
        path, name = tuple(path), request.scenario.name
        steps = len(path)
        with written("--trace-out", self.target) as beside:
            if self.target.endswith(writing.SUFFIX):
                trace = writing.itf(model, initial, path, loop_start=loop_start, source=name, about=about)
                writing.write_itf(beside, trace)
            else:
                steps = writing.write_run(
                    beside,
                    model,
                    initial,
                    path,
                    protocol=request.scenario.definition.name,
                    scenario=name,
                    profile=request.profile,
                    about=about,
                )
        end = f", to a violation of {', '.join(violated)}" if violated else ""
        return f"--trace-out {self.target}: {count(steps, 'step')} written{end}"
