"""The controller's protocol for proofs: all operator actions, and unbounded epochs."""

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
STEPS = (*DEFINITION.step_properties, *HELPERS.steps)


@cache
def _unbounded(chosen: tuple[tuple[str, int], ...], profile: str) -> tuple[type[Protocol], dict[str, int]]:
    rules = DEFINITION.protocol.profiles[profile].rules
    return unbounded(DEFINITION.protocol, dict(chosen), rules)


def controller(brokers: int, off: Collection[str] = (), profile: str = "kip_966", **parameters: int) -> Model:
    """The controller with all operator actions, and any min ISR that the replicas allow or one more."""
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
    return induction.prove(model, actions=actions)


def broken(result: InductionResult) -> dict[str, set[str]]:
    """Property → the actions that break it."""
    found: dict[str, set[str]] = {}
    for verdict in result.failures:
        found.setdefault(verdict.property, set()).add(verdict.action)
    return found
