"""Raft logs written from random runs of the model conform."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path

import pytest

from highwater.model.language.interpreter import Interpreter
from highwater.model.language.model import Model
from highwater.model.quorum import Quorum
from highwater.traces.messages.raft_replay import replay_raft
from tests.slow import all_but
from tests.traces.raft.writing import taken, written

STEPS = 80


@cache
def model(profile: str, observers: int) -> Model:
    sizes = {"voters": 3, "observers": observers, "appends": 3, "elections": 3, "restarts": 1, "losses": 1}
    return Model(Quorum(sizes, Quorum.profiles[profile].rules))


def walk(chosen: Model, seed: int) -> list[int]:
    """A random run, as instance numbers."""
    rng, interpreter, state = random.Random(seed), Interpreter(chosen), chosen.first_initial
    path = []
    for _ in range(STEPS):
        enabled = interpreter.enabled(state)
        if not enabled:
            break
        # Elections would exhaust their budget early, so fetches have a higher weight.
        names = {n: chosen.instances[n].action.name for n in enabled}
        weights = [
            0.1 if names[n] in ("stand", "lose_fetch", "lose_vote", "restart", "drain_nothing") else 1
            for n in enabled
        ]
        (number,) = rng.choices(enabled, weights)
        after = interpreter.step(state, number).state
        assert after is not None
        path.append(number)
        state = after
    return path


@pytest.mark.parametrize(
    "name", all_but("01", [str(seed) for seed in range(40)], "38 more runs; the fast test has two")
)
def test_a_run_of_the_model_is_explained(name: str, tmp_path: Path) -> None:
    seed = int(name)
    chosen = model("kafka_4_2", seed % 2)
    first, run = taken(chosen, walk(chosen, seed), chosen.first_initial)
    report = replay_raft(written(tmp_path, chosen, first, run))
    assert report.unexplained == []
    assert not set(report.findings_count) - {"answers_bring_news"}
