"""The model's states, to the state, are those of an independent statement of the same protocol."""

from __future__ import annotations

import pytest

from checker.native import search
from checker.search import SearchOptions
from model.language.model import Model
from model.quorum import Quorum
from tests.quorum import independent

QUICK = [(3, 0, 2, 4)]
ALL = [
    *QUICK,
    (2, 0, 1, 0),
    (3, 0, 2, 0),
    (2, 1, 2, 0),
    (3, 0, 2, 1),
    (2, 1, 1, 4),
    (3, 1, 1, 0),
    (5, 0, 1, 0),
]


@pytest.mark.parametrize(
    ("voters", "observers", "appends", "older"),
    [pytest.param(*case, marks=() if case in QUICK else pytest.mark.slow) for case in ALL],
)
@pytest.mark.parametrize("profile", ["kip_1166", "before_kip_1166"])
def test_states_and_levels(profile: str, voters: int, observers: int, appends: int, older: int) -> None:
    parameters = {"voters": voters, "observers": observers, "appends": appends, "older": older}
    found = search(Model(Quorum(parameters, Quorum.profiles[profile].rules)), SearchOptions(workers=1))
    members = voters + observers
    new = {m for m in range(members) if not older >> m & 1} if profile == "kip_1166" else set()
    expected = independent.Quorum(voters, members, appends, frozenset(new)).count()
    assert (found.distinct_states, found.depth) == expected
    assert found.complete
