"""Leader completeness at message level, by induction, and the rules that the proof rests on."""

from __future__ import annotations

import pytest

from highwater.checker.engines.native.levels import search
from highwater.checker.scenarios.search import SearchOptions, SearchResult
from highwater.model.language import Model, graph
from tests.slow import largest, often, slow
from tests.solver.controllers import broken
from tests.solver.data_paths import CRASHES, DEFINITION, HELPERS, KIP_966, NOT_PROVED, STEPS, data_path, prove

COMPLETENESS = {"leader_completeness", "electable_completeness", "consumers_read_consistently"}
INVARIANTS = {i.name for i in DEFINITION.invariants}
SERVES = "electable_completeness logs_match_below_hwm consumers_read_consistently"

HOLES: dict[str, tuple[str, str]] = {
    # --- records -------------------------------------------------------------------------------------------
    # A new follower truncates to its own HWM, which can lag.
    "divergence_check": ("answer_fetch", f"{SERVES} leader_completeness"),
    # A fetch of another leader epoch counts for the HWM.
    "fetch_epoch_check": ("answer_fetch", "logs_match_below_hwm consumers_read_consistently"),
    # A record of another leader is appended.
    "fetch_response_epoch_check": (
        "take_fetch_answer",
        "leader_completeness electable_completeness logs_match_below_hwm acknowledgement_means_min_isr_copies",
    ),
    # --- epochs --------------------------------------------------------------------------------------------
    # Two brokers lead in one leader epoch; or a change keeps the partition epoch, so brokers' views
    # disagree.
    "elections_bump_leader_epoch": ("fence_broker", "told_leaders_lead leader_change_ends_the_leader_epoch"),
    "every_change_bumps_partition_epoch": ("unfence_broker", "partition_change_is_counted"),
    # --- high watermark ------------------------------------------------------------------------------------
    "hwm_within_log": ("take_fetch_answer", "hwm_within_log logs_match_below_hwm"),
    "hwm_needs_min_isr": ("answer_fetch", f"{SERVES} leader_completeness"),
    # A partition with fewer replicas than min ISR commits nothing.
    "min_isr_within_replicas": ("replay_metadata", "hwm_reaches_what_the_isr_has"),
    "hwm_gate_is_committed_isr": (
        "propose_expand",
        f"{SERVES} leader_completeness acknowledgement_means_min_isr_copies",
    ),
    # A leader alone in the ISR acknowledges records that only it has.
    "acks_all_needs_min_isr": ("take_fetch_answer", "acknowledgement_means_min_isr_copies"),
    # The HWM does not wait for a member that is being removed but can still be elected.
    "hwm_waits_for_leaving": (
        "propose_shrink",
        f"{SERVES} leader_completeness acknowledgement_means_min_isr_copies",
    ),
    # Records that consumers have read are lost or were never committed; the end offset that consumers get
    # falls.
    "consumers_read_below_hwm": (
        "write_acks_one",
        "electable_completeness leader_completeness told_end_never_falls",
    ),
    "end_waits_for_epoch_start": ("replay_metadata", "told_end_never_falls"),
    # A broker that shuts down has a view that the controller never had.
    "changes_are_no_stop_replica": ("replay_metadata", "views_are_former_states"),
    # Fetches in another leader epoch count.
    "fetch_state_per_epoch": ("replay_metadata", "electable_completeness"),
    "re_election_forgets_fetches": ("replay_metadata", "electable_completeness"),
    # --- ISR: a member's missing records show only later, so a helper invariant fails ------------------------
    "join_at_hwm": (
        "propose_expand",
        "acknowledgement_means_min_isr_copies the_electable_hold_what_is_committed",
    ),
    "join_at_epoch_start": ("propose_expand", "the_electable_hold_what_is_committed"),
    "proposal_outlives_known_metadata": ("replay_metadata", "proposals_are_the_leaders"),
    # A retried proposal has broker epochs in which no follower has fetched.
    "epochs_from_fetches": ("retry_alter_partition", "proposals_are_the_leaders"),
    "member_epoch_check": ("handle_alter_partition", "electable_completeness"),
    "partition_epoch_check": ("handle_alter_partition", "electable_completeness"),
    "ineligible_replica_check": ("handle_alter_partition", "isr_members_are_eligible"),
    # --- eligibility ---------------------------------------------------------------------------------------
    "unclean_registration": ("start_broker", "electable_completeness"),
    # Unclean elections of the last known leader instead of recovery.
    "unclean_recovery": ("unfence_broker", "electable_completeness leader_completeness"),
    "isr_may_become_empty": ("fence_broker", "elr_only_under_min_isr isr_and_elr_are_disjoint"),
    "eligible_leader_replicas": ("fence_broker", "recovery_quorum_has_min_isr_members"),
    "last_known_elr": ("start_broker", "recovery_quorum_has_min_isr_members"),
    "fenced_before_registration": ("start_broker", "recovery_quorum_has_min_isr_members"),
    "clean_registration": ("start_broker", "enough_are_electable"),
    # A clean shutdown loses unflushed records without a sign of it.
    "file_after_flush": ("finish_shutdown", "electable_completeness acknowledgement_means_min_isr_copies"),
}
"""Rule off → an action and the protocol's invariants that it then breaks, separated by spaces.

Two brokers, one record, min ISR 2. Helper invariants are listed only if no other fails.
"""

ELSEWHERE = {
    # With min ISR 1, a leader elected from the ELR alone is a large enough ISR.
    "elr_follows_election": (2, 1, ["unfence_broker"], "elr_only_under_min_isr"),
    # With two brokers and min ISR 2, no member can be proposed while records are committed.
    "hwm_over_maximal_isr": (3, 2, ["answer_fetch"], "leader_completeness"),
}
"""Rules that matter with other sizes: (brokers, min ISR, actions, an invariant that they break)."""

HARMLESS = {
    # The controller repeats the checks of eligibility and broker epochs; a partition epoch has one leader
    # epoch.
    "proposed_replica_eligible_check", "proposed_broker_epoch_check", "stale_fetch_check",
    "leader_epoch_check", "sender_is_leader_check", "sender_epoch_check", "valid_isr_check",
    # Affects only when a leader is elected, and which candidate.
    "election_on_unfencing", "leader_stays", "replica_order",
    # The budgets exclude operators and recovery; the unclean_recovery rule excludes other unclean elections.
    "reassignment_needs_min_isr", "reassignment_bumps_leader_epoch", "elr_within_replicas", "recovery_state_check",
    "balanced_election_waits_for_elr", "min_isr_change_empties_elr", "recovery_answers_expire", "recovery_epoch_check",
    "unclean_election_recovers",
    "cancellation_is_whole", "proposals_end_recovery",
    "recovery_waits_for_last_known_elr", "recovery_by_last_epoch", "recovery_by_length", "recovery_prefers_longer",
    "last_known_leader", "last_known_leader_kept", "last_known_leader_unfenced", "removed_replicas_delete",
    # The budgets exclude controller failovers, and producers that wait longer than an epoch. A broker that
    # ignores metadata while it shuts down only knows less.
    "answers_are_committed", "followers_end_waiting", "listens_while_shutting_down",
    # There are no sessions. No message is lost, so no retry is accepted. Within a leader epoch, a response
    # that arrives once fits the fetch offset.
    "live_session_check", "proposal_keeps_its_epochs", "fetch_response_check",
    # The ELR is never off and recovery is excluded. No broker stops without permission or before its
    # registration, or has a second log directory.
    "elr_off_empties_elr", "elr_off_forgets_last_known", "elr_begins_empty", "recovery_counts_unfenced",
    "unseen_stop_is_clean", "early_stop_writes_none", "clean_in_every_directory",
}  # fmt: skip
"""Rules on which no proof here rests: others do the same, or the budgets exclude their cases."""

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


def test_budgets_do_not_matter() -> None:
    """Properties only read whether there was a crash, not the budgets, so all budgets are proved."""
    model = data_path(2, 1)
    allowed = {f"budgets.{name}" for name in CRASHES}
    for prop in model.properties:
        inputs = [n.value for n in graph.reachable([prop.node]) if n.op == "input"]
        read = {model.leaves[i].path for i in inputs if model.leaves[i].path.startswith("budgets.")}
        assert read <= allowed, prop.name


@slow("proves an action without each helper invariant; the fast test has all of them")
@pytest.mark.parametrize("name", list(NEEDED)[:: often(3, 1)])
def test_every_helper_invariant_is_needed(name: str) -> None:
    brokers, records, action = NEEDED[name]
    result = prove(data_path(brokers, records, without=[name]), [action])
    assert result.stopped_by is None
    assert broken(result)


def test_every_rule_and_helper_invariant_is_in_a_table() -> None:
    assert set(NEEDED) == {i.name for i in HELPERS.invariants}
    assert set(HOLES) | set(ELSEWHERE) | HARMLESS == KIP_966
    assert len(HOLES) + len(ELSEWHERE) + len(HARMLESS) == len(KIP_966)


@slow("proves an action with each rule off; the controller has a fast test")
@pytest.mark.parametrize("rule", list(HOLES)[:: often(3, 1)])
def test_a_hole_breaks_the_proofs_that_rest_on_the_rule(rule: str) -> None:
    action, names = HOLES[rule]
    result = prove(data_path(2, 1, off=[rule]), [action])
    found, properties = set(broken(result)), set(names.split())
    assert result.stopped_by is None
    assert found & INVARIANTS == properties & INVARIANTS
    assert properties <= found


@slow("proves an action with other sizes; the controller has a fast test")
@pytest.mark.parametrize("rule", ELSEWHERE)
def test_a_hole_that_needs_another_size(rule: str) -> None:
    brokers, min_isr, actions, name = ELSEWHERE[rule]
    assert set(actions) <= broken(prove(data_path(brokers, 1, min_isr, off=[rule]), actions))[name]


@slow("another complete proof")
def test_other_rules_break_no_proof() -> None:
    """All harmless rules can be off together, except one that needs some of them on."""
    alone = "elr_off_forgets_last_known"
    assert prove(data_path(2, 1, off=HARMLESS - {alone})).proved
    assert prove(data_path(2, 1, off=[alone])).proved


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


def test_with_messages_that_come_twice_it_does_not_hold() -> None:
    """The controller accepts the second copy of a proposal that the leader gave up."""
    (wanted,) = (i for i in DEFINITION.invariants if i.name == "electable_completeness")
    model = Model(DEFINITION.protocol({"initial_isr": 2, "duplicates": 1, "fencings": 1}, KIP_966), [wanted])
    (found,) = search(model, SearchOptions(stop_at_first=True)).violations
    taken = [model.instances[number].sentence for number in found.path]
    assert taken.count("the controller takes broker 0's AlterPartition") == 2
