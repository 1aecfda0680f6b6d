"""What a solver found as runs to be shown: a step that does not keep a property, a state that tells rules apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from highwater.checker.engines.solver.difference import Union, Witness
from highwater.checker.engines.solver.induction import Failure
from highwater.checker.telling.induction_results import InductionOutcome
from highwater.checker.telling.page.shown import Shown, ShownRun, said
from highwater.model.language.initial import Scalars
from highwater.model.language.interpreter import Interpreter
from highwater.model.language.model import Instance, Model

_NOTE = "What is marked is what is not as in the initial state."


def failures(outcome: InductionOutcome) -> Iterator[ShownRun]:
    """For each property that a step does not keep: the state before, in which all invariants hold, and the step."""
    model = outcome.model
    for verdict in outcome.result.failures:
        failure = verdict.failure
        assert failure is not None
        steps = tuple(_failure(model, failure))
        source = next((p.invariant.source for p in model.properties if p.name == verdict.property), "")
        is_left = failure.after is None
        yield ShownRun(
            f"{verdict.action} does not keep {verdict.property}",
            "a step from a state in which all invariants hold" if failure.instance else "in an initial state",
            steps,
            verdict.property,
            source,
            outcome.meaning(verdict.property),
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
    yield Shown(2, said(failure.instance), model, after, 0, failure.instance, left)


def differences(
    models: tuple[Model, Model], sides: tuple[str, str], found: Mapping[str, Witness | None]
) -> Iterator[ShownRun]:
    """For each action that does not do the same under both sets of rules: the state that tells, and both outcomes."""
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
    """One outcome; ``before`` is the state as the version ``model`` has it, ``shown`` the model of the states."""
    instance = _instance(model, action, witness)
    drawn = instance if shown is model else _instance(shown, action, witness)
    if after is not None:
        return Shown(number, f"{side}: {witness.sentence}", shown, after, 1, drawn)
    refused = [] if instance is None else Interpreter(model).refusals(before, instance)
    guards = " and ".join(f"“{name}”" for name in refused)
    why = f"refused by {guards}" if guards else "there is no such step" if instance is None else "a bound"
    text = f"{side}: it cannot be taken"
    return Shown(number, text, shown, witness.before, 1, drawn, f"Cannot be taken: {why}.")


def _instance(model: Model, action: str, witness: Witness) -> Instance | None:
    own = (i for i in model.instances if i.action.name == action)
    return next((i for i in own if dict(i.parameters) == witness.parameters), None)
