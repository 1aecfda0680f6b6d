"""A difference of two models as a run: the distinguishing state, then both outcomes."""

from __future__ import annotations

from highwater.checker.engines.solver.difference import Witness
from highwater.checker.report.page.run import differences
from highwater.model.language import Model
from tests import zoo


def test_each_state_refers_to_its_predecessor() -> None:
    models = Model(zoo.Counters({"top": 2})), Model(zoo.Counters({"top": 2}))
    (initial,) = models[0].initial
    instance = models[0].instances[0]
    witness = Witness("one more", dict(instance.parameters), initial, initial, None)
    (run,) = differences(models, ("2", "3"), {instance.action.name: witness, "equal": None})
    assert [(step.number, step.base, step.state) for step in run.steps] == [
        (1, None, initial),
        (2, 0, initial),
        (3, 1, initial),
        (4, 1, initial),
    ]
    assert [step.model for step in run.steps] == [models[0], models[0], *models]
    assert [step.sentence for step in run.steps[2:]] == ["2: one more", "3: it cannot be taken"]
    assert run.sides == ("2", "3")
