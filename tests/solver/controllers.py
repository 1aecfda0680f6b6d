"""The controller's protocol for proofs: nothing that an operator can do is left out, and epochs end nowhere."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache

from highwater.checker.engines.solver import induction
from highwater.checker.engines.solver.induction import Helpers, InductionResult, helpers
from highwater.checker.engines.solver.terms import unbounded
from highwater.checker.scenarios import catalogue
from highwater.model.language import Model, Protocol

DEFINITION = catalogue.load("replication.controller")
HELPERS: Helpers = helpers(DEFINITION)
NOT_PROVED = {
    # No helper invariant of the controller makes these inductive; explorations check them.
    "electable_replicas_are_elected_first",
    "last_known_leaders_lead_once_active",
    "strategy_none_recovers_no_replica",
    "designated_replicas_lead",
    "recoveries_elect_complete_replicas",
    "unclean_elections_do_not_wait",
    "leaders_from_outside_are_allowed",
    "members_that_leave_the_isr_stay_eligible",
    "active_leaders_stay_in_the_isr",
    "min_isr_changes_clear_the_elr",
    "reassignments_complete_when_they_can",
    "reassignments_keep_factor_and_min_isr",
    "partitions_remember_their_last_leader",
}
STEPS = tuple(p for p in (*DEFINITION.step_properties, *HELPERS.steps) if p.name not in NOT_PROVED)


@cache
def _unbounded(chosen: tuple[tuple[str, int], ...], profile: str) -> tuple[type[Protocol], dict[str, int]]:
    rules = DEFINITION.protocol.profiles[profile].rules
    return unbounded(DEFINITION.protocol, dict(chosen), rules)


def controller(brokers: int, off: Collection[str] = (), profile: str = "kip_966", **parameters: int) -> Model:
    """The controller with all of the operator's actions, any min ISR that the replicas can have, and more."""
    chosen = {
        "brokers": brokers,
        "replication_factor": brokers,
        "max_min_isr": brokers + 1,
        "reassignments": 1,
        "unclean_election": 2,
        "leads_elsewhere": 1,
        **parameters,
    }
    rules = set(DEFINITION.protocol.profiles[profile].rules)
    protocol, chosen = _unbounded(tuple(sorted(chosen.items())), profile)
    assert set(off) <= rules, "only a rule that is on can be switched off"
    on = rules - set(off)
    invariants = [i for i in (*DEFINITION.invariants, *HELPERS.invariants) if i.rule is None or i.rule in on]
    return Model(protocol(chosen, on), invariants, step_properties=STEPS)


def prove(model: Model, actions: Collection[str] | None = None) -> InductionResult:
    """The proof with the helpers."""
    return induction.prove(model, actions=actions)


def broken(result: InductionResult) -> dict[str, set[str]]:
    """Property to the actions that do not keep it."""
    found: dict[str, set[str]] = {}
    for verdict in result.failures:
        found.setdefault(verdict.property, set()).add(verdict.action)
    return found
