"""A run for a page: its states, the step to each, and the states in which a property is violated."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from highwater.checker.engines.solver.difference import Union, Witness, why_not
from highwater.checker.engines.solver.induction import Failure
from highwater.checker.report.counterexample import Counterexample, LoopBack
from highwater.checker.report.solver_results import ProofResult
from highwater.checker.scenarios.search import ViolatingRun
from highwater.model.language import Model, Protocol
from highwater.model.language.initial import Scalars
from highwater.model.language.interpreter import Interpreter
from highwater.model.language.model import Instance
from highwater.traces.reports.report import Report
from highwater.traces.reports.text import count

if TYPE_CHECKING:  # few commands show a replayed run, and this imports all that replays traces
    from highwater.traces.runs.replay import RunHistory, RunState

LIMIT_STATES = 1000
"""The most states of a run that a page shows: of a longer run the last ones. A run with a loop is shown completely."""


@dataclass(frozen=True)
class Shown:
    """A state of a run, and the step to it from the state ``base``.

    ``base`` is an index in ``ShownRun.steps``; None: no step to the state is shown. ``number`` is the state's number in
    the printed run, from 1. ``model`` is the model that took the step; a difference has two models. ``instance`` is the
    action instance of the step; None if there is none, as for the first state. ``note`` is a remark, such as the reason
    why the step cannot be taken.
    """

    number: int
    sentence: str
    model: Model
    state: Scalars
    base: int | None
    instance: Instance | None = None
    note: str = ""


@dataclass(frozen=True)
class ShownRun:
    """A run with its title and property.

    - ``example``: the counterexample, if the run violates a property
    - ``false_at``: the positions in ``steps`` at which the property is false. For a liveness property, all positions
      from ``loop.due`` on
    - ``left_out``: the number of states before the first of ``steps``
    - ``sides``: for a difference, the names of two sets of rules; the last two states are their outcomes
    """

    title: str
    subtitle: str
    steps: tuple[Shown, ...]
    name: str = ""
    source: str = ""
    meaning: str = ""
    loop: LoopBack | None = None
    example: Counterexample | None = None
    false_at: tuple[int, ...] = ()
    left_out: int = 0
    protocol: Protocol | None = None
    sides: tuple[str, str] | None = None

    @property
    def drawn(self) -> Protocol:
        """The protocol whose drawing the run uses: ``protocol`` or, if it is None, the model's protocol."""
        return self.protocol or self.model.protocol

    @property
    def model(self) -> Model:
        """The model of the run's first state."""
        return self.steps[0].model


def counterexamples(
    model: Model, violations: Iterable[ViolatingRun], examples: Sequence[Counterexample]
) -> list[ShownRun]:
    """The runs of counterexamples, for a page. ``violations`` are the engine's reports of the same runs."""
    known = {(v.property, v.depth): v for v in violations}
    return [of_example(model, known[e.name, e.depth], e) for e in examples]


def of_example(model: Model, violation: ViolatingRun, example: Counterexample) -> ShownRun:
    """The run of one counterexample for a page."""
    steps = tuple(taken(model, violation.initial, violation.path))
    last = len(steps) - 1
    false_at: tuple[int, ...] = () if example.goal else (last,)
    if example.loop is not None:
        false_at = tuple(range(example.loop.due, last + 1))
    left_out = 0 if example.loop else max(0, len(steps) - LIMIT_STATES)
    return ShownRun(
        f"{example.name} {example.outcome}",
        example.end,
        _cut(steps, left_out),
        example.name,
        example.source,
        example.meaning,
        example.loop,
        example,
        tuple(i - left_out for i in false_at),
        left_out,
    )


def shown_walk(model: Model, initial: Scalars, path: Sequence[int]) -> ShownRun:
    """A random walk that violates nothing, for a page."""
    steps = tuple(taken(model, initial, path))
    left_out = max(0, len(steps) - LIMIT_STATES)
    return ShownRun(
        f"A walk of {count(len(path), 'step')}",
        "no property is violated",
        _cut(steps, left_out),
        left_out=left_out,
    )


def taken(model: Model, initial: Scalars, path: Iterable[int]) -> Iterable[Shown]:
    """The states of a run given by instance numbers, computed by the interpreter."""
    # Few commands write a page, and this imports all of replay.
    from highwater.traces.runs import writing

    for i, (instance, state) in enumerate(writing.taken(model, initial, path)):
        if instance is None:
            yield Shown(1, "initial state", model, state, None)
        else:
            yield Shown(i + 1, instance.sentence, model, state, i - 1, instance)


def _cut(steps: tuple[Shown, ...], left_out: int) -> tuple[Shown, ...]:
    """The run without its first ``left_out`` states. The new first state has no step before it."""
    from dataclasses import replace

    if not left_out:
        return steps
    first, *rest = steps[left_out:]
    head = replace(
        first,
        base=None,
        instance=None,
        sentence=f"state {first.number}, after {count(left_out, 'step')} more",
    )
    return (head, *(replace(s, base=(s.base or 0) - left_out) for s in rest))


def replayed(report: Report, history: RunHistory) -> ShownRun | None:
    """The run of a replay for a page; None if the replay read no line."""
    taken = history.run()
    if not taken:
        return None
    model = history.model
    kept = taken[-LIMIT_STATES:]
    steps = tuple(_shown(i, one, history) for i, one in enumerate(kept))
    interpreter = Interpreter(model)
    violated = [set(interpreter.violated(step.state)) for step in steps]
    name = next((p.name for p in model.properties if any(p.name in v for v in violated)), "")
    found = model.property(name).invariant if name else None
    answer = (
        "explained" if not report.unexplained_count else f"{report.unexplained_count} lines are not explained"
    )
    return ShownRun(
        f"{name} is violated" if name else f"{report.input}: {answer}",
        f"{report.input}: {answer}" if name else report.profile,
        steps,
        name,
        found.source if found else "",
        found.meaning if found else "",
        false_at=tuple(i for i, names in enumerate(violated) if name and name in names),
        left_out=history.left_out + len(taken) - len(kept),
    )


def _shown(i: int, taken: RunState, history: RunHistory) -> Shown:
    base = i - 1 if i else None
    if taken.instance is not None:
        note = "" if taken.observed else f"Not observed: supposed before line {taken.line}."
        return Shown(i + 1, taken.instance.sentence, history.model, taken.state, base, taken.instance, note)
    sentence = f"line {taken.line}: nothing explains it" if taken.unexplained else "the first state"
    return Shown(i + 1, sentence, history.model, taken.state, base, None, taken.unexplained)


# Runs of the solver's results: a step that does not preserve a property, a state in which two rule sets differ.

_NOTE = "Marked: differs from the initial state."


def failures(result: ProofResult) -> Iterator[ShownRun]:
    """The failures of a proof for a page: for each action that does not preserve a property, a step of the action.

    In the state before the step all invariants hold; in the state after it the property is false. A property that is
    false in an initial state has this state instead of a step.
    """
    model = result.model
    for verdict in result.found.failures:
        failure = verdict.failure
        assert failure is not None
        steps = tuple(_failure(model, failure))
        source = next((p.invariant.source for p in model.properties if p.name == verdict.property), "")
        is_left = failure.after is None
        yield ShownRun(
            f"{verdict.action} does not preserve {verdict.property}",
            "a step from a state in which all invariants hold" if failure.instance else "in an initial state",
            steps,
            verdict.property,
            source,
            result.meaning(verdict.property),
            false_at=() if is_left else (len(steps) - 1,),
        )


def _failure(model: Model, failure: Failure) -> Iterator[Shown]:
    if failure.instance is None:
        yield Shown(1, "an initial state", model, failure.before, None)
        return
    excluded = ", ".join(failure.excluded_by)
    note = f"Excluded by what was not assumed: {excluded}." if excluded else ""
    yield Shown(1, "a state in which all invariants hold", model, failure.before, None, note=note)
    left = "After it a value leaves its type." if failure.after is None else ""
    after = failure.before if failure.after is None else failure.after
    yield Shown(2, failure.instance.sentence, model, after, 0, failure.instance, left)


def differences(
    models: tuple[Model, Model], sides: tuple[str, str], found: Mapping[str, Witness | None]
) -> Iterator[ShownRun]:
    """The differences of two sets of rules for a page: for each action that differs, a state and both outcomes."""
    union = Union.of(*models)
    whole = union.whole
    for action, witness in found.items():
        if witness is None:
            continue
        steps = [
            Shown(1, "initial state", whole, whole.initial[0], None),
            Shown(2, "the state from which they differ", whole, witness.before, 0, note=_NOTE),
        ]
        outcomes = (witness.first, witness.second)
        for which, (model, side, after) in enumerate(zip(models, sides, outcomes, strict=True)):
            own = tuple(union.of_version(which, witness.before))
            shown = model if len(own) == len(witness.before) else whole
            steps.append(_outcome(which + 3, model, shown, side, action, witness, own, after))
        yield ShownRun(f"{action} differs", f"{sides[0]} / {sides[1]}", tuple(steps), sides=sides)


def _outcome(
    number: int,
    model: Model,
    shown: Model,
    side: str,
    action: str,
    witness: Witness,
    before: Scalars,
    after: Scalars | None,
) -> Shown:
    """One outcome of a difference for a page.

    ``before`` is the state in the layout of ``model``; ``shown`` is the model of the states on the page.
    """
    instance = _instance(model, action, witness)
    drawn = instance if shown is model else _instance(shown, action, witness)
    if after is not None:
        return Shown(number, f"{side}: {witness.sentence}", shown, after, 1, drawn)
    why = f"Cannot be taken: {why_not(model, instance, before)}."
    return Shown(number, f"{side}: it cannot be taken", shown, witness.before, 1, drawn, why)


def _instance(model: Model, action: str, witness: Witness) -> Instance | None:
    own = (i for i in model.instances if i.action.name == action)
    return next((i for i in own if dict(i.parameters) == witness.parameters), None)
