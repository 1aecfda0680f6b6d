"""What a line tells of a state, compared with how the language itself reads the state."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from highwater.model.language.interpreter import Interpreter
from highwater.traces.reading import Place
from highwater.traces.runs import random_walk
from highwater.traces.runs.format import Seen, read_value
from tests.traces.runs.made import model_of


@pytest.mark.parametrize(
    "scenario", ["truncation/kip-101", "replication/controller/reassignment", "replication/standard-crashes"]
)
def test_a_whole_state_over_any_other_is_the_state(scenario: str, tmp_path: Path) -> None:
    """Also where the other one has something behind the end of a sequence, or inside of an option."""
    model = model_of(scenario)
    rng = random.Random(scenario)
    for seed in range(5):
        walk, interpreter = random_walk(model, 25, seed), Interpreter(model)
        state = walk.initial
        for number in walk.path:
            seen = Seen()
            assert read_value(model.protocol.state, 0, model.decode(state), Place(tmp_path, 1), seen)
            other = tuple(rng.randint(leaf.low, leaf.high) for leaf in model.leaves)
            assert seen.fits(state)
            assert seen.over(other) == state == model.protocol.state.encode(model.decode(state))
            after = interpreter.step(state, number).state
            assert after is not None
            state = after
