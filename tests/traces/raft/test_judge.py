"""What a judge of quorum steps remembers of before: answers are the same, and memory is bounded."""

from __future__ import annotations

from highwater.model.quorum import Quorum
from highwater.traces.messages.quorum import PROFILE, Belief, Judge, Log, Node, Window


def belief_of(node: int) -> Belief:
    """Three voters, one of which is in epoch 1."""
    return Belief((1, 2, 3), {node: Node(node, epoch=1, log=Log())})


def test_no_more_is_remembered_than_was_said() -> None:
    judge = Judge(3, Quorum.profiles[PROFILE].rules)
    judge.steps.limit = judge.states.limit = 2
    kept = []
    for node in (1, 2, 3):
        belief = belief_of(node)
        for _ in range(2):
            assert judge.violated(belief, [node]) == ()
            judge.take(Window(belief, [node]), "stand", c=node - 1)
        kept.append((len(judge.states), len(judge.steps)))
    assert kept == [(1, 1), (2, 2), (1, 1)]
    assert judge.steps.missed == 3, "the second answer is the first one"
