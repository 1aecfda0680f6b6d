"""The controller's rules on partitions small enough to check by hand against the proposals."""

from __future__ import annotations

from typing import Any

import pytest

from highwater.model.replication.controller.rules import PROFILES, RULES
from tests.generation.decided import DecisionsInFull, decisions_in_full

KIP = "kip_966_first_phase"


def rules(profile: str = KIP, off: str = "", on: str = "") -> DecisionsInFull:
    return decisions_in_full(4, frozenset((PROFILES[profile].rules - set(off.split())) | set(on.split())))


def partition(**changes: Any) -> dict[str, Any]:
    return {
        "replicas": [0, 1, 2],
        "adding": [],
        "removing": [],
        "isr": [0, 1, 2],
        "elr": [],
        "last_known_elr": [],
        "last_known_leader": None,
        "leader": 0,
        "leader_epoch": 5,
        "partition_epoch": 7,
        "leader_recovery_state": "RECOVERED",
    } | changes


def brokers(fenced: str = "", stopping: str = "") -> list[dict[str, Any]]:
    return [
        {
            "registered": True,
            "epoch": 10 + b,
            "fenced": str(b) in fenced,
            "in_controlled_shutdown": str(b) in stopping,
        }
        for b in range(4)
    ]


def given(p: dict[str, Any], *, min_isr: int = 2, unclean: bool = False, **b: str) -> dict[str, Any]:
    """The arguments of every decision: the partition and its context. ``b`` are arguments of ``brokers``."""
    return {
        "partition": p,
        "registrations": brokers(**b),
        "min_isr": min_isr,
        "unclean_election": unclean,
    }


def fence(d: DecisionsInFull, p: dict[str, Any], broker: int, **context: Any) -> Any:
    return d.fencing(**given(p, **context), broker=broker)["after"]


def unfence(d: DecisionsInFull, p: dict[str, Any], broker: int, **context: Any) -> Any:
    context = given(p, fenced="0123", **context)
    return d.unfencing(**context, broker=broker)["after"]


def register(d: DecisionsInFull, p: dict[str, Any], broker: int, clean: bool = False) -> Any:
    return d.registration(**given(p), broker=broker, clean=clean, same_incarnation=False)["after"]


def alter(d: DecisionsInFull, p: dict[str, Any], isr: list[tuple[int, int | None]], **changes: Any) -> Any:
    context = given(p)
    context["registrations"] = changes.pop("registrations", brokers())
    request = {
        "version": 3,
        "broker": 0,
        "broker_epoch": 10,
        "leader_epoch": 5,
        "partition_epoch": 7,
        "new_isr": [{"broker": b, "epoch": e} for b, e in isr],
        "leader_recovery_state": "RECOVERED",
    } | changes
    return d.alter_partition(**context, request=request, topic_known=True, partition_known=True)


# --- ELR ----------------------------------------------------------------------------------------------


def test_966_4_what_leaves_the_isr_under_min_isr_is_eligible() -> None:
    assert fence(rules(), partition(isr=[0, 1]), 1)["elr"] == [1]
    assert fence(rules(), partition(isr=[0], elr=[1]), 0, fenced="1")["elr"] == [0, 1]


def test_966_4_with_min_isr_members_the_elr_is_empty() -> None:
    assert fence(rules(), partition(), 1)["elr"] == []
    joined = alter(rules(), partition(isr=[0], elr=[1, 2]), [(0, 10), (1, 11)])["after"]
    assert (joined["isr"], joined["elr"]) == ([0, 1], [])


def test_966_3_the_isr_becomes_empty_or_keeps_its_last_member() -> None:
    after = fence(rules(), partition(isr=[0]), 0)
    assert (after["isr"], after["elr"], after["leader"]) == ([], [0], None)
    after = fence(rules("before_kip_966"), partition(isr=[0]), 0)
    assert (after["isr"], after["elr"], after["leader"]) == ([0], [], None)


def test_966_5_an_unclean_registration_leaves_isr_and_elr() -> None:
    after = register(rules(), partition(isr=[0, 1]), 0)
    assert (after["isr"], after["elr"], after["leader"]) == ([1], [], 1)
    assert register(rules(), partition(isr=[0], elr=[1]), 1)["elr"] == []
    untouched = partition(isr=[0, 1])
    assert register(rules("before_kip_966"), untouched, 0) == untouched


def test_966_12_a_clean_registration_only_leaves_the_isr() -> None:
    after = register(rules(), partition(isr=[0, 1]), 0, clean=True)
    assert (after["isr"], after["elr"], after["leader"]) == ([1], [0], 1)


def test_966_5_an_unfenced_elr_member_is_elected_where_the_isr_is_empty() -> None:
    after = unfence(rules(), partition(isr=[], elr=[1, 2], leader=None), 2)
    assert (after["leader"], after["isr"], after["elr"]) == (2, [2], [1])


@pytest.mark.parametrize(("off", "elr"), [("", []), ("elr_follows_election", [1])])
def test_966_4_the_elr_is_empty_if_an_election_makes_min_isr_members(off: str, elr: list[int]) -> None:
    after = unfence(rules(off=off), partition(isr=[], elr=[1, 2], leader=None), 2, min_isr=1)
    assert (after["leader"], after["isr"], after["elr"]) == (2, [2], elr)


def test_966_7_a_change_of_the_elr_alone_keeps_the_leader_epoch() -> None:
    after = register(rules(), partition(isr=[0], elr=[1]), 1)
    assert (after["leader_epoch"], after["partition_epoch"]) == (5, 8)


def test_966_8_a_lower_min_isr_empties_the_elr() -> None:
    change = given(partition(isr=[0], elr=[1]), min_isr=1)
    assert rules().min_isr_change(**change)["after"]["elr"] == []
    assert rules(off="min_isr_change_empties_elr").min_isr_change(**change)["nothing"]


def test_966_10_a_member_that_leaves_the_elr_uncleanly_is_remembered() -> None:
    after = register(rules(), partition(isr=[0], elr=[1]), 1)
    assert after["last_known_elr"] == [1]
    assert alter(rules(), after, [(0, 10), (2, 12)], partition_epoch=8)["after"]["last_known_elr"] == []


def test_966_11_the_last_leader_is_remembered_until_one_is_elected() -> None:
    gone = register(rules(), partition(isr=[0]), 0)
    assert (gone["isr"], gone["elr"], gone["last_known_leader"]) == ([], [], 0)
    back = unfence(rules(), gone, 0)
    assert (back["leader"], back["last_known_leader"], back["leader_recovery_state"]) == (
        0,
        None,
        "RECOVERING",
    )


def test_966_11_a_leaderless_partition_does_not_forget_it() -> None:
    p = partition(isr=[1], leader=None, last_known_leader=0)
    assert fence(rules(), p, 1)["last_known_leader"] == 0
    assert fence(rules(off="last_known_leader_kept"), p, 1)["last_known_leader"] == -1


def test_966_15_a_fenced_last_known_leader_waits() -> None:
    gone = partition(isr=[], leader=None, last_known_leader=0)
    assert unfence(rules(), gone, 1)["leader"] is None
    assert unfence(rules(off="last_known_leader_unfenced"), gone, 1)["leader"] == 0


def test_966_15_with_unclean_election_any_live_replica_leads() -> None:
    gone = partition(isr=[], leader=None, last_known_leader=0)
    assert unfence(rules(), gone, 2, unclean=True)["leader"] == 2


def test_k1_the_last_known_leader_comes_first() -> None:
    gone = partition(isr=[], leader=None, last_known_leader=0)
    first = rules(off="last_known_leader_unfenced", on="last_known_leader_first")
    assert unfence(first, gone, 2, unclean=True)["leader"] == 0


def test_an_unclean_leader_is_alone_and_recovers() -> None:
    p = partition(isr=[], elr=[1], leader=None)
    after = unfence(rules(), p, 2, unclean=True)
    assert (after["leader"], after["isr"], after["elr"]) == (2, [2], [])
    assert after["leader_recovery_state"] == "RECOVERING"


# --- elections ----------------------------------------------------------------------------------------


def test_the_first_in_replica_order_is_elected() -> None:
    assert fence(rules(), partition(replicas=[2, 1, 0], leader=2), 2)["leader"] == 1
    assert fence(rules(off="replica_order"), partition(replicas=[2, 1, 0], leader=2), 2)["leader"] == 0


def test_a_leader_that_may_lead_stays() -> None:
    assert fence(rules(), partition(leader=1), 2)["leader"] == 1
    assert fence(rules(off="leader_stays"), partition(leader=1), 2)["leader"] == 0


@pytest.mark.parametrize(
    ("election", "changes", "error"),
    [
        ("PREFERRED", {"leader": 0}, "ELECTION_NOT_NEEDED"),
        ("PREFERRED", {"leader": 1}, "NONE"),
        ("PREFERRED", {"leader": 1, "isr": [1]}, "PREFERRED_LEADER_NOT_AVAILABLE"),
        ("UNCLEAN", {"leader": 1}, "ELECTION_NOT_NEEDED"),
        ("UNCLEAN", {"leader": None, "isr": []}, "NONE"),
    ],
)
def test_966_17_elections_on_request(election: str, changes: dict[str, Any], error: str) -> None:
    found = rules().elect(**given(partition(**changes)), election=election, partition_known=True)
    answer = found["checks"].answer
    assert (answer if answer != "NONE" else found["error"]) == error


# --- AlterPartition -------------------------------------------------------------------------------------

ALL: list[tuple[int, int | None]] = [(0, 10), (1, 11)]


@pytest.mark.parametrize(
    ("changes", "isr", "error", "check"),
    [
        ({}, ALL, "NONE", None),
        ({"broker_epoch": 9}, ALL, "STALE_BROKER_EPOCH", "the sender's broker epoch is the registered one"),
        ({"leader_epoch": 6}, ALL, "NOT_CONTROLLER", "the leader epoch is not from the future"),
        ({"leader_epoch": 4}, ALL, "FENCED_LEADER_EPOCH", "the leader epoch is current"),
        ({"partition_epoch": 8}, ALL, "NOT_CONTROLLER", "the partition epoch is not from the future"),
        ({"partition_epoch": 6}, ALL, "INVALID_UPDATE_VERSION", "the partition epoch is current"),
        ({"broker": 1, "broker_epoch": 11}, ALL, "INVALID_REQUEST", "the sender is the leader"),
        ({}, [], "INVALID_REQUEST", "the ISR is not empty"),
        ({}, [(0, 10), (0, 10)], "INVALID_REQUEST", "the ISR has every member once"),
        ({}, [(0, 10), (3, 13)], "INVALID_REQUEST", "the ISR is made of replicas"),
        ({}, [(1, 11)], "INVALID_REQUEST", "the leader is in the ISR"),
        ({"leader_recovery_state": "RECOVERING"}, ALL, "INVALID_REQUEST", "a recovering leader is alone"),
        (
            {"leader_recovery_state": "RECOVERING"},
            [(0, 10)],
            "INVALID_REQUEST",
            "a recovered leader stays recovered",
        ),
        (
            {"registrations": brokers(fenced="1")},
            ALL,
            "INELIGIBLE_REPLICA",
            "no member is fenced or shutting down",
        ),
        (
            {"registrations": brokers(stopping="1")},
            ALL,
            "INELIGIBLE_REPLICA",
            "no member is fenced or shutting down",
        ),
        ({"registrations": brokers(fenced="1"), "version": 1}, ALL, "OPERATION_NOT_ATTEMPTED", None),
        ({}, [(0, 10), (1, 4)], "INELIGIBLE_REPLICA", "every member's broker epoch is the registered one"),
        ({}, [(0, 10), (1, None)], "NONE", None),
    ],
)
def test_alter_partition_answers(
    changes: dict[str, Any], isr: list[tuple[int, int | None]], error: str, check: str | None
) -> None:
    verdict = alter(rules(), partition(), isr, **changes)["checks"]
    assert verdict.answer == error
    if check:
        assert check in verdict.refused_by


def test_alter_partition_bumps_the_leader_epoch_only_in_old_versions() -> None:
    assert alter(rules(), partition(), ALL)["after"]["leader_epoch"] == 5
    assert alter(rules("before_kip_841"), partition(), ALL)["after"]["leader_epoch"] == 6


# --- reassignment ---------------------------------------------------------------------------------------


def reassign(d: DecisionsInFull, p: dict[str, Any], target: list[int]) -> Any:
    return d.reassign(**given(p), target=target, partition_known=True, factor_may_change=True)


def cancel(d: DecisionsInFull, p: dict[str, Any]) -> Any:
    return d.cancel(**given(p), partition_known=True)


def test_966_9_a_reassignment_starts_and_completes() -> None:
    started = reassign(rules(), partition(), [1, 2, 3])["after"]
    assert (started["replicas"], started["adding"], started["removing"]) == ([1, 2, 3, 0], [3], [0])
    request = {"partition_epoch": 8}
    done = alter(rules(), started, [(0, 10), (1, 11), (2, 12), (3, 13)], **request)
    assert done["error"] == "NEW_LEADER_ELECTED"
    assert (done["after"]["replicas"], done["after"]["isr"], done["after"]["leader"]) == (
        [1, 2, 3],
        [1, 2, 3],
        1,
    )
    assert (done["after"]["adding"], done["after"]["removing"]) == ([], [])


def test_966_9_it_completes_with_min_isr_members_or_with_all() -> None:
    p = partition(replicas=[0, 1, 2, 3], adding=[3], removing=[2], isr=[0, 1, 2])
    joined: list[tuple[int, int | None]] = [(0, 10), (2, 12), (3, 13)]
    assert alter(rules(), p, joined)["after"]["replicas"] == [0, 1, 3], "1 lags, min ISR is 2"
    waits = alter(rules(off="reassignment_needs_min_isr"), p, joined)["after"]
    assert waits["replicas"] == [0, 1, 2, 3]


def test_966_9_the_elr_stays_within_the_replicas() -> None:
    p = partition(replicas=[0, 1, 3], adding=[3], isr=[0, 3], elr=[])
    assert cancel(rules(off="reassignment_needs_min_isr elr_within_replicas"), p)["after"]["elr"] == [3]
    verdict = cancel(rules(), p)["checks"]
    assert verdict.answer == "INVALID_REPLICA_ASSIGNMENT"
    assert verdict.refused_by == ("min ISR members are left in the ISR",)
    assert cancel(rules(off="reassignment_needs_min_isr"), p)["after"]["elr"] == []


@pytest.mark.parametrize(
    ("target", "check"), [([], "the target has a replica"), ([0, 0], "the target has every replica once")]
)
def test_targets_that_are_refused(target: list[int], check: str) -> None:
    verdict = reassign(rules(), partition(), target)["checks"]
    assert (verdict.answer, verdict.refused_by) == ("INVALID_REPLICA_ASSIGNMENT", (check,))


# --- rules ----------------------------------------------------------------------------------------------


def test_every_rule_is_in_some_profile_and_every_profile_is_made_of_rules() -> None:
    assert set().union(*(p.rules for p in PROFILES.values())) == set(RULES)
