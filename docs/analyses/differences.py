"""Where KIP-966's text and Kafka trunk of 2024-10 decide differently: by Z3, rule by rule, and by exploration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from docs.analyses import defects, trunk_findings
from docs.analyses.kept import answer, once, search
from docs.analyses.traced import traced
from highwater.checker.asking import scenarios
from highwater.checker.asking.catalogue import scenario_files
from highwater.checker.asking.request import Overrides, Request
from highwater.checker.asking.search import SearchOptions
from highwater.checker.engines.solver.difference import Witness, differences, only_in_one
from highwater.checker.engines.solver.helpers import with_helpers
from highwater.checker.telling.counterexample import Counterexample, follow_all
from highwater.model.language.model import Model

TEXT, TRUNK, FIRST_PHASE = "kip_966", "kafka_trunk_2024_10", "kip_966_first_phase"
CONTROLLER = (
    "replication/controller/unclean-recovery",
    {"reassignments": 1, "max_min_isr": 3, "leads_elsewhere": 1},
)
"""Where the controller's rules are compared: whatever an operator can do is in it."""
EXPLORED = {"max_leader_epoch": 3, "max_partition_epoch": 4}
"""Over that where they are explored."""
STATES = 1_000_000
"""How far a scenario of Kafka trunk is searched with a rule of the proposal."""
MESSAGES = ("replication/recovery-balanced", {"fencings": 1, "elections": 1})
"""Where the rules of brokers are compared."""


@dataclass(frozen=True)
class Compared:
    """A rule, taken over alone into a profile: what Z3 says of it. No differences where the states are not alike."""

    rule: str
    base: str
    first: Model
    second: Model
    found: dict[str, Witness | None] | None

    @property
    def witnesses(self) -> dict[str, Witness]:
        """The actions that differ."""
        return {name: w for name, w in self.found.items() if w} if self.found else {}


def rules() -> list[str]:
    """The rules in which the profiles differ: the controller's first."""
    found = [rule for rule, on in request(CONTROLLER).rules.items() if on != other_rules(CONTROLLER)[rule]]
    rest = [rule for rule, on in request(MESSAGES).rules.items() if on != other_rules(MESSAGES)[rule]]
    return list(dict.fromkeys([*found, *rest]))


def other_rules(place: tuple[str, dict[str, int]]) -> dict[str, bool]:
    """The rules of Kafka trunk there, each with whether it is on."""
    return dict(request(place, TRUNK).rules)


def request(place: tuple[str, dict[str, int]], profile: str = TEXT) -> Request:
    """What is asked at a place: a scenario with more granted, under a profile."""
    name, settings = place
    return Request.of(scenarios.find(name), Overrides(settings, profile=profile))


def place_of(rule: str) -> tuple[str, dict[str, int]]:
    """Where a rule is compared."""
    return CONTROLLER if rule in request(CONTROLLER).rules else MESSAGES


@once
def compared(rule: str, base: str = TEXT) -> Compared:
    """Ask Z3 about a rule that is taken over alone."""
    place = place_of(rule)
    first = request(place, base)
    one, two = base_model(place is CONTROLLER, base), traced(first.with_rules({rule: not first.rules[rule]}))
    return Compared(rule, base, one, two, None if only_in_one(one, two) else _differences(one, two))


@once
def base_model(controllers: bool, base: str) -> Model:
    """The model that a rule is taken over into, with what is proved beside its invariants."""
    return traced(with_helpers(request(CONTROLLER if controllers else MESSAGES, base)))


def _differences(one: Model, two: Model) -> dict[str, Witness | None]:
    """Action to a witness, or None where it does the same."""
    sentences = [[i.sentence for i in model.instances] for model in (one, two)]
    found = answer("differences", [one, two], sentences, lambda: _asked_z3(one, two))
    return {name: said and _witness_of(said) for name, said in found.items()}


def _asked_z3(one: Model, two: Model) -> dict[str, Any]:
    found = differences(one, two)
    if found.stopped_by:
        raise ValueError(f"Z3 was stopped: {found.stopped_by}")
    return {name: w and [w.sentence, w.before, w.first, w.second] for name, w in found.actions.items()}


def _witness_of(said: list[Any]) -> Witness:
    sentence, *states = said
    before, first, second = (None if state is None else tuple(state) for state in states)
    assert before is not None
    return Witness(sentence, {}, before, first, second)


@once
def explored(rule: str, base: str = TEXT) -> tuple[int, tuple[Counterexample, ...]]:
    """Explore the controller's protocol with a rule taken over alone: states, and a run to each violation."""
    name, settings = CONTROLLER
    changed = {rule: not request(CONTROLLER, base).rules[rule]}
    overrides = Overrides({**settings, **EXPLORED}, changed, base)
    model = traced(Request.of(scenarios.find(name), overrides))
    result = search(model, SearchOptions(workers=1, stop_at_first=True))
    return result.distinct_states, follow_all(model, result.violations)


def comparisons(rule: str) -> list[Compared]:
    """The comparison with the proposal; where that finds nothing also the one with its first phase."""
    whole = compared(rule)
    if whole.witnesses or whole.found is None or place_of(rule) is not CONTROLLER:
        return [whole]
    return [whole, compared(rule, FIRST_PHASE)]


def defects_of(rule: str) -> list[str]:
    """The defects that have the rule off and no other, and that are violated."""
    return [
        name
        for name in defects.names()
        if name not in defects.LARGE
        and [r for r, on in scenarios.find(defects.PLACE + name).rules.items() if not on] == [rule]
        and defects.find(name).examples
    ]


def findings_of(rule: str) -> list[trunk_findings.Finding]:
    """The findings that the rule closes, alone or with others."""
    return [f for f in trunk_findings.FINDINGS if any(rule in closing for closing in f.closes)]


@once
def controller_of_trunk() -> dict[str, tuple[Counterexample, ...]]:
    """The controller's scenarios in Kafka trunk, with shortest runs to what they promise to be violated."""
    names = [n for n in scenario_files() if n.startswith("replication/controller/")]
    found = {n: _promised(n, {})[1] for n in names if scenarios.find(n).profile == TRUNK}
    return {name: examples for name, examples in found.items() if examples}


def _promised(name: str, changed: dict[str, bool]) -> tuple[int, tuple[Counterexample, ...]]:
    """The depth that was searched, and shortest runs to what a scenario promises to be violated."""
    # In order, as a set has none that is the same in every process.
    overrides = Overrides(rules=changed, properties=tuple(sorted(scenarios.find(name).promise.violated)))
    model = traced(Request.of(scenarios.find(name), overrides))
    result = search(model, SearchOptions(workers=1, stop_at_first=True, limit_states=STATES))
    return result.depth, follow_all(model, result.violations)


@once
def closed(rule: str) -> tuple[str, ...]:
    """Those that are not violated any more, to that depth and further, with the proposal's rule.

    It is asked where nothing else shows that a rule of the controller matters.
    """
    if place_of(rule) is not CONTROLLER or explored(rule, comparisons(rule)[-1].base)[1]:
        return ()
    if defects_of(rule) or findings_of(rule):
        return ()
    changed = {rule: request(CONTROLLER).rules[rule]}
    after = {name: _promised(name, changed) for name in controller_of_trunk()}
    return tuple(
        name
        for name, (depth, left) in after.items()
        if not left and depth > controller_of_trunk()[name][0].depth + 1
    )
