"""Leader completeness at the level of messages, by induction; and what the proof rests on."""

from __future__ import annotations

import pytest

from checker.native.search import search
from checker.search import SearchOptions, SearchResult
from model.language import Model, graph
from tests.solver.data_paths import CRASHES, DEFINITION, HELPERS, KIP_966, NOT_PROVED, data_path, prove

COMPLETENESS = {"leader_completeness", "electable_completeness", "consumers_read_consistently"}


def test_a_leader_that_takes_an_answer_keeps_all_that_is_proved() -> None:
    result = prove(data_path(2, 1), ["take_alter_answer"])
    assert result.failures == []
    assert result.proved
    assert result.never == []
    asked = {v.property for v in result.verdicts}
    assert asked >= COMPLETENESS | {i.name for i in HELPERS.invariants} | {p.name for p in HELPERS.steps}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("brokers", "records", "min_isr"), [(2, 1, 2), (2, 1, 1), (2, 2, 2), (3, 1, 2), (3, 1, 1), (3, 1, 3)]
)
def test_every_leader_that_can_be_elected_is_complete(brokers: int, records: int, min_isr: int) -> None:
    result = prove(data_path(brokers, records, min_isr))
    assert result.failures == []
    assert result.proved
    assert result.never == []
    asked = {v.property for v in result.verdicts}
    assert asked >= {i.name for i in DEFINITION.invariants} - NOT_PROVED


def test_budgets_do_not_matter() -> None:
    """No property asks how much of a budget is left, but whether there was a crash: so any number is proved."""
    model = data_path(2, 1)
    allowed = {f"budgets.{name}" for name in CRASHES}
    for prop in model.properties:
        inputs = [n.value for n in graph.reachable([prop.node]) if n.op == "input"]
        read = {model.leaves[i].path for i in inputs if model.leaves[i].path.startswith("budgets.")}
        assert read <= allowed, prop.name


def explored(**parameters: int) -> SearchResult:
    """Every reachable state of a scenario with two ISR members at first; the helper invariants are its properties."""
    protocol = DEFINITION.protocol({"initial_isr": 2, **parameters}, KIP_966)
    return search(Model(protocol, HELPERS.invariants), SearchOptions(all_states=True))


@pytest.mark.parametrize(
    "sizes",
    [
        {"brokers": 2, "replication_factor": 2, "fencings": 1, "lossy_crashes": 1},
        pytest.param({"brokers": 3, "lossy_crashes": 1}, marks=pytest.mark.slow),
        pytest.param(
            {"brokers": 2, "replication_factor": 2, "records": 2, "fencings": 2}, marks=pytest.mark.slow
        ),
    ],
    ids=["two brokers", "three brokers", "two records"],
)
def test_the_helper_invariants_hold_in_every_reachable_state(sizes: dict[str, int]) -> None:
    """By the explorer, which knows nothing of the solver's terms; and each has something to say."""
    result = explored(**sizes)
    assert result.complete
    assert result.violations == []
    assert set(result.premises) == {i.name for i in HELPERS.invariants}
    assert all(result.premises.values())


@pytest.mark.parametrize(
    ("faults", "step", "times"),
    [
        # A proposal was refused and its leader gave it up; the second copy of it is accepted.
        ({"duplicates": 1, "fencings": 1}, "the controller takes broker 0's AlterPartition", 2),
        # It is sent again, and says the broker epoch that a replica has since it lost its log.
        ({"losses": 1, "lossy_crashes": 1}, "leader 0 sends its AlterPartition again", 1),
    ],
    ids=["a second copy", "sent again"],
)
def test_with_messages_that_are_lost_or_come_twice_it_does_not_hold(
    faults: dict[str, int], step: str, times: int
) -> None:
    """So nothing is stated for them: an ISR member lacks what is committed, by rules that are all on."""
    (wanted,) = (i for i in DEFINITION.invariants if i.name == "electable_completeness")
    model = Model(DEFINITION.protocol({"initial_isr": 2, **faults}, KIP_966), [wanted])
    (found,) = search(model, SearchOptions(stop_at_first=True)).violations
    assert [model.instances[number].sentence for number in found.path].count(step) == times
