"""Leader completeness at message level and KIP-320's properties, by induction with their helper invariants."""

from __future__ import annotations

import pytest

from highwater.checker.base.processes import cores
from highwater.checker.engines.native.levels import search
from highwater.checker.engines.solver import induction
from highwater.checker.engines.solver.induction import helpers
from highwater.checker.scenarios import catalogue
from highwater.checker.scenarios.search import SearchOptions, SearchResult
from highwater.model.language import Model
from tests.slow import largest, often, slow
from tests.solver.controllers import broken
from tests.solver.data_paths import DEFINITION, HELPERS, KIP_966, NOT_PROVED, STEPS, data_path, prove

COMPLETENESS = {"leader_completeness", "electable_completeness", "consumers_read_consistently"}
NEEDED: dict[str, tuple[int, int, str]] = {
    "registrations_are_the_brokers": (2, 1, "unfence_broker"),
    "isr_has_its_leader": (2, 1, "fence_broker"),
    "enough_are_remembered": (2, 1, "start_broker"),
    "views_are_former_states": (2, 1, "handle_alter_partition"),
    "only_leaders_have_followers": (2, 1, "take_alter_answer"),
    "fetches_are_not_from_the_future": (2, 1, "write_acks_one"),
    "proposals_are_the_leaders": (2, 1, "take_alter_answer"),
    "a_proposal_waits_for_its_answer": (2, 1, "retry_alter_partition"),
    "epochs_in_logs_ascend": (2, 1, "fence_broker"),
    "histories_match": (2, 2, "answer_fetch"),
    "records_are_their_leaders": (2, 1, "send_fetch"),
    "a_leaders_epoch_starts_at_its_start_offset": (2, 1, "answer_fetch"),
    "fetches_tell_the_log": (2, 1, "write_acks_one"),
    "a_follower_has_what_it_fetched": (2, 1, "write_acks_one"),
    "leaders_wait_for_the_electable": (3, 1, "write_acks_all"),
    "the_electable_hold_what_can_be_committed": (2, 1, "answer_fetch"),
    "the_electable_hold_what_is_committed": (2, 1, "take_fetch_answer"),
    "who_can_commit_holds_what_is_committed": (2, 1, "answer_fetch"),
    "hwms_are_of_what_is_committed": (2, 1, "replay_metadata"),
    "replicas_that_are_waited_for_hold_what_is_committed": (2, 1, "propose_expand"),
    "acknowledged_is_committed": (2, 1, "replay_metadata"),
    "records_are_written_in_their_order": (2, 2, "write_acks_all"),
    "records_were_written": (2, 1, "answer_fetch"),
    "records_are_in_order": (2, 2, "answer_fetch"),
}
"""Helper invariant → brokers, records, and an action that breaks another one without it."""


def test_a_leader_that_takes_an_answer_keeps_all_that_is_proved() -> None:
    result = prove(data_path(2, 1), ["take_alter_answer"])
    assert result.failures == []
    assert result.proved
    assert result.never == []
    asked = {v.property for v in result.verdicts}
    steps = {p.name for p in STEPS if p.needs is None}
    assert asked >= COMPLETENESS | {i.name for i in HELPERS.invariants} | steps


@slow("the complete proof for several sizes; the fast test proves one action")
@pytest.mark.parametrize(
    ("brokers", "records", "min_isr"),
    [
        (2, 1, 1),
        (2, 2, 2),  # the larger sizes include fewer records
        pytest.param(3, 1, 1, marks=largest("three brokers take four times as long")),
        pytest.param(3, 1, 3, marks=largest("three brokers take two minutes")),
        pytest.param(3, 2, 2, marks=largest("a second record on three brokers takes minutes")),
    ],
)
def test_every_leader_that_can_be_elected_is_complete(brokers: int, records: int, min_isr: int) -> None:
    result = prove(data_path(brokers, records, min_isr))
    assert result.failures == []
    assert result.proved
    assert result.never == []
    asked = {v.property for v in result.verdicts}
    assert asked >= {i.name for i in DEFINITION.invariants if i.needs is None} - NOT_PROVED


@slow("proves an action without each helper invariant; the fast test has all of them")
@pytest.mark.parametrize("name", list(NEEDED)[:: often(3, 1)])
def test_every_helper_invariant_is_needed(name: str) -> None:
    brokers, records, action = NEEDED[name]
    result = prove(data_path(brokers, records, without=[name]), [action])
    assert result.stopped_by is None
    assert broken(result)


def test_every_helper_invariant_is_in_the_table() -> None:
    assert set(NEEDED) == {i.name for i in HELPERS.invariants}


LARGER = slow("searches millions of states; fast with the least sizes")


def explored(**parameters: int) -> SearchResult:
    """All reachable states of a scenario with two initial ISR members; its properties are the helpers."""
    protocol = DEFINITION.protocol({"initial_isr": 2, **parameters}, KIP_966)
    return search(Model(protocol, HELPERS.invariants), SearchOptions(all_states=True))


@pytest.mark.parametrize(
    "sizes",
    [
        {"brokers": 2, "replication_factor": 2, "fencings": 1, "lossy_crashes": 1},
        pytest.param({"brokers": 3, "lossy_crashes": 1}, marks=LARGER),
        pytest.param({"brokers": 2, "replication_factor": 2, "records": 2, "fencings": 2}, marks=LARGER),
    ],
    ids=["two brokers", "three brokers", "two records"],
)
def test_the_helper_invariants_hold_in_every_reachable_state(sizes: dict[str, int]) -> None:
    """The explorer checks them without the solver's terms; no invariant is vacuous."""
    result = explored(**sizes)
    assert result.complete
    assert result.violations == []
    assert set(result.premises) == {i.name for i in HELPERS.invariants}
    assert all(result.premises.values())


# --- KIP-320 ------------------------------------------------------------------------------------------


TRUNCATION = catalogue.load("truncation")
KIP_320 = TRUNCATION.protocol.profiles["kip_320"].rules


def kip_320(replicas: int, records: int, epochs: int) -> Model:
    """The protocol with logs of ``records`` records and leader epochs 0 to ``epochs``."""
    bounds = {"replicas": replicas, "log_size": records, "max_records": records, "max_leader_epoch": epochs}
    invariants = (*TRUNCATION.invariants, *helpers(TRUNCATION).invariants)
    return Model(
        TRUNCATION.protocol(bounds, KIP_320), [i for i in invariants if i.rule is None or i.rule in KIP_320]
    )


@pytest.mark.parametrize(
    ("replicas", "records", "epochs"),
    [
        (2, 2, 1),
        pytest.param(3, 3, 3, marks=slow("the proof for a larger size; fast for the least")),
        *(
            pytest.param(*sizes, marks=largest("proofs for still larger sizes"))
            for sizes in ((3, 4, 5), (4, 3, 3))
        ),
    ],
)
def test_isr_members_hold_what_is_committed(replicas: int, records: int, epochs: int) -> None:
    result = induction.prove(kip_320(replicas, records, epochs), workers=cores())
    assert result.failures == []
    assert result.proved
    assert result.never == []
    assert {"weak_isr", "strong_isr"} <= {v.property for v in result.verdicts}


def test_without_helpers_it_is_not_inductive() -> None:
    model = kip_320(2, 2, 1)
    model.properties = [p for p in model.properties if p.name in ("weak_isr", "strong_isr")]
    result = induction.prove(model, known=helpers(TRUNCATION).invariants, actions=["leader_advance_hwm"])
    assert set(broken(result)) == {"weak_isr", "strong_isr"}
    assert all(v.failure and v.failure.excluded_by for v in result.failures)
