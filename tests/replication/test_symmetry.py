"""Broker symmetry, when any candidate can be elected: counts and verdicts agree with other computations."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from highwater.checker.engines import native
from highwater.checker.scenarios.search import EngineError, SearchOptions, SearchResult
from highwater.invariants.replication import INVARIANTS, STEP_PROPERTIES
from highwater.model.language import Model
from highwater.model.language.interpreter import Interpreter
from highwater.model.replication.protocol import Replication
from tests.language.test_symmetry import plainly
from tests.slow import slow

ANY = frozenset({"clean_election_picks_any", "unclean_election_picks_any"})
SMALL = {
    "initial_records": 1, "crashes": 1, "max_broker_epoch": 0, "max_leader_epoch": 1, "max_partition_epoch": 2,
}  # fmt: skip
WHOLE = SearchOptions(workers=1, all_states=True)
REDUCED = replace(WHOLE, symmetry=True)


def model(
    parameters: Mapping[str, int], *, without: frozenset[str] = frozenset(), first: bool = False
) -> Model:
    """The proposal, electing any candidate (or the ``first``), with all invariants and step properties."""
    rules = (Replication.profiles["kip_966"].rules | (frozenset() if first else ANY)) - without
    steps = [p for p in STEP_PROPERTIES if p.name != "keeps_the_promise"]
    invariants = [i for i in INVARIANTS if i.rule is None or i.rule in rules]
    return Model(Replication(dict(parameters), rules), invariants, (), steps)


def verdicts(result: SearchResult) -> dict[str, int]:
    return {v.property: v.depth for v in result.violations}


def frozen(plain: Any) -> Any:
    if isinstance(plain, dict):
        return tuple((name, frozen(value)) for name, value in sorted(plain.items()))
    if isinstance(plain, (list, tuple)):
        return tuple(frozen(value) for value in plain)
    return plain


def orbits(asked: Model) -> tuple[int, int]:
    """The number of reachable states, and of their equivalence classes under renaming of plain values."""
    interpreter, state_type = Interpreter(asked), asked.protocol.state
    orders = [{"broker": order} for order in itertools.permutations(range(asked.protocol.p.brokers))]
    seen, waiting = set(asked.initial), deque(asked.initial)
    while waiting:
        for step in interpreter.steps(waiting.popleft()):
            if step.state is not None and step.state not in seen:
                seen.add(step.state)
                waiting.append(step.state)
    plain = [state_type.decode(state) for state in seen]
    return len(seen), len(
        {min((frozen(plainly(state_type, p, order)) for order in orders), key=repr) for p in plain}
    )


@pytest.mark.parametrize(
    "parameters",
    [
        pytest.param(
            {"any_first_leader": 1, "fencings": 0}, marks=slow("three brokers; fast with two brokers")
        ),
        # A last known leader is a number and replicas are a sequence: both are renamed.
        {"any_first_leader": 1, "brokers": 2, "crashes": 2, "max_broker_epoch": 1},
    ],
)
def test_the_reduced_states_are_those_of_the_interpreter_renamed_as_plain_values(
    parameters: dict[str, int],
) -> None:
    asked = model({**SMALL, **parameters})
    whole, reduced = native.search(asked, WHOLE), native.search(asked, REDUCED)
    assert orbits(asked) == (whole.distinct_states, reduced.distinct_states)
    assert whole.distinct_states > reduced.distinct_states


@pytest.mark.parametrize(
    ("parameters", "without"),
    [({}, ""), ({"brokers": 2, "initial_records": 0, "crashes": 0, "fencings": 2}, "hwm_needs_min_isr")],
    ids=["holds", "violated"],
)
def test_verdicts_are_the_same(parameters: dict[str, int], without: str) -> None:
    asked = model({**SMALL, **parameters}, without=frozenset(without.split()))
    whole, reduced = native.search(asked, WHOLE), native.search(asked, REDUCED)
    assert verdicts(whole) == verdicts(reduced)
    assert bool(verdicts(whole)) == bool(without)
    if not without:
        assert reduced.distinct_states < whole.distinct_states / 1.9


def test_the_replica_order_leaves_no_symmetric_states() -> None:
    """Electing the first replica respects renaming, but no two states are equal up to renaming."""
    asked = model(SMALL, first=True)
    whole, reduced = native.search(asked, WHOLE), native.search(asked, REDUCED)
    assert reduced.distinct_states == whole.distinct_states


def test_election_by_broker_number_is_refused_with_symmetry() -> None:
    """Without a replica order, the broker with the least number is elected, so symmetry is refused."""
    asked = model(SMALL, first=True, without=frozenset({"replica_order"}))
    with pytest.raises(EngineError, match="symmetry cannot be used on replication"):
        native.search(asked, REDUCED)
