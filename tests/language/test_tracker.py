"""The tracker finds all states that fit observations, a path to each, and the nearest steps."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from highwater.model.language.interpreter import Interpreter
from highwater.model.language.model import Model
from highwater.model.language.tracker import (
    NEAREST,
    Nearest,
    Observation,
    StateTracker,
    TooManyStatesError,
    model_steps,
)
from tests import zoo


def steps(state: int) -> Iterator[tuple[int, int]]:
    """Step 0 adds 1, step 1 doubles."""
    yield 0, state + 1
    yield 1, 2 * state


def seen(*values: int) -> Observation[int]:
    return Observation(steps, lambda _, state: state in values)


@pytest.mark.parametrize(("hidden", "fits"), [(0, []), (1, [6]), (2, [6, 7])])
def test_hidden_steps_precede_the_observed_one_up_to_their_number(hidden: int, fits: list[int]) -> None:
    found = StateTracker(steps, hidden, 100).advance([2], seen(6, 7))
    assert sorted(found.states) == fits
    for state in fits:
        start, numbers = found.path(state)
        assert (start, len(numbers) <= hidden + 1) == (2, True)
        for number in numbers:
            start = dict(steps(start))[number]
        assert start == state


def test_an_observation_can_compare_with_the_state_before_the_hidden_steps() -> None:
    def grew_by(count: int) -> Observation[int]:
        return Observation(steps, lambda before, state: state == before + count, lambda state: state)

    tracker = StateTracker(steps, 1, 100)
    assert list(tracker.advance([1, 5], grew_by(2)).states) == [3, 7]
    assert list(tracker.advance([1, 5], grew_by(5)).states) == [10]


def test_all_pairs_of_an_observed_step_are_recorded_on_demand() -> None:
    found = StateTracker(steps, 0, 100, records_pairs=True).advance([2, 3], seen(4))
    assert (list(found.states), list(found.pairs)) == ([4], [(2, 4), (3, 4)])
    assert not StateTracker(steps, 0, 100).advance([2, 3], seen(4)).pairs


@pytest.mark.parametrize(("hidden", "pairs"), [(0, False), (0, True), (3, False)])
def test_more_states_than_the_limit_are_an_error(hidden: int, pairs: bool) -> None:
    observation = seen(4) if hidden or pairs else seen(3, 4, 6)
    with pytest.raises(TooManyStatesError, match="more than 1 states of the model fit what was observed"):
        StateTracker(steps, hidden, 1, pairs).advance([2, 3], observation)


def test_steps_of_a_model_are_those_of_its_instances_within_the_bounds() -> None:
    model = Model(zoo.Counters({"counters": 2}))
    interpreter, pruned = Interpreter(model), set[str]()
    numbers = tuple(range(len(model.instances)))
    states = list(model.initial)
    for state in states:
        found = list(model_steps(interpreter, numbers, pruned, state))
        assert [after for _, after in found] == interpreter.successors(state)
        assert list(model_steps(interpreter, numbers[:1], pruned, state)) == [f for f in found if f[0] == 0]
        states += [after for _, after in found if after not in states]
        if len(states) > 50:
            break


def test_the_nearest_steps_are_ranked_by_distance_then_key() -> None:
    nearest: Nearest[str] = Nearest()
    for key, distance in [(7, 4), (3, 4), (5, 1), (7, 2), (7, 3), (8, 9), (9, 9), (1, 9)]:
        assert nearest.admits(distance)
        nearest.add((key,), distance, f"{key} at {distance}")
    assert nearest.ranked() == ["5 at 1", "7 at 2", "3 at 4", "1 at 9", "8 at 9"]
    assert len(nearest.ranked()) == NEAREST
    assert not nearest.admits(10)
